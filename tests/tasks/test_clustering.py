"""The wrapper rule hides what it should, and nothing that the scorer needs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from handful.data.collection import Card, Collection, as_table
from handful.errors import BadInput, Infeasible, Mismatch
from handful.tasks import AnyWay, NWay
from handful.tasks.alphabet import WholeGroup
from handful.tasks.bits import Bits, vectors
from handful.tasks.clustering import Clustering
from handful.tasks.meta_dataset import MetaDataset
from handful.tasks.rule import make as make_rule


def test_the_tasks_are_those_of_the_rule_inside(patches):
    inner = AnyWay(patches.test, (2, 5), (1, 5), 4)
    for a, b in zip(inner.draw_block(3, 0, 20), Clustering(of=inner).draw_block(3, 0, 20), strict=True):
        assert (a.support == b.support).all() and (a.query_labels == b.query_labels).all() and a.seed == b.seed
        assert b.shows == {"images"}


def test_labels_and_sizes_are_hidden_unless_shown(patches):
    for sizes in (False, True):
        rule = Clustering(of=NWay(patches.test, 5, 5, 4), sizes=sizes)
        support = rule.support(rule.draw(0, 0))
        assert support.labels is None and support.shape == (5,)
        assert (support.sizes is not None) == sizes
        assert ("sizes" in rule.shows) == sizes


def test_clustering_the_query_swaps_the_sets(patches):
    inner = NWay(patches.test, 5, 5, 4)
    rule = Clustering(of=inner, mode="clustering", target="query")
    a, b = inner.draw(1, 2), rule.draw(1, 2)
    assert (b.support == a.query).all() and (b.support_labels == a.query_labels).all() and (b.query == a.support).all()
    assert rule.metrics == ("clustering",) and Clustering(of=inner).metrics == ("unsupervised", "clustering")


def test_it_is_made_by_name_with_the_rule_inside(patches):
    rule = make_rule("clustering", patches.test, of={"rule": "any-way", "ways": "2-5"}, sizes=True)
    assert isinstance(rule.of, AnyWay) and rule.of.ways == (2, 5) and rule.sizes and rule.part is rule.of.part
    assert isinstance(make_rule("clustering", patches.test).of, NWay)


def test_ids_tell_wrapped_rules_apart(patches):
    a, b = Clustering(of=NWay(patches.test, 5, 5, 4)), Clustering(of=NWay(patches.test, 5, 5, 5))
    assert len({r.tasks_id(0) for r in (a, b, a.of, Clustering(of=a.of, sizes=True))}) == 4


def test_wrong_wrappings_are_refused(patches):
    inner = NWay(patches.test, 5, 5, 4)
    for bad in (
        {},
        {"of": inner, "mode": "both"},
        {"of": inner, "target": "all"},
        {"of": inner, "mode": "unsupervised", "target": "query"},
    ):
        with pytest.raises(BadInput):
            Clustering(**bad)
    with pytest.raises(Mismatch):
        Clustering(of=_Imageless(patches.test))
    with pytest.raises(Infeasible):
        Clustering(of=NWay(patches.test, 500, 5, 4)).check()


class _Imageless(NWay):
    shows = frozenset({"descriptions"})


def alphabets() -> Collection:
    """Three alphabets of 2, 3 and 4 characters, with 4, 5 and 6 drawings a character."""
    rows = [(f"a{a}", f"c{a}{c}") for a in range(3) for c in range(a + 2) for _ in range(a + 4)]
    table = as_table({"alphabet": [r[0] for r in rows], "character": [r[1] for r in rows]})
    card = Card("letters", "features", (2,), ("alphabet", "character"), hash="0" * 64)
    return Collection(card, table, np.zeros((len(rows), 2), dtype=np.float32))


def test_a_whole_group_is_every_class_of_one_value_in_turn():
    rule = WholeGroup(alphabets().whole, group="alphabet", queries=0)
    rule.check()
    for number, episode in enumerate(rule.draw_block(0, 0, 6)):
        a = number % 3
        assert episode.n_classes == a + 2 and episode.side["alphabet"] == f"a{a}"
        assert np.bincount(episode.support_labels).tolist() == [a + 4] * (a + 2) and not len(episode.query)
        assert episode.as_dict() == rule.draw(0, number).as_dict()
    some = WholeGroup(alphabets().whole, group="alphabet", shots=2, queries=1).draw(0, 1)
    assert np.bincount(some.support_labels).tolist() == [2, 2, 2] and len(some.query) == 3
    assert not set(some.support) & set(some.query)


def test_a_group_that_cannot_be_served_is_named():
    with pytest.raises(Infeasible, match=r"a0.*4 images"):
        WholeGroup(alphabets().whole, shots=4, queries=2).check()
    c = alphabets()
    split = Collection(
        c.card, c.table.with_columns(half=pl.Series(["x", "y"] * (len(c) // 2) + ["x"] * (len(c) % 2))), c.array
    )
    with pytest.raises(Infeasible, match="several values"):
        WholeGroup(split.whole, group="half").check()


def test_meta_dataset_tasks_have_unequal_shots_within_the_bounds(patches):
    rule = MetaDataset(patches.whole, ways=(3, 8), support_size=60, per_class=20)
    seen = set()
    for e in rule.draw_block(0, 0, 60):
        counts, asked = np.bincount(e.support_labels), np.bincount(e.query_labels)
        assert 3 <= len(counts) <= 8 and (counts >= 1).all() and counts.sum() <= 60
        assert (asked == 10).all() and not set(e.support) & set(e.query)
        assert len({patches.table["dataset"][int(i)] for i in e.support}) == 1
        seen.add(counts.max() - counts.min())
    assert max(seen) > 3
    assert len(rule.read(rule.draw(0, 0)).support) == len(rule.draw(0, 0).support)
    assert rule.draw(0, 7).as_dict() == rule.draw_block(0, 0, 8)[7].as_dict()
    with pytest.raises(Infeasible):
        MetaDataset(patches.test, ways=(50, 60)).check()


def test_bits_are_labels_of_their_own_dimension():
    part = vectors(7, 200).test
    for e in Bits(part).draw_block(0, 0, 30):
        x = part.collection.read(e.support)
        assert (x[:, e.side["bit"]] == e.support_labels).all() and set(e.support_labels) == {0, 1}
    assert {e.side["bit"] for e in Bits(part, dimension=2).draw_block(0, 0, 5)} == {2}
    assert len({e.side["bit"] for e in Bits(part).draw_block(0, 0, 60)}) == 7
    for bad in (Bits(part, dimension=7), Bits(part, queries=1000), Bits(alphabets().whole, support_size=40)):
        with pytest.raises(Infeasible):
            bad.check()
