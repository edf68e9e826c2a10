"""Rules draw every class once, hide what they must; metrics by hand; semantics from words, files and label columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from handful.data.semantics import Semantics, factor_semantics, gloss_vector, open_semantics, read_descriptions
from handful.data.taxonomy import Taxonomy
from handful.data.words import WordVectors
from handful.errors import BadInput, Infeasible, Missing
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.zero_shot import (
    GeneralisedAccuracy,
    ZeroShotAccuracy,
    harmonic,
    hits_at,
    over_classes,
    stacking,
)
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from made.planted import planted


def test_every_class_is_asked_once_and_every_image_too() -> None:
    collection, semantics = planted(0.5)
    rule = ZeroShot(collection.test, semantics)
    rule.check()
    episodes = rule.draw_block(0, 0, rule.size)
    assert rule.size == 10 and [e.side["class"] for e in episodes] == collection.test.class_names
    assert sorted(np.concatenate([e.query for e in episodes])) == sorted(collection.test.rows)
    for e in episodes:
        assert (
            len(e.support) == 0
            and e.names[0][e.query_labels[0]] == e.side["class"]
            and (e.query_labels == e.query_labels[0]).all()
        )
        support = rule.support(e)
        assert support.images is None and support.labels is None and support.descriptions is rule.descriptions
    np.testing.assert_array_equal(rule.descriptions[0], semantics.descriptions.of(collection.test.class_names))
    assert rule.draw(0, 10).side["class"] == rule.draw(0, 0).side["class"]


def test_generalised_tasks_offer_both_and_ask_for_held_out_images() -> None:
    collection, semantics = planted(0.5)
    rule = GeneralisedZeroShot(collection.test, semantics)
    rule.check()
    assert set(rule.candidates) == set(collection.train.class_names) | set(collection.test.class_names)
    episodes = rule.draw_block(0, 0, rule.size)
    seen = [e for e in episodes if e.side["seen"]]
    assert len(seen) == collection.train.n_classes and rule.size == 10 + collection.train.n_classes
    asked = set(np.concatenate([e.query for e in seen]).tolist())
    assert asked == set(collection.part("test_seen").rows.tolist()) and not asked & set(collection.train.rows.tolist())
    for e in episodes:
        assert e.names[0][e.query_labels[0]] == e.side["class"]


def test_shortages_are_named() -> None:
    collection, semantics = planted(0.5)
    with pytest.raises(Infeasible, match=r"fewer than 50 images \(test00"):
        ZeroShot(collection.test, semantics, queries=50).check()
    assert len(ZeroShot(collection.test, semantics, queries=3).draw(1, 0).query) == 3
    one = collection.test.where(collection.test.classes == 0, "one")
    with pytest.raises(Infeasible, match="choose among two or more"):
        ZeroShot(one, semantics).check()
    with pytest.raises(BadInput, match=r"classes are in train and in train \(train01"):
        GeneralisedZeroShot(collection.train, semantics).check()


def test_hits_share_ties() -> None:
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 1.0], [2.0, 2.0, 0.0], [0.0, 1.0, 2.0]])
    assert hits_at(scores, np.array([0, 0, 1, 0]), 1).tolist() == [1.0, 1 / 3, 0.5, 0.0]
    assert hits_at(scores, np.array([0, 0, 1, 0]), 2).tolist() == [1.0, 2 / 3, 1.0, 0.0]


def frame(rows: list[tuple[str, int, float, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["class", "seen", "hit1", "queries"], orient="row").with_columns(
        hit5=pl.col("hit1")
    )


def test_over_images_and_over_classes_by_hand() -> None:
    table = frame([("a", 0, 1.0, 30), ("b", 0, 0.0, 10), ("a", 0, 1.0, 30)])
    metric = ZeroShotAccuracy()
    assert metric.reduce(table, "top1").value == pytest.approx(0.75)
    per_class = metric.reduce(table, "top1_class")
    assert per_class.value == pytest.approx(0.5) and per_class.over == "classes" and per_class.n == 2
    assert per_class == mean_interval(np.array([1.0, 0.0]), over="classes")


def test_equal_weights_give_the_plain_interval_and_coverage_holds() -> None:
    values = np.array([0.1, 0.5, 0.7, 0.4])
    a, b = over_classes(values, np.full(4, 7.0)), over_classes(values)
    assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high))
    rng = np.random.default_rng(0)
    weights = rng.integers(5, 50, size=60).astype(float)
    covered = 0
    for _ in range(400):
        draw = over_classes(rng.beta(2, 3, size=60), weights)
        covered += draw.low <= 0.4 <= draw.high
    assert 0.91 < covered / 400 < 0.985


def test_harmonic_mean_and_its_interval() -> None:
    metric = GeneralisedAccuracy()
    table = frame([("a", 1, 0.8, 10), ("b", 1, 0.6, 10), ("c", 0, 0.3, 10), ("d", 0, 0.1, 10)])
    assert metric.reduce(table, "seen1").value == pytest.approx(0.7)
    assert metric.reduce(table, "unseen1").value == pytest.approx(0.2)
    assert metric.reduce(table, "harmonic1").value == pytest.approx(2 * 0.7 * 0.2 / 0.9)
    s, u = Estimate(0.7, 0.65, 0.75, "classes", 50), Estimate(0.2, 0.17, 0.23, "classes", 50)
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.7, 0.05 / 1.96, 200_000), rng.normal(0.2, 0.03 / 1.96, 200_000)
    assert harmonic(s, u).half == pytest.approx(1.96 * (2 * a * b / (a + b)).std(), rel=0.02)
    zero = Estimate(0.0, 0.0, 0.0, "classes", 5)
    assert harmonic(zero, zero).value == 0.0


def test_stacking_runs_from_all_seen_to_all_unseen() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, 300)
    scores = rng.normal(size=(300, 6))
    scores[np.arange(300), truth] += 1.5
    seen = np.array([True, True, True, False, False, False])
    scores[:, seen] += 1.0
    curve = stacking(scores, truth, seen)
    assert curve.unseen[0] == 0.0 and curve.seen[-1] == 0.0
    assert (np.diff(curve.seen) <= 0).all() and (np.diff(curve.unseen) >= 0).all()
    for bias, s, u in zip(curve.bias[1:-1:40], curve.seen[1:-1:40], curve.unseen[1:-1:40], strict=True):
        guess = (scores - (bias + 1e-9) * seen).argmax(1)
        known = seen[truth]
        assert s == pytest.approx((guess == truth)[known].mean()) and u == pytest.approx(
            (guess == truth)[~known].mean()
        )
    at = curve.harmonic.max()
    plain = scores.argmax(1) == truth
    s, u = plain[seen[truth]].mean(), plain[~seen[truth]].mean()
    assert at >= 2 * s * u / (s + u) and 0 < curve.area < 1 and 0.5 < curve.best < 1.5
    with pytest.raises(BadInput, match="seen and unseen candidates"):
        stacking(scores, truth, np.ones(6, bool))


def test_semantics_from_words_keep_the_graph_above() -> None:
    tree = Taxonomy.of(
        [("n1", "n3"), ("n2", "n3"), ("n3", "n4"), ("n5", "n4")],
        words={"n1": ["zebra"], "n2": ["wild horse"], "n3": ["equine"], "n4": ["zzz"], "n5": ["rock"]},
        glosses={"n1": 'a striped horse; "the zebra ran"', "n2": "a wild one", "n3": "x", "n5": "y"},
    )
    vectors = WordVectors(("zebra", "wild", "horse", "equine", "striped", "ran"), np.eye(6, dtype=np.float32))
    made = Semantics.of_words(tree, vectors, ["n2", "n1"])
    assert made.taxonomy is not None and made.taxonomy.ids.tolist() == ["n1", "n2", "n3", "n4"]
    np.testing.assert_array_equal(made.nodes, [[1, 0, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0] * 6])
    matrix, places = made.shown(["n1"])
    assert matrix.tolist() == [[1, 0, 0, 0, 0, 0]] and places.tolist() == [[0]]
    np.testing.assert_array_equal(gloss_vector(tree.gloss("n1"), vectors), [0, 0, 0.5, 0, 0.5, 0])
    with pytest.raises(BadInput, match=r"no vector for 1 of 2 classes \(n5 \(rock\)\)"):
        Semantics.of_words(tree, vectors, ["n1", "n5"])


def test_descriptions_are_read_and_wrong_files_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("class,legs,stripes\nzebra,4,1\nhorse,4,0\n")
    read = read_descriptions(tmp_path / "a.csv")
    assert read.names == ("zebra", "horse") and read.matrix.tolist() == [[4, 1], [4, 0]]
    collection, semantics = planted(0.0)
    file = semantics.save(tmp_path / "a.npz")
    again = open_semantics(str(file), collection)
    assert again.taxonomy is None and again.descriptions.names == semantics.descriptions.names
    np.testing.assert_array_equal(again.descriptions.matrix, semantics.descriptions.matrix)
    for text, message in [
        ("a,1\nb,x\n", "row 2"),
        ("a,1\nb,1,2\n", "row 2: 2 numbers where row 1 has 1"),
        ("", "no description"),
    ]:
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(BadInput, match=message):
            read_descriptions(tmp_path / "b.csv")
    (tmp_path / "b.npz").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="names"):
        read_descriptions(tmp_path / "b.npz")
    with pytest.raises(Missing):
        read_descriptions(tmp_path / "absent.npz")
    with pytest.raises(Missing, match=r"carries no descriptions.npz"):
        open_semantics("stored", collection)


def test_label_columns_describe_compositions() -> None:
    from handful.data.collection import Card, Collection, as_table

    table = as_table({"shape": ["disc", "disc", "star"], "colour": ["red", "blue", "red"]})
    card = Card("mini", "features", (1,), ("shape", "colour"), hash="0" * 64)
    made = factor_semantics(Collection(card, table, np.zeros((3, 1), np.float32)))
    assert made.descriptions.names == ("disc/blue", "disc/red", "star/red")
    # Places: disc, star, blue, red.
    assert made.descriptions.matrix.tolist() == [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]]
    assert made.taxonomy is not None and made.taxonomy.distances(["disc/blue"], ["disc/red", "star/red"]).tolist() == [
        [2, 4]
    ]
