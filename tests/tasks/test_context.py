"""The three context-shift rules: what they promise of every task, and a planted truth."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from handful.data.collection import Card, Collection, as_table
from handful.errors import BadInput, Infeasible
from handful.methods.contract import make
from handful.metrics.context import gap
from handful.runs.evaluate import evaluate
from handful.tasks.context import IID, OOD, OODConflict
from handful.tasks.rule import make as make_rule

RULES = (IID, OOD, OODConflict)


def grid(counts: np.ndarray, embedding: str = "concept") -> Collection:
    """Features with ``counts[concept, context]`` images: one-hot of the concept or of the context."""
    concept, context = (np.repeat(x.ravel(), counts.ravel()) for x in np.indices(counts.shape))
    code = concept if embedding == "concept" else context
    features = np.eye(max(counts.shape), dtype=np.float32)[code]
    table = as_table({"concept": [f"k{i:02d}" for i in concept], "place": [f"p{i:02d}" for i in context]})
    card = Card("grid", "features", (features.shape[1],), ("concept",), context="place", hash="0" * 64)
    return Collection(card, table, features)


def facts(collection: Collection, episode):
    concept = collection.table["concept"].to_numpy()
    place = collection.table["place"].to_numpy()
    names = np.asarray(episode.names[0])
    assert (concept[episode.support] == names[episode.support_labels]).all()
    assert (concept[episode.query] == names[episode.query_labels]).all()
    assert (place[episode.query] == episode.side["query_contexts"]).all()
    assert (place[episode.support] == episode.side["support_contexts"]).all()
    assert len(np.unique(np.concatenate([episode.support, episode.query]))) == len(episode.support) + len(episode.query)
    own = [set(place[episode.support[episode.support_labels == c]]) for c in range(len(names))]
    asked = [place[episode.query[episode.query_labels == c]] for c in range(len(names))]
    return own, asked


def ragged(seed: int, shape: tuple[int, int] = (20, 30), share: float = 0.4) -> np.ndarray:
    """Counts as real collections have them: most cells empty, sizes far apart."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < share, rng.integers(1, 80, shape), 0)


@pytest.mark.parametrize("ways, shots, queries, contexts", [(5, 1, 15, 1), (5, 5, 15, 1), (10, 5, 7, 2), (3, 4, 6, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_queries_lie_where_each_rule_says(seed, ways, shots, queries, contexts):
    collection = grid(ragged(seed))
    for rule_class in RULES:
        rule = rule_class(collection.whole, ways=ways, shots=shots, queries=queries, contexts=contexts)
        for episode in rule.draw_block(seed, 0, 40):
            own, asked = facts(collection, episode)
            everywhere = set().union(*own)
            for c in range(ways):
                others = set().union(*(own[d] for d in range(ways) if d != c))
                assert len(own[c]) == min(contexts, shots)
                assert len(asked[c]) == queries
                if rule_class is IID:
                    assert set(asked[c]) <= own[c]
                elif rule_class is OOD:
                    assert not set(asked[c]) & everywhere
                else:
                    assert set(asked[c]) <= others - own[c]


def test_three_rules_and_every_dial_share_classes_and_support():
    part = grid(ragged(3)).whole
    first = IID(part, shots=3).draw_block(5, 0, 20)
    for rule in (OOD(part, shots=3), OODConflict(part, shots=3), OOD(part, shots=3, shift=0.3)):
        for a, b in zip(first, rule.draw_block(5, 0, 20), strict=True):
            assert a.names == b.names and a.seed == b.seed
            assert (a.support == b.support).all() and (a.support_labels == b.support_labels).all()
            assert (a.query_labels == b.query_labels).all()


def test_dial_moves_queries_one_by_one():
    part = grid(np.full((8, 6), 60)).whole
    before = IID(part).draw_block(0, 0, 30)
    for shift in (0.0, 0.1, 0.5, 0.9, 1.0):
        episodes = OOD(part, shift=shift).draw_block(0, 0, 30)
        moved = np.mean([(a.query != b.query).mean() for a, b in zip(before, episodes, strict=True)])
        assert moved == pytest.approx(shift, abs=0.02)
        new = [np.isin(e.side["query_contexts"], e.side["support_contexts"], invert=True).mean() for e in episodes]
        assert np.mean(new) == pytest.approx(shift, abs=0.02)
    some = {s: OOD(part, shift=s).draw(0, 3) for s in (0.4, 0.8)}
    ends = OOD(part).draw(0, 3), IID(part).draw(0, 3)
    kept = some[0.4].query == ends[0].query
    assert (some[0.8].query[kept] == ends[0].query[kept]).all(), "turning the dial up never takes a shifted query back"


def test_a_task_does_not_depend_on_the_block_it_is_drawn_in():
    rule = OODConflict(grid(ragged(2)).whole, shots=2, queries=9)
    block = rule.draw_block(1, 60, 70)
    for episode in block:
        alone = rule.draw(1, episode.number)
        assert (alone.support == episode.support).all() and (alone.query == episode.query).all()
        assert (alone.side["query_contexts"] == episode.side["query_contexts"]).all()


def test_contexts_differ_between_classes_while_there_are_enough():
    part = grid(np.full((9, 8), 40)).whole
    for episode in OOD(part, ways=6).draw_block(0, 0, 50):
        assert len(set(episode.side["support_contexts"])) == 6
    for episode in OOD(grid(np.full((7, 4), 80)).whole, ways=7).draw_block(0, 0, 50):
        assert len(set(episode.side["support_contexts"])) == 3, "one of four contexts is left for the queries"


@pytest.mark.parametrize("contexts", [1, 2])
def test_classes_may_share_their_contexts(contexts):
    collection = grid(np.full((8, 6), 40))
    for rule_class in (IID, OOD):
        rule = rule_class(collection.whole, ways=5, shots=4, queries=6, contexts=contexts, shared=True)
        seen = set()
        for episode in rule.draw_block(0, 0, 30):
            own, asked = facts(collection, episode)
            assert all(o == own[0] and len(o) == contexts for o in own)
            for some in asked:
                assert set(some) <= own[0] if rule_class is IID else not set(some) & own[0]
            seen |= own[0]
        assert len(seen) == 6
    with pytest.raises(BadInput, match="no conflicting queries"):
        OODConflict(collection.whole, shared=True)


def test_a_shared_context_tells_nothing_where_contexts_of_their_own_tell_all():
    """One-hot of the context as the embedding: perfect where each class has its own context, chance where they share one."""
    collection = grid(np.full((8, 9), 40), "context")
    learner = make("nearest-centroid", net="pixels").untrained(collection.card.shape)
    apart, shared = (
        evaluate(learner, IID(collection.whole, ways=5, shots=2, queries=6, shared=both), n=64).estimate().value
        for both in (False, True)
    )
    assert apart == 1 and shared == pytest.approx(1 / 5, abs=1e-12)


def test_concept_embedding_has_no_gap_and_context_embedding_is_1_chance_0():
    counts = np.full((12, 9), 40)
    for shots in (1, 5):
        runs = {}
        for embedding in ("concept", "context"):
            collection = grid(counts, embedding)
            learner = make("nearest-centroid", net="pixels").untrained(collection.card.shape)
            for rule_class in RULES:
                rule = rule_class(collection.whole, ways=5, shots=shots)
                runs[embedding, rule_class.name] = evaluate(learner, rule, n=64)
        for name in ("ood", "ood-conflict"):
            difference = gap(runs["concept", "iid"].frame, runs["concept", name].frame).difference
            assert difference.value == 0 and difference.half == 0
        assert runs["concept", "iid"].estimate().value == 1
        assert runs["context", "iid"].estimate().value == 1
        assert runs["context", "ood"].estimate().value == pytest.approx(1 / 5, abs=1e-12)
        assert runs["context", "ood-conflict"].estimate().value == 0


def test_classes_that_cannot_serve_are_left_out_and_named():
    counts = np.full((8, 5), 40)
    counts[2, 1:] = 0  # one context only
    counts[4] = 10  # no context with enough images
    counts[6] = [0, 40, 0, 0, 3]  # nothing to speak of beside one context
    rule = OOD(grid(counts).whole, ways=5, shots=5)
    assert set(rule.left_out) == {"k02", "k04", "k06"}
    with pytest.warns(UserWarning, match=r"k02 .*k04 .*k06"):
        rule.check()
    drawn = {name for e in rule.draw_block(0, 0, 60) for name in e.names[0]}
    assert drawn == {"k00", "k01", "k03", "k05", "k07"}
    with pytest.raises(Infeasible, match=r"5 classes .* 6 are asked for; left out: k02"):
        OOD(grid(counts).whole, ways=6, shots=5).check()


def test_shortage_says_what_would_fit():
    with pytest.raises(Infeasible, match="it can with queries=11"):
        IID(grid(np.full((6, 4), 16)).whole, ways=5, shots=5, queries=15).check()


def test_a_class_whose_contexts_are_its_own_cannot_conflict():
    counts = np.zeros((7, 10), dtype=int)
    counts[:6, :6] = 40
    counts[6, 6:] = 40
    assert list(OODConflict(grid(counts).whole, ways=4).left_out) == ["k06"]
    assert OOD(grid(counts).whole, ways=4, conflict=False).left_out == {}


def test_two_contexts_serve_iid_and_ood_without_conflict():
    part = grid(np.full((6, 2), 40)).whole
    with pytest.raises(Infeasible):
        OOD(part).check()
    rule = OOD(part, conflict=False)
    rule.check()
    assert len(rule.draw_block(0, 0, 10)) == 10


def test_wrong_input_ends_in_one_sentence(patches):
    part = grid(np.full((6, 4), 40)).whole
    with pytest.raises(BadInput, match="shift must lie between"):
        OOD(part, shift=1.5)
    with pytest.raises(BadInput, match="ways must be"):
        IID(part, ways=1)
    with pytest.raises(BadInput, match="no column"):
        OOD(part, column="weather").check()
    with pytest.raises(BadInput, match="cannot be its context"):
        OOD(part, column="concept").check()
    with pytest.raises(BadInput, match="leave conflict"):
        OODConflict(part, conflict=False)
    bare = grid(np.full((6, 4), 40))
    bare.card = Card("bare", "features", bare.card.shape, ("concept",))
    with pytest.raises(Infeasible, match="has no column of contexts"):
        OOD(bare.whole).check()


def test_rules_by_name_and_other_column(patches):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule = make_rule("ood-conflict", patches.train, ways=5, shots=1, queries=5, column="context")
        rule.check()
    assert rule.parameters["rule"] == "ood-conflict"
    assert rule.tasks_id(0) != make_rule("ood", patches.train, ways=5, shots=1, queries=5).tasks_id(0)
