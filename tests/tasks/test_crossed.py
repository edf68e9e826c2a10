"""Crossed tasks: every factor balanced, the label fixed or changing, support and query apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from handful.data.world import world
from handful.errors import BadInput, Infeasible
from handful.tasks.crossed import Crossed
from handful.tasks.nway import NWay

FACTORS = ("glyph", "colour", "ground", "border")


@pytest.fixture(scope="module")
def crossed():
    return world(crossed=True, values=(6, 5, 6), glyph_values=(6, 5, 6), copies=2)


def same(a, b) -> bool:
    pairs = [(a.support, b.support), (a.query, b.query), (a.support_labels, b.support_labels)]
    return all(np.array_equal(x, y) for x, y in [*pairs, (a.query_labels, b.query_labels)]) and a.side == b.side


@pytest.mark.parametrize("ways, shots, queries", [(5, 5, 15), (2, 3, 5), (3, 1, 1), (6, 4, 10)])
def test_every_factor_takes_n_balanced_values_in_support_and_in_query(crossed, ways, shots, queries):
    rule = Crossed(crossed.test, ways, shots, queries)
    for episode in rule.draw_block(0, 0, 40):
        for rows, each in ((episode.support, shots), (episode.query, queries)):
            for factor in FACTORS:
                _, counts = np.unique(crossed.table[factor].to_numpy()[rows], return_counts=True)
                assert counts.tolist() == [each] * ways
        for factor in FACTORS:
            values = [set(crossed.table[factor].to_numpy()[rows]) for rows in (episode.support, episode.query)]
            assert values[0] == values[1]


def test_images_are_of_the_part_and_never_used_twice(crossed):
    rule = Crossed(crossed.test, 5, 5, 15)
    for episode in rule.draw_block(3, 0, 60):
        rows = np.concatenate([episode.support, episode.query])
        assert len(set(rows.tolist())) == 5 * 20
        assert np.isin(rows, crossed.test.rows).all()


def test_labels_are_the_values_of_the_factor_that_the_side_facts_name(crossed):
    for episode in Crossed(crossed.test, 4, 2, 3).draw_block(1, 0, 50):
        column = crossed.table[episode.side["label"]].to_numpy()
        for rows, labels in ((episode.support, episode.support_labels), (episode.query, episode.query_labels)):
            assert [episode.names[0][c] for c in labels] == column[rows].tolist()


def test_the_label_changes_among_the_factors_evenly_or_stays(crossed):
    said = [e.side["label"] for e in Crossed(crossed.test, 3, 1, 2).draw_block(0, 0, 800)]
    counts = np.array([said.count(f) for f in FACTORS])
    assert (np.abs(counts - 200) < 4 * np.sqrt(800 * 0.25 * 0.75)).all()
    fixed = Crossed(crossed.test, 3, 1, 2, label="ground").draw_block(0, 0, 50)
    assert {e.side["label"] for e in fixed} == {"ground"}


def test_factors_are_independent_of_each_other(crossed):
    """Over many tasks the label says nothing of another factor: equal values meet as often as chance says."""
    rule = Crossed(crossed.test, 3, 2, 10, label="glyph")
    tables = {f: np.zeros((3, 3)) for f in FACTORS[1:]}
    for episode in rule.draw_block(0, 0, 400):
        for factor, table in tables.items():
            column = crossed.table[factor].to_numpy()[episode.query]
            codes = np.unique(column, return_inverse=True)[1]
            np.add.at(table, (episode.query_labels, codes), 1)
    for table in tables.values():
        expected = table.sum() / 9
        assert (np.abs(table - expected) < 5 * np.sqrt(expected)).all()


def test_a_block_gives_the_episodes_that_single_draws_give(crossed):
    rule = Crossed(crossed.test, 5, 5, 15)
    block = rule.draw_block(7, 10, 22)
    for i, episode in zip(range(10, 22), block, strict=True):
        assert episode.number == i and same(episode, rule.draw(7, i))
    assert not same(rule.draw(7, 10), rule.draw(8, 10)) and not same(rule.draw(7, 10), rule.draw(7, 11))


def test_it_serves_when_combinations_are_scarce():
    """Two ways of two crossed values with two copies: 2 x 2 x 2 images, all of them needed."""
    w = world(crossed=True, values=2, glyph_values=2, copies=2)
    rule = Crossed(w.test, 2, 1, 3, factors=("glyph", "colour", "ground", "border"))
    for episode in rule.draw_block(0, 0, 100):
        assert len(set(np.concatenate([episode.support, episode.query]).tolist())) == 8


def test_without_labels_every_factor_is_as_good_a_grouping():
    """The planted truth: a perfect clustering by a factor that was guessed agrees with the labels by chance only."""
    w = world(crossed=True, values=(6, 5, 6), glyph_values=(6, 5, 6), copies=2)
    rule = Crossed(w.test, 5, 5, 15)
    agreements: dict[bool, list[float]] = {True: [], False: []}
    for episode in rule.draw_block(0, 0, 120):
        codes = np.unique(w.table["glyph"].to_numpy()[episode.query], return_inverse=True)[1]
        table = np.zeros((5, 5))
        np.add.at(table, (episode.query_labels, codes), 1)
        best = max(sum(table[i, p[i]] for i in range(5)) for p in itertools.permutations(range(5)))
        agreements[episode.side["label"] == "glyph"].append(best / 75)
    assert np.min(agreements[True]) == 1.0
    assert np.mean(agreements[False]) < 0.4


@pytest.mark.parametrize(
    "options, says",
    [
        ({"ways": 7}, "6 values of glyph"),
        ({"ways": 2, "queries": 16}, "raise the world's copies"),
    ],
)
def test_what_cannot_be_served_is_refused(crossed, options, says):
    rule = Crossed(crossed.test, **{"ways": 5, "shots": 5, "queries": 15, **options})
    with pytest.raises(Infeasible, match=says):
        rule.check()
    with pytest.raises(Infeasible, match=says):
        rule.draw(0, 0)


def test_a_collection_that_is_not_crossed_is_refused():
    w = world(classes=30, images=20)
    with pytest.raises(Infeasible, match="combinations"):
        Crossed(w.test, 5, 1, 1, factors=("glyph", "colour")).check()
    with pytest.raises(BadInput, match="colour"):
        Crossed(w.test, 5, 1, 1, factors=("glyph", "color")).check()
    with pytest.raises(BadInput, match="not among"):
        Crossed(w.test, label="size")
    with pytest.raises(BadInput, match="at least 2"):
        Crossed(w.test, ways=1)
    with pytest.raises(BadInput, match="two different"):
        Crossed(w.test, factors=("glyph",))


def test_plain_tasks_run_on_crossed_collections_too(crossed):
    episode = NWay(crossed.test, 5, 5, 15).draw(0, 0)
    assert len(episode.query) == 75
