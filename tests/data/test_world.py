"""The world: counts, determinism, ground truth and planted truths."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from scipy.ndimage import binary_dilation

from handful.data.opening import open_collection
from handful.data.world import World, drawn, factors, world
from handful.data.world.borders import BORDERS, picture
from handful.data.world.glyphs import covers, mask
from handful.data.world.grounds import GROUNDS, tile
from handful.data.world.media import MEDIA
from handful.errors import BadInput

SPLITS = ("train", "valid", "test")


def digest(pixels: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def information(frame: pl.DataFrame, a: str, b: str) -> float:
    """Mutual information of two columns in nats, from counts."""
    joint = frame.group_by(a, b).len()["len"].to_numpy() / len(frame)
    entropy = [frame[c].value_counts()["count"].to_numpy() / len(frame) for c in (a, b)]
    return float(-sum((p * np.log(p)).sum() for p in entropy) + (joint * np.log(joint)).sum())


def values_of(w: World, split: str, column: str) -> set[str]:
    return set(w.table.filter(pl.col("split") == split)[column].to_list())


def test_there_are_as_many_values_as_promised():
    assert len(factors.values("glyph")) >= 240 and len(set(factors.values("glyph"))) == len(factors.values("glyph"))
    assert len(set(factors.scripts().values())) >= 8
    for factor in ("colour", "ground", "border"):
        assert len(factors.values(factor)) >= 40
    assert all(covers(c) for c in factors.characters().values() if len(c) == 1)
    assert len(MEDIA) >= 8


def test_no_glyph_nearly_coincides_with_another():
    masks = np.array([mask(c, 48) for c in factors.characters().values()])
    wide = np.array([binary_dilation(m) for m in masks])
    m, d = (a.reshape(len(masks), -1).astype(np.float32) for a in (masks, wide))
    covered = (m @ d.T) / m.sum(axis=1)[:, None]
    alike = np.minimum(covered, covered.T) - 2 * np.eye(len(masks))
    worst = np.unravel_index(alike.argmax(), alike.shape)
    names = factors.values("glyph")
    assert alike.max() < 0.93, [names[i] for i in worst]
    assert masks.reshape(len(masks), -1).mean(axis=1).min() > 0.015


def test_colours_are_apart():
    rgb = np.array(list(factors.COLOURS.values()), dtype=float)
    gaps = np.abs(rgb[:, None] - rgb[None]).sum(-1) + 1000 * np.eye(len(rgb))
    assert gaps.min() > 50


def test_grounds_can_be_told_apart_by_their_colours_and_edges():
    def describe(crop: np.ndarray) -> np.ndarray:
        x = crop.astype(float)
        parts = [
            x.mean((0, 1)),
            x.std((0, 1)),
            np.abs(np.diff(x, axis=0)).mean((0, 1)),
            np.abs(np.diff(x, axis=1)).mean((0, 1)),
        ]
        return np.concatenate(parts)

    rng = np.random.default_rng(0)
    crops = []
    for name in GROUNDS:
        t = tile(name, 32)
        spots = rng.integers(0, 64, (24, 2))
        crops.append([describe(t[a : a + 32, b : b + 32]) for a, b in spots])
    x = np.array(crops)
    centres = x[:, :12].mean(axis=1)
    scale = x.std(axis=1).mean(axis=0)
    guess = (np.abs(x[:, 12:, None] - centres) / scale).sum(-1).argmin(-1)
    assert (guess == np.arange(len(GROUNDS))[:, None]).mean() > 0.95


def test_borders_are_apart_and_leave_the_middle_free():
    seen = np.array([picture(name, 32).astype(float) for name in BORDERS])
    gaps = np.abs(seen[:, None] - seen[None]).mean((2, 3, 4)) + 1000 * np.eye(len(seen))
    assert gaps.min() > 4
    assert (seen[:, 8:24, 8:24] == 0).all()
    assert (seen[..., 3] > 100).reshape(len(seen), -1).mean(1).min() > 0.04


def test_pixels_do_not_depend_on_order_batch_or_what_was_read_before():
    knobs = {"classes": 40, "images": 6, "styles": 10}
    whole = world(**knobs)
    pixels = whole.read(np.arange(len(whole)))
    again = world(**knobs)
    order = np.random.default_rng(1).permutation(len(again))
    for start in range(0, len(order), 7):
        rows = order[start : start + 7]
        assert np.array_equal(again.read(rows), pixels[rows])
    assert np.array_equal(again.read(np.array([5, 5, 3])), pixels[[5, 5, 3]])
    assert not np.array_equal(pixels[0], pixels[1])


def test_pixels_are_the_same_in_another_process():
    w = world(classes=12, images=5, label="glyph", ground=0.5)
    code = (
        "import handful as m, hashlib, numpy as np; "
        f"w = m.open({w.spec!r}); "
        "print(w.id, hashlib.sha256(w.read(np.arange(len(w))).tobytes()).hexdigest())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == [w.id, digest(w.read(np.arange(len(w))))]


def test_the_drawing_has_not_changed_without_a_new_version():
    w = world(classes=60, images=4, styles=10, noise=0.5)
    pixels = w.read(np.arange(len(w)))
    assert (w.card.version, digest(pixels)[:16]) == ("1", "f2e0de042f568389"), (
        "pixels changed: raise draw.VERSION and this digest"
    )


def test_worlds_too_large_to_remember_are_drawn_again(monkeypatch):
    small = world(classes=5, images=3)
    monkeypatch.setattr(drawn, "REMEMBER", 0)
    forgetful = world(classes=5, images=3)
    assert forgetful._pixels is None
    assert np.array_equal(forgetful.read(np.arange(15)), small.read(np.arange(15)))


def test_equal_knobs_give_equal_ids_and_other_knobs_others():
    assert (
        world(ground=0.9).id == open_collection("world:ground=0.9").id == open_collection("world: ground = 0.90 ,").id
    )
    assert world().id.startswith("world@1/32#")
    ids = {world(**k).id for k in ({}, {"ground": 0.9}, {"seed": 1}, {"size": 28}, {"grey": True}, {"noise": 0.0})}
    assert len(ids) == 6
    w = world(label=("colour", "glyph"), mask=0.2, disjoint=("ground",), size_range=(0.4, 0.8), grey=True, values=9)
    back = open_collection(w.spec)
    assert back.id == w.id and back.knobs == w.knobs and back.table.equals(w.table)


def test_a_world_travels_to_workers_as_its_knobs():
    w = world(classes=5, images=3)
    copy = pickle.loads(pickle.dumps(w))
    assert copy.id == w.id and np.array_equal(copy.read(np.arange(4)), w.read(np.arange(4)))
    assert len(pickle.dumps(w)) < 5000


def test_shapes_of_the_images():
    assert world(classes=3, images=2, size=28, grey=True).read(np.arange(4)).shape == (4, 28, 28, 1)
    assert world(classes=3, images=2, size=84).read(np.array([], dtype=int)).shape == (0, 84, 84, 3)
    assert world(classes=3, images=2, size=50).read(np.arange(2)).dtype == np.uint8


def test_another_colour_changes_the_glyph_and_nothing_else():
    w = world(classes=60, images=3)
    rows = np.arange(len(w))
    before, after = w.read(rows), w.what_if(rows, colour="magenta")
    changed = (before != after).any(-1)
    assert not (changed & ~w.inked(rows)).any()
    assert changed.any((1, 2)).mean() > 0.95


def test_another_ground_or_border_leaves_the_middle_of_the_strokes():
    w = world(classes=60, images=3, noise=0.0)
    rows = np.flatnonzero(w.table["style"].str.starts_with("bold").to_numpy())
    red = w.what_if(rows, colour="red").astype(int)
    blue = w.what_if(rows, colour="blue").astype(int)
    body = np.abs(red - blue).sum(-1) > 340
    for change in ({"ground": "snow"}, {"border": "checks"}):
        other = w.what_if(rows, colour="red", **change).astype(int)
        differs = np.abs(other - red).sum(-1) > 30
        assert body.any((1, 2)).all() and not (differs & body).any()
        assert differs.any((1, 2)).mean() > 0.9


def test_another_glyph_leaves_the_ground_around_both():
    w = world(classes=30, images=3)
    rows = np.arange(len(w))
    before, after = w.read(rows), w.what_if(rows, glyph="disc")
    corner = np.zeros((32, 32), dtype=bool)
    corner[0, :] = corner[:, 0] = True
    same = (before == after).all(-1)[:, corner].all(1)
    touching = w.inked(rows)[:, corner].any(1)
    assert same[~touching].mean() > 0.8


def test_what_if_refuses_what_is_not_there():
    w = world(classes=3, images=2)
    with pytest.raises(BadInput, match="grass"):
        w.what_if(np.arange(2), ground="gras")
    with pytest.raises(BadInput, match="ground"):
        w.what_if(np.arange(2), gruond="grass")


@pytest.mark.parametrize("label", ["glyph", "colour", "border"])
def test_the_ground_tells_the_training_class_as_strongly_as_the_knob_says(label):
    found = {}
    for strength in (0.0, 0.5, 0.9, 1.0):
        w = world(label=label, classes=40, images=48, ground=strength)
        parts = {s: w.table.filter(pl.col("split") == s) for s in SPLITS}
        found[strength] = information(parts["train"], label, "ground")
        assert information(parts["test"], label, "ground") < 1e-9
        assert information(parts["valid"], label, "ground") < 1e-9
        home = parts["train"].group_by(label, "ground").len().group_by(label).agg(pl.col("len").max())["len"]
        assert abs(home.mean() / 48 - max(strength, 1 / 48)) < 0.03
    assert found[0.0] < 1e-9
    assert found[0.0] < found[0.5] < found[0.9] < found[1.0]
    assert found[1.0] == pytest.approx(np.log(24), abs=1e-9)


def test_test_classes_are_seen_on_every_context_equally_often():
    w = world(classes=40, images=40, contexts=8)
    for split in ("valid", "test"):
        counts = w.table.filter(pl.col("split") == split).group_by("glyph", "ground").len()
        assert set(counts["len"]) == {5}
        assert set(counts.group_by("glyph").len()["len"]) == {8}


def test_free_factors_do_not_tell_the_class():
    frame = world(classes=20, images=2000).table.filter(pl.col("split") == "train")
    for factor in ("colour", "border", "size", "place", "style", "noise"):
        n = frame[factor].n_unique()
        expected = (12 - 1) * (n - 1) / (2 * len(frame))
        assert information(frame, "glyph", factor) < 2.0 * expected, factor


def test_classes_are_disjoint_and_other_factors_when_asked():
    w = world(disjoint=("colour", "ground", "border"), images=4, contexts=6)
    for column in ("glyph", "colour", "ground", "border"):
        a, b, c = (values_of(w, s, column) for s in SPLITS)
        assert a and b and c and not (a & b or a & c or b & c), column
    shared = world(images=8)
    assert values_of(shared, "train", "colour") == values_of(shared, "test", "colour")
    sizes = [len(values_of(shared, s, "glyph")) for s in SPLITS]
    assert sum(sizes) == len(factors.values("glyph"))
    assert np.allclose(np.array(sizes) / sum(sizes), (0.6, 0.15, 0.25), atol=0.01)


def test_whole_scripts_can_be_kept_apart():
    w = world(disjoint="script", images=2)
    assert not values_of(w, "train", "script") & values_of(w, "test", "script")
    by_script = world(label="script", images=30)
    assert not values_of(by_script, "train", "glyph") & values_of(by_script, "test", "glyph")
    known = factors.scripts()
    assert all(known[g] == s for g, s in by_script.table.select("glyph", "script").rows())


@pytest.mark.parametrize("share", [0.055, 0.2, 1.0])
@pytest.mark.parametrize("label", [("colour", "glyph"), ("ground", "glyph"), ("border", "glyph")])
def test_pairs_exist_in_the_share_that_the_mask_says(label, share):
    w = world(label=label, mask=share, images=3)
    assert w.card.labels == label
    for split in SPLITS:
        part = w.table.filter(pl.col("split") == split)
        pairs = part.select(label).unique()
        n1, n2 = (part[c].n_unique() for c in label)
        assert len(pairs) == max(round(share * n1 * n2), n1, n2)
        assert set(part.group_by(label).len()["len"]) == {3}
    for column in label:
        assert not values_of(w, "train", column) & values_of(w, "test", column)
        assert sum(len(values_of(w, s, column)) for s in SPLITS) == 40


def test_data_sets_have_classes_and_splits_of_their_own():
    w = world(styles=8, images=3)
    frame = w.table.select("dataset", "glyph", "split").unique()
    assert frame["dataset"].n_unique() == 8
    assert frame["glyph"].n_unique() == len(frame)
    assert frame.select("dataset", "split").unique()["dataset"].n_unique() == len(
        frame.select("dataset", "split").unique()
    )
    within = world(styles=4, images=3, split_by="class").table.select("dataset", "glyph", "split").unique()
    assert len(within.select("dataset", "split").unique()) == 12
    assert within["glyph"].n_unique() == len(within)


def test_media_look_different_from_each_other():
    w = world(styles=10, images=8, classes=100)
    pixels = w.read(np.arange(len(w))).astype(float)
    x = np.concatenate([pixels.mean((1, 2)), pixels.std((1, 2)), np.abs(np.diff(pixels, axis=1)).mean((1, 2))], axis=1)
    codes = w.table["dataset"].rank("dense").to_numpy().astype(int) - 1
    odd = np.arange(len(w)) % 2 == 1
    centres = np.array([x[odd & (codes == c)].mean(0) for c in range(10)])
    guess = np.abs(x[~odd][:, None] - centres).sum(-1).argmin(1)
    assert (guess == codes[~odd]).mean() > 0.5


def test_crossed_worlds_hold_every_combination():
    w = world(crossed=True, label="colour", values=(4, 3, 3), glyph_values=(5, 3, 4), copies=2)
    crossed = ["glyph", "colour", "ground", "border"]
    for split, n, glyphs in zip(SPLITS, (4, 3, 3), (5, 3, 4), strict=True):
        part = w.table.filter(pl.col("split") == split)
        counts = part.group_by(crossed).len()["len"]
        assert len(counts) == glyphs * n**3 and set(counts) == {2}
    for column in crossed:
        assert not values_of(w, "train", column) & values_of(w, "test", column)
    pixels = w.read(np.array([0, 1]))
    assert not np.array_equal(pixels[0], pixels[1])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_planted_duplicates_are_there_and_no_others(share):
    w = world(classes=60, images=20, duplicates=share, size=24)
    hashes = np.array([digest(p) for p in w.read(np.arange(len(w)))])
    test, train = (np.flatnonzero((w.table["split"] == s).to_numpy()) for s in ("test", "train"))
    shared = np.isin(hashes[test], hashes[train])
    assert shared.sum() == len(w.copies) == round(share * len(test))
    assert set(test[shared]) == set(w.copies[:, 0].tolist())
    assert (hashes[w.copies[:, 0]] == hashes[w.copies[:, 1]]).all()
    assert not values_of(w, "train", "glyph") & values_of(w, "test", "glyph")


def test_repeats_stay_inside_their_class():
    w = world(classes=40, images=20, repeats=0.3)
    assert len(w.copies) == 0.3 * 10 * 20
    glyph = w.table["glyph"].to_numpy()
    assert (glyph[w.copies[:, 0]] == glyph[w.copies[:, 1]]).all()
    assert not set(w.copies[:, 0]) & set(w.copies[:, 1])
    assert (w.table["split"].to_numpy()[w.copies] == "test").all()


def test_near_duplicates_differ_in_noise_alone():
    w = world(classes=40, images=20, duplicates=0.5, near=True, noise=0.4)
    a, b = (w.read(w.copies[:, i]).astype(int) for i in (0, 1))
    off = np.abs(a - b).mean((1, 2, 3))
    noisy = (w.table["noise"].to_numpy() != "clean")[w.copies[:, 0]]
    assert (off[~noisy] == 0).all() and (off[noisy] > 0).all()
    strangers = np.abs(a - np.roll(b, 1, axis=0)).mean((1, 2, 3))
    assert off.max() < np.median(strangers)


def test_fixed_factors_are_neutral():
    w = world(classes=10, images=3, fixed=("ground", "border", "noise"))
    assert (
        set(w.table["ground"]) == {"plain"}
        and set(w.table["border"]) == {"none"}
        and set(w.table["noise"]) == {"clean"}
    )
    assert w.card.context is None
    pixels = w.read(np.arange(len(w)))
    outside = ~w.inked(np.arange(len(w)))
    flat = [np.ptp(p[o].astype(int), axis=0).max() for p, o in zip(pixels, outside, strict=True)]
    assert max(flat) == 0


def test_the_glyph_can_be_read_by_a_simple_eye():
    """1-NN on pixels with everything but place and noise fixed: far above chance, so glyphs are legible at 32x32."""
    w = world(classes=100, images=10, fixed=("ground", "border", "noise", "style", "place", "size"), grey=True)
    train = w.train
    pixels = w.read(train.rows).reshape(len(train), -1).astype(float)
    new = np.arange(len(train)) % 10 >= 8
    a, b = pixels[new], pixels[~new]
    distance = (a * a).sum(1)[:, None] - 2 * a @ b.T + (b * b).sum(1)
    assert (train.classes[~new][distance.argmin(1)] == train.classes[new]).mean() > 0.9


@pytest.mark.parametrize(
    "text, says",
    [
        ("gruond=0.9", "did you mean ground"),
        ("ground=much", "option ground cannot be 'much'; give a number"),
        ("images=2.5", "whole number"),
        ("grey=maybe", "true or false"),
        ("label=glif", "glyph"),
        ("label=glyph+script", "one script"),
        ("label=a+b+c", "not a factor"),
        ("ground=1.5", "between 0 and 1"),
        ("ground=nan", "between 0 and 1"),
        ("size=4", "between 8 and 512"),
        ("splits=0.5+0.5", "three shares"),
        ("classes=41,label=colour", "40 values"),
        ("ground=0.5,label=ground", "neither label"),
        ("mask=0.1", "two factors"),
        ("crossed=true,values=20", "lower values"),
        ("crossed=true,label=size", "crossed needs"),
        ("styles=99", "between 1"),
        ("contexts=60", "between 0 and 48"),
        ("ground", "key=value"),
        ("seed=1,seed=2", "twice"),
        ("size_range=0.9+0.2", "rising"),
        ("images=inf", "whole number"),
    ],
)
def test_wrong_knobs_are_refused_in_one_sentence(text, says):
    with pytest.raises(BadInput) as caught:
        open_collection(f"world:{text}")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_contexts_and_splits_reach_the_card():
    w = world(classes=10, images=8)
    assert w.card.context == "ground" and w.card.schemes == ("split",)
    assert w.train.n_classes + w.valid.n_classes + w.test.n_classes == 10
    assert world(label="ground", images=2).card.context is None
