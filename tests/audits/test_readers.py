"""The score split in every setting, on planted truths: what was planted takes its share, and the shares add up."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from handful.audits.context import Context
from handful.audits.readers import CONTEXT, COPIES, NEAREST, NO_LABELS, TRAINING_COPIES, WHOLE, by_codes
from handful.audits.score_split import CHANCE, REST, ScoreSplit
from handful.audits.tasks import narrowed, tasks_of
from handful.data.collection import Card, Collection, as_table
from handful.data.semantics import Semantics
from handful.data.taxonomy import Taxonomy
from handful.errors import Infeasible
from handful.methods.contract import make
from handful.tasks import NWay
from handful.tasks.context import IID, OODConflict
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from made.patterns import blobs


def vectors(
    table: dict[str, object], x: np.ndarray, labels: tuple[str, ...] = ("kind",), name: str = "made"
) -> Collection:
    context = "context" if "context" in table else None
    card = Card(name, "features", x.shape[1:], labels, schemes=("split",), context=context, hash=name * 20)
    return Collection(card, as_table(table), x.astype(np.float32))


def split_score(c: Collection, **options):
    context = Context(c, **{"net": "pixels", "budget": 60, "seconds": 3, **options})
    with context.pinned():
        (found,) = ScoreSplit().run(context)
    parts = {name: e["tasks"]["value"] for name, e in found.details["parts"].items()}
    assert sum(parts.values()) == pytest.approx(found.details["score"]["value"], abs=1e-12)
    for side in found.details.get("sides", {}).values():
        assert sum(side["parts"].values()) == pytest.approx(side["score"], abs=1e-12)
    assert not set(parts) & set(found.details["missing"]) and all(found.details["missing"].values())
    return found, parts


# pairs


def pairs(tangled: bool) -> Collection:
    """Pairs of features that add up from their primitives, or are the pair's own."""
    rng = np.random.default_rng(0)
    a, b = (v.reshape(-1).repeat(12) for v in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    means = rng.normal(size=(64, 64))[8 * a + b] if tangled else np.eye(16)[a] + np.eye(16)[8 + b]
    names = {"a": [f"a{i}" for i in a], "b": [f"b{i}" for i in b], "split": ["test"] * len(a)}
    return vectors(names, means + rng.normal(0, 0.05, means.shape), ("a", "b"), f"pairs{tangled}")


def test_pairs_whose_features_are_their_own_are_seen_as_wholes_and_others_are_composed():
    found, parts = split_score(pairs(tangled=True))
    score = found.details["score"]["value"]
    assert "5 x 5 pairs" in found.sentence and found.light == "red"
    assert parts[WHOLE] >= score - parts[CHANCE] - 0.02 and parts[REST] < 0.02
    assert set(found.details["missing"]) == {NO_LABELS, CONTEXT, NEAREST}
    found, parts = split_score(pairs(tangled=False))
    sides = found.details["sides"]
    assert sides["seen pairs"]["score"] > 0.95 and sides["unseen pairs"]["score"] > 0.9
    assert sides["seen pairs"]["parts"][WHOLE] > 0.9 > 0.1 > abs(sides["seen pairs"]["parts"][REST])
    assert sides["unseen pairs"]["parts"][REST] > 0.9 and sides["unseen pairs"]["parts"][WHOLE] <= 0


def test_a_number_that_only_the_pair_has_tells_seen_pairs_and_one_of_each_primitive_tells_nothing_wrong():
    c = pairs(tangled=False)
    context = Context(c, net="pixels")
    asked = tasks_of(context)
    assert asked.setting == "pairs"
    seen = np.concatenate([e.seen[e.query_labels] for e in asked.episodes(20)])
    found = by_codes(asked, c.whole.classes, 20)
    assert (found.right[seen] == 1).all() and (found.given[~seen] == -1).all() and (found.ways == 25).all()
    assert (by_codes(asked, np.zeros(len(c), dtype=np.int64), 20).right.mean()) < 0.2


def test_without_enough_pairs_a_pair_collection_is_asked_by_n_way():
    c = pairs(tangled=False)
    thin = np.flatnonzero(np.asarray([a[1:] == b[1:] for a, b in c.table.select("a", "b").rows()]))
    few = Collection(c.card, c.table[thin], c.read(thin))
    found, parts = split_score(few)
    assert "5-way" in found.sentence and NO_LABELS in parts


# zero-shot


def described(composed: bool, held: bool = False) -> tuple[Collection, Semantics]:
    """Test classes that look like one training class and are described like it, or that combine two attributes anew."""
    rng = np.random.default_rng(1)
    if composed:
        grid = [(a, b) for a in range(6) for b in range(6)]
        split = ["test" if a == b else "train" for a, b in grid]
        matrix = np.asarray([np.concatenate([np.eye(6)[a], np.eye(6)[b]]) for a, b in grid])
        means = matrix
    else:
        split = ["train"] * 12 + ["test"] * 6
        own = rng.normal(size=(12, 16))
        means = np.concatenate([own, own[:6]])
        words = rng.normal(size=(12, 16))
        matrix = np.concatenate([words, words[:6] + rng.normal(0, 0.05, (6, 16))])
    names = [f"k{i:02d}" for i in range(len(split))]
    label = np.repeat(np.arange(len(split)), 20)
    sides = np.asarray(split)[label]
    if held:
        sides = np.where((sides == "train") & (np.arange(len(label)) % 20 < 5), "test_seen", sides)
    table = {"kind": [names[i] for i in label], "split": sides}
    x = means[label] + rng.normal(0, 0.05, (len(label), means.shape[1]))
    return vectors(table, x, name=f"described{composed}{held}"), Semantics.of(names, matrix)


def tree(semantics: Semantics) -> Semantics:
    """The same with a hierarchy: a test class beside the training class that it is a copy of."""
    d = semantics.descriptions
    edges = [(name, f"group {i % 12}") for i, name in enumerate(d.names)] + [(f"group {i}", "*") for i in range(12)]
    return Semantics.of(d.names, d.matrix, Taxonomy.of(edges, source="planted"))


@pytest.mark.parametrize("hierarchy", [False, True])
def test_test_classes_that_are_copies_of_training_classes_are_the_nearest_class(hierarchy):
    c, semantics = described(composed=False)
    semantics = tree(semantics) if hierarchy else semantics
    found, parts = split_score(c, rule=lambda part: ZeroShot(part, semantics))
    assert found.details["score"]["value"] > 0.95 and found.over == "new classes" and found.over_classes is None
    assert parts[CHANCE] == pytest.approx(1 / 6) and parts[NEAREST] > 0.75 and abs(parts[REST]) < 0.05
    assert (
        found.light == "red" and set(found.details["missing"]) == {NO_LABELS, CONTEXT} and parts[TRAINING_COPIES] == 0
    )


def test_new_combinations_of_attributes_are_more_than_the_nearest_class():
    c, semantics = described(composed=True)
    found, parts = split_score(c, rule=lambda part: ZeroShot(part, semantics))
    assert found.details["score"]["value"] > 0.95 and parts[REST] > 0.5 and found.light == "green"


@pytest.mark.parametrize("held", [True, False])
def test_generalised_zero_shot_asks_for_held_out_images_of_training_classes(held):
    c, semantics = described(composed=True, held=held)
    found, parts = split_score(c, rule=lambda part: GeneralisedZeroShot(part, semantics))
    assert set(found.details["sides"]) == {"seen classes", "unseen classes"} and found.details["tasks"] == 36
    assert parts[CHANCE] == pytest.approx(1 / 36) and ("was held out" in found.sentence) is not held
    context = Context(c, net="pixels", rule=lambda part: GeneralisedZeroShot(part, semantics))
    asked = tasks_of(context)
    shown = set(asked.train.part.rows.tolist())
    assert not shown & {int(i) for e in asked.episodes(36) for i in e.query}
    learner = make("eszsl").meta_fit(ZeroShot(c.train, semantics))
    if held:
        own, _ = split_score(c, rule=lambda part: GeneralisedZeroShot(part, semantics), method=learner)
        assert own.details["score"]["value"] == pytest.approx(found.details["score"]["value"], abs=1e-6)
    else:
        with pytest.raises(Infeasible, match="test_seen"):
            split_score(c, rule=lambda part: GeneralisedZeroShot(part, semantics), method=learner)


def test_contexts_and_copies_of_training_images_speak_for_the_class_described_most_alike():
    c, semantics = described(composed=False)
    kind = c.table["kind"].to_list()
    ground = [f"g{int(k[1:]) % 12}" for k in kind]
    test = np.asarray(c.table["split"] == "test")
    x = c.read(np.arange(len(c)))
    rows = np.arange(len(c))
    twin = np.where(test & (rows % 2 == 0), rows - 12 * 20, rows)
    planted = Collection(
        dataclasses.replace(c.card, context="context"), c.table.with_columns(context=np.asarray(ground)), x[twin]
    )
    _, parts = split_score(planted, rule=lambda part: ZeroShot(part, semantics))
    assert parts[CONTEXT] > 0.25 and parts[NEAREST] > 0.25 and parts[TRAINING_COPIES] > 0.05


# clustering, contexts, any-way


def clear(tied: bool) -> Collection:
    """Twelve clear classes in four contexts each that no other class has, or in contexts by chance."""
    rng = np.random.default_rng(2)
    label = np.repeat(np.arange(12), 24)
    context = label if tied else rng.integers(0, 12, len(label))
    table = {
        "kind": [f"k{i:02d}" for i in label],
        "context": [f"c{i}" for i in context],
        "split": ["test"] * len(label),
    }
    return vectors(table, np.eye(12)[label] + rng.normal(0, 0.05, (len(label), 12)), name=f"clear{tied}")


@pytest.mark.parametrize("tied", [True, False])
def test_contexts_are_clusters_where_classes_keep_to_them(tied):
    found, parts = split_score(clear(tied), rule="clustering")
    assert "without labels" in found.sentence and found.details["score"]["value"] > 0.95
    assert set(found.details["missing"]) == {NO_LABELS, NEAREST} and abs(parts[COPIES]) < 0.05
    assert (parts[CONTEXT] > 0.75) if tied else (abs(parts[CONTEXT]) < 0.1)


@pytest.mark.parametrize(("rule", "told"), [("iid", True), ("ood", False), ("ood-conflict", False)])
def test_contexts_tell_the_class_where_queries_keep_to_their_supports_contexts(rule, told):
    rng = np.random.default_rng(4)
    label, context = (v.reshape(-1).repeat(8) for v in np.meshgrid(np.arange(10), np.arange(10), indexing="ij"))
    table = {"kind": [f"k{i}" for i in label], "context": [f"c{i}" for i in context], "split": ["test"] * len(label)}
    c = vectors(table, np.eye(10)[label] + rng.normal(0, 0.05, (len(label), 10)), name="grid")
    found, parts = split_score(c, rule=rule)
    assert f"{rule}, 5-way 2-shot" in found.sentence and found.details["score"]["value"] > 0.95
    assert parts[CONTEXT] > 0.3 if told else abs(parts[CONTEXT]) < 0.01


@pytest.mark.parametrize("rule", ["any-way", "meta-dataset", "mix"])
def test_other_rules_of_one_axis_are_split(rule):
    found, parts = split_score(blobs(n_classes=20, each=24), rule=rule, split="all")
    assert next(iter(parts)) == CHANCE and list(parts)[-1] == REST and rule in found.sentence


def test_a_rule_is_narrowed_no_further_than_needed_and_one_that_cannot_be_says_what_it_lacked():
    c = blobs(n_classes=12, each=24)
    rule = NWay(c.whole, 5, 5, 15)
    assert narrowed(rule) == rule or narrowed(rule).parameters == rule.parameters
    assert narrowed(IID(c.whole, 5, 5, 15)).shots < 5 or narrowed(IID(c.whole, 5, 5, 15)).queries < 15
    with pytest.raises(Infeasible, match="classes"):
        narrowed(OODConflict(blobs(n_classes=3, each=2).whole))
