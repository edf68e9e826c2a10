"""Mixes of data sets by their weights."""

from __future__ import annotations

import json

import pytest

from data.conftest import handful
from handful.errors import BadInput, Infeasible, Mismatch
from handful.tasks import AnyWay, NWay
from handful.tasks.clustering import Clustering
from handful.tasks.mix import Mix
from handful.tasks.rule import make as make_rule
from made.drawn import uniform
from made.sized import sized

SETS = ["Birds"] * 9 + ["Chars"] * 10 + ["Dogs"] * 7


def mixed_part():
    return sized([10] * 26, datasets=SETS, groups=[None] * 9 + ["Greek"] * 5 + ["Latin"] * 5 + [None] * 7).whole


@pytest.mark.parametrize("weights", [{}, {"Birds": 1, "Dogs": 3}, {"Chars": 2.5, "Birds": 0.5, "Dogs": 0}])
def test_data_sets_are_mixed_by_weight(weights):
    rule = Mix(mixed_part(), of=NWay(mixed_part(), 3, 2, 3), weights=weights)
    episodes = rule.draw_block(0, 0, 2400)
    names = [e.side["dataset"] for e in episodes]
    wanted = weights or dict.fromkeys(("Birds", "Chars", "Dogs"), 1)
    shares = {n: w / sum(wanted.values()) for n, w in wanted.items() if w}
    assert set(names) == set(shares)
    assert uniform([names.count(n) for n in shares], [2400 * s for s in shares.values()])
    for e in episodes[:60]:
        assert {SETS[int(n.rpartition("k")[2])] for n in e.names[0]} == {e.side["dataset"]}


def test_a_mix_of_one_is_that_rule_and_task_i_is_task_i():
    part = mixed_part()
    birds = part.where(part.column("dataset") == "Birds", "Birds")
    dogs = part.where(part.column("dataset") == "Dogs", "Dogs")
    one, other = NWay(birds, 3, 1, 2), AnyWay(dogs, (2, 4), (1, 3), 2)
    alone = Mix(rules=(one,))
    assert [e.as_dict() for e in alone.draw_block(3, 0, 9)] == [e.as_dict() for e in one.draw_block(3, 0, 9)]
    both = Mix(rules=(one, other), weights=(1, 1))
    for e in both.draw_block(3, 0, 40):
        source = one if e.side["dataset"] == "Birds" else other
        assert e.as_dict() == source.draw(3, e.number).as_dict()
    block = both.draw_block(3, 0, 40)
    assert all(block[i].as_dict() == both.draw(3, i).as_dict() for i in (0, 17, 39))
    rare = Mix(rules=(one, other), weights=(1, 60))
    assert [e.as_dict() for e in rare.draw_block(3, 0, 90)] == [rare.draw(3, i).as_dict() for i in range(90)]


def test_data_sets_may_have_rules_of_their_own():
    part = mixed_part()
    rule = make_rule(
        "mix",
        part,
        of={"rule": "meta-dataset", "ways": [2, 5]},
        special={"Chars": {"rule": "meta-dataset", "ways": "2-5", "group": "alphabet"}},
        weights={"Birds": 1, "Chars": 1},
    )
    spans: dict[str, set] = {}
    for e in rule.draw_block(0, 0, 100):
        spans.setdefault(e.side["dataset"], set()).add(e.side.get("span"))
    assert spans == {"Birds": {None}, "Chars": {"Greek", "Latin"}}
    assert json.dumps(rule.parameters) and rule.tasks_id(0) != Mix(part, of=rule.of).tasks_id(0)


def test_a_mix_can_be_clustered_and_trained_on():
    mix = Mix(mixed_part(), of=NWay(mixed_part(), 3, 2, 3))
    hidden = Clustering(of=mix)
    assert hidden.draw(0, 3).as_dict()["support"] == mix.draw(0, 3).as_dict()["support"]
    images, classes = next(mix.batches(0, 16))
    assert len(images) == 16 and mix.n_classes == 26 and classes.max() < 26


@pytest.mark.parametrize(
    "make, error, told",
    [
        (lambda p: Mix(p, weights={"Cats": 1}), Infeasible, "no dataset 'Cats'"),
        (lambda p: Mix(p, weights={"Birds": -1}), BadInput, "at least 0"),
        (lambda p: Mix(p, weights={"Birds": 0}), BadInput, "not all 0"),
        (lambda p: Mix(p, weights=(1, 2)), Infeasible, "2 weights for the 3 data sets"),
        (lambda p: Mix(p, column="place"), BadInput, "no column 'place'"),
        (lambda p: Mix(p, of=NWay(p, 8, 1, 1)), Infeasible, "Dogs cannot serve its share of the mix: .*7 classes"),
        (lambda p: Mix(rules=(NWay(p),), of=NWay(p)), BadInput, "not both"),
        (lambda p: Mix(rules=(NWay(p),), weights=(1, 2)), BadInput, "2 weights for 1 rules"),
        (lambda p: Mix(), BadInput, "needs rules"),
        (lambda p: Mix(rules=(NWay(p), NWay(sized([9] * 9).whole))), Mismatch, "pack the data sets into one"),
        (lambda p: Mix(rules=(NWay(p), Clustering(of=NWay(p)))), Mismatch, "different things"),
    ],
)
def test_a_mix_that_cannot_be_is_one_sentence(make, error, told):
    with pytest.raises(error, match=told):
        make(mixed_part()).check()


def test_the_command_line_draws_mixes_and_hierarchies(tmp_path):
    collection = mixed_part().collection.save(tmp_path / "packed")
    options = ("--rule", "mix", "--ways", 3, "--shots", 1, "--queries", 2, "--rule-set", "weights={'Birds': 1}")
    ended = handful("tasks", "draw", collection.path, *options, "--n", 4, "--json")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("Birds") >= 4 and "Dogs" not in ended.stdout
    options = (
        "--rule",
        "meta-dataset",
        "--ways",
        "2-5",
        "--rule-set",
        "group=alphabet",
        "--rule-set",
        "only=['Chars']",
    )
    ended = handful("tasks", "draw", collection.path, *options, "--n", 4, "--json")
    assert ended.returncode == 0, ended.stderr
    assert "Greek" in ended.stdout or "Latin" in ended.stdout
