"""Base-to-new and cross-data-set tasks: nothing of the new classes but their names, and scores among each kind apart."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

import handful as hf
from handful.errors import BadInput, Infeasible
from handful.methods.contract import make
from handful.metrics.base_to_new import BaseToNewAccuracy
from handful.tasks.base_to_new import BaseToNew, CrossDataset
from made.benches import reader, small


def test_the_support_shows_base_classes_and_both_halves_are_asked_about():
    part = small().test
    rule = BaseToNew(part, ways=3, shots=2, queries=4)
    names = part.class_names
    base, new = set(names[: (len(names) + 1) // 2]), set(names[(len(names) + 1) // 2 :])
    met = set()
    for number in range(20):
        e = rule.draw(0, number)
        assert e.shape == (6,) and set(e.support_labels) == {0, 1, 2} and e.seen.tolist() == [True] * 3 + [False] * 3
        assert set(e.names[0][:3]) <= base and set(e.names[0][3:]) <= new
        assert np.bincount(e.query_labels).tolist() == [4] * 6 and not set(e.query) & set(e.support)
        classes = [names[c] for c in part.classes[np.searchsorted(part.rows, e.query)]]
        assert [e.names[0][y] for y in e.query_labels] == classes
        assert len(rule.support(e).texts[0]) == 6
        met.add(e.names)
    assert len(met) > 5
    whole = BaseToNew(part, ways=0, shots=2, queries=4).draw(0, 0)
    assert whole.n_classes == len(names)


def test_across_data_sets_the_base_is_one_of_them():
    part = small().test
    e = CrossDataset(part, ways=2, shots=2, queries=3, source="odd").draw(0, 0)
    assert all(n.startswith("odd") for n in e.names[0][:2]) and all(n.startswith("even") for n in e.names[0][2:])
    with pytest.raises(BadInput, match="has no data set 'ood'; did you mean odd"):
        CrossDataset(part, source="ood").draw(0, 0)
    with pytest.raises(Infeasible, match="has 0 base classes with the 401 images that base-to-new tasks need of each"):
        BaseToNew(part, ways=2, shots=1, queries=400).check()


def test_scores_are_among_each_half_apart_and_their_harmonic_mean_is_of_the_means():
    rule = BaseToNew(small().test, ways=2, shots=1, queries=1)
    e = rule.draw(0, 0)
    scores = np.full((4, 4), 0.0)
    for i, y in enumerate(e.query_labels):
        scores[i] = {0: [3, 1, 5, 0], 1: [2, 1, 0, 0], 2: [9, 0, 4, 1], 3: [0, 0, 1, 2]}[int(y)]
    row = BaseToNewAccuracy().row(e, scores)
    assert (row["base"], row["new"]) == (0.5, 1.0) and (row["base_all"], row["new_all"]) == (0.0, 0.5)
    frame = pl.DataFrame({"base": [0.0, 1.0], "new": [1.0, 0.0]})
    assert BaseToNewAccuracy().reduce(frame, "hm").value == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["prompts", "tip-adapter", "taskres", "clap", "clip-adapter", "lp++"])
def test_new_classes_are_answered_by_their_texts_and_no_wrong_answers_in_training(name):
    """What is learned of base classes is the same whatever the new classes are called."""
    rule = BaseToNew(small().test, ways=2, shots=3, queries=3)
    run = hf.evaluate(make(name, net=reader()), rule, n=4)
    assert {"hm", "base", "new"} <= set(run.frame.columns)
    learner = make(name, net=reader()).untrained(rule.image_shape)
    task = rule.read(rule.draw(0, 0))
    other = dataclasses.replace(task.support, texts=((*task.support.texts[0][:2], "zebra", "quince"),))
    first, second = (learner.fit(s).predict(task.query)[:, :2] for s in (task.support, other))
    np.testing.assert_allclose(first, second, atol=1e-3)
