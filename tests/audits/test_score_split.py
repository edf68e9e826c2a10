"""The score split: shares over all orders, adding up to the score answer by answer."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from handful.audits.answers import TaskAnswers
from handful.audits.score_split import CHANCE, REST, split_score
from handful.audits.shapley import shapley
from handful.errors import BadInput, Mismatch


def test_shares_are_the_mean_additions_over_all_orders():
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    table: dict[frozenset[str], np.ndarray] = {}

    def value(some):
        return table.setdefault(some, rng.random(5))

    found = shapley(value, names)
    for name in names:
        adds = []
        for order in permutations(names):
            before = frozenset(order[: order.index(name)])
            adds.append(table[before | {name}] - table[before])
        np.testing.assert_allclose(found[name], np.mean(adds, axis=0))
    np.testing.assert_allclose(sum(found.values()), table[frozenset(names)] - table[frozenset()])


def test_two_sources_by_hand():
    worth = {"": 0.2, "x": 0.6, "y": 0.4, "xy": 0.7}
    found = shapley(lambda s: np.asarray(worth["".join(sorted(s))]), ["x", "y"])
    assert float(found["x"]) == pytest.approx(0.35) and float(found["y"]) == pytest.approx(0.15)
    assert shapley(lambda s: np.zeros(1), []) == {}
    with pytest.raises(BadInput):
        shapley(lambda s: np.zeros(1), ["x", "x"])
    with pytest.raises(BadInput):
        shapley(lambda s: np.zeros(1), [str(i) for i in range(13)])


def answers(truth, given, ways=5):
    n = len(truth)
    task = np.arange(n) // 25
    return TaskAnswers(task, np.arange(n), truth, truth, given, np.full(n, ways))


def noisy(rng, truth, right, ways=5):
    return np.where(rng.random(len(truth)) < right, truth, rng.integers(0, ways, len(truth)))


def test_the_parts_add_up_to_the_score_exactly():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 5, 2000)
    method = answers(truth, noisy(rng, truth, 0.7))
    shy = noisy(rng, truth, 0.9)
    shy[rng.random(2000) < 0.6] = -1
    sources = {
        "good": answers(truth, noisy(rng, truth, 0.5)),
        "luck": answers(truth, rng.integers(0, 5, 2000)),
        "shy": answers(truth, shy),
    }
    found = split_score(method, sources)
    assert list(found.shares) == [CHANCE, "good", "luck", "shy", REST]
    np.testing.assert_allclose(sum(found.shares.values()), method.right, atol=1e-12)
    parts = {name: e.value for name, (e, _) in found.estimates().items()}
    assert sum(parts.values()) == pytest.approx(method.tasks.mean(), abs=1e-12)
    assert parts[CHANCE] == pytest.approx(0.2)
    assert abs(parts["luck"]) < 0.02 < 0.1 < parts["good"] and parts["shy"] > 0.1


def test_a_source_as_good_as_the_method_leaves_nothing_and_none_leaves_all():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 5, 1000)
    method = answers(truth, noisy(rng, truth, 0.8))
    same = split_score(method, {"same": method})
    assert np.abs(same.shares[REST]).max() == 0
    alone = split_score(method, {})
    assert alone.shares[REST].mean() == pytest.approx(method.right.mean() - 0.2)
    silent = split_score(method, {"silent": answers(truth, np.full(1000, -1))})
    assert np.abs(silent.shares["silent"]).max() == 0


def dense(truth, sources, ways):
    """The worth of a set of sources with every vote written into a table of all labels."""
    rows, table = np.arange(len(truth)), np.zeros((len(truth), ways.max()))
    for given, task in sources:
        told = given >= 0
        means = [np.mean((given == truth)[told & (task == t)]) for t in np.unique(task[told])]
        guess = np.mean([np.mean(1 / ways[told & (task == t)]) for t in np.unique(task[told])])
        right = np.mean(means)
        if right > guess:
            table[rows[told], given[told]] += np.log(right * (1 - guess) / ((1 - right) * guess))
    table[np.arange(ways.max())[None, :] >= ways[:, None]] = -np.inf
    top = np.isclose(table, table.max(1, keepdims=True), rtol=0, atol=1e-9)
    return top[rows, truth] / top.sum(1)


def test_votes_are_counted_as_in_a_table_of_all_labels_with_ways_that_differ():
    rng = np.random.default_rng(3)
    n = 1500
    task = np.arange(n) // 25
    ways = rng.integers(2, 8, 60)[task]
    truth = rng.integers(0, ways)
    given = {}
    for name, right, silent in (("a", 0.6, 0.0), ("b", 0.5, 0.3), ("c", 0.45, 0.9), ("d", 0.0, 0.0)):
        x = np.where(rng.random(n) < right, truth, rng.integers(0, ways))
        given[name] = np.where(rng.random(n) < silent, -1, x)
    made = {k: TaskAnswers(task, np.arange(n), truth, truth, v, ways) for k, v in given.items()}
    method = TaskAnswers(task, np.arange(n), truth, truth, truth, ways)
    for size in range(5):
        for some in combinations(made, size):
            found = split_score(method, {k: made[k] for k in some}).shares
            np.testing.assert_allclose(
                1 - found[REST], dense(truth, [(given[k], task) for k in some], ways), atol=1e-12
            )


def test_answers_to_other_tasks_are_refused():
    truth = np.arange(50) % 5
    method = answers(truth, truth)
    with pytest.raises(Mismatch, match="'other'"):
        split_score(method, {"other": answers(truth[::-1], truth[::-1])})
