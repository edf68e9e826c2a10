"""What choosing options is worth: nothing where they do not matter, much where they do, and luck where there is nothing but luck."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import handful as hf
from handful.audits.court import court, cut, folds
from handful.data.collection import Collection, as_table
from handful.errors import BadInput, Mismatch
from handful.methods.contract import make
from handful.tasks import NWay
from handful.tasks.clustering import Clustering
from handful.tasks.named import Named
from made.benches import reader, small


def tip(**options):
    return make("tip-adapter", net=reader(), **options)


def rule(shots=4, queries=12):
    return Named(of=NWay(small().test, 3, shots, queries))


def test_where_options_change_no_answer_the_bonus_is_zero():
    """Without weight the cache says nothing, however narrow it is; the texts alone are wrong often, so there is room to win."""
    found = court(tip(alpha=0.0), rule(), tries={"beta": (0.5, 2.0, 8.0)}, n=20)
    assert found.tried == 4 and found.numbers["test"].value < 0.7
    for way in ("test", "free"):
        assert found.bonus[way].value == found.bonus[way].low == found.bonus[way].high == 0


def test_where_options_matter_the_honest_choice_finds_them_and_test_pays_a_bonus():
    """Texts of a random tower say nothing and images much, so the cache should weigh all; narrowness is anybody's guess."""
    found = court(tip(alpha=0.0), rule(), tries={"alpha": (0.0, 3.0, 1000.0), "beta": (0.01, 1.0, 300.0)}, n=40)
    gain = found.frame["honest"].to_numpy() - found.frame["default"].to_numpy()
    assert gain.mean() > 0.2 and "alpha=1000.0" in " ".join(found.frame["honest chose"])
    assert found.bonus["test"].low > 0
    frame = found.frame
    assert (frame["test"] >= frame["honest"]).all() and (frame["test"] >= frame["free"]).all()


def test_labels_without_meaning_reward_those_who_look_at_the_test():
    """On labels drawn at random any choice is worth a third; the best of nine on the test itself is worth more."""
    collection = small()
    kinds = np.random.default_rng(0).permutation(collection.table["kind"].to_numpy())
    card = dataclasses.replace(collection.card, labels=("kind",), schemes=(), context="", hash="f" * 64)
    shuffled = Collection(card, as_table({"kind": kinds}), collection.read(np.arange(len(collection))))
    noise = Named(of=NWay(shuffled.whole, 3, 4, 12))
    found = court(tip(), noise, tries={"alpha": (0.0, 3.0, 1000.0), "beta": (0.01, 1.0, 300.0)}, n=40)
    honest = found.numbers["honest"]
    assert honest.low - 0.03 < 1 / 3 < honest.high + 0.03
    assert found.numbers["test"].low > 0.36 and found.bonus["test"].low > 0.02
    assert abs(found.bonus["free"].value) < 0.03


def test_the_numbers_are_those_of_plain_evaluations():
    """With one combination all ways agree, and with what the same method scores on the same queries."""
    made, asked = make("linear-probe", net="pixels"), NWay(small().test, 3, 4, 12)
    found = court(made, asked, tries={"strength": (10.0,)}, n=5, free=2)
    assert found.tried == 1
    learner = made.untrained(asked.image_shape)
    for number in range(5):
        task = asked.read(asked.draw(0, number))
        right = learner.fit(task.support).predict(task.query).argmax(1) == task.labels
        test = cut(task.episode, 2)[1]
        for way in ("default", "test", "free", "honest"):
            assert found.frame[way][number] == pytest.approx(right[test].mean())


def test_free_and_test_images_and_folds_share_nothing():
    episode = NWay(small().test, 3, 5, 8).draw(0, 0)
    free, test = cut(episode, 3)
    assert np.bincount(episode.query_labels[free]).tolist() == [3, 3, 3] and len(test) == 15
    assert not set(free) & set(test)
    pieces = folds(episode)
    assert len(pieces) == 4 and sorted(np.concatenate([p.query for p in pieces])) == sorted(episode.support)
    for piece in pieces:
        assert not set(piece.query) & set(piece.support) and set(piece.support_labels) == {0, 1, 2}


def test_a_support_that_cannot_be_divided_keeps_the_default():
    found = court(tip(), rule(shots=1), tries={"alpha": (0.0, 1000.0)}, n=6)
    assert not found.divided and (found.frame["honest"] == found.frame["default"]).all()
    assert "cannot be divided" in str(found)


def test_what_cannot_be_judged_is_refused_in_a_sentence():
    asked = NWay(small().test, 3, 2, 4)
    with pytest.raises(BadInput, match=r"names no options to choose; say which and their values: --try"):
        court("protonet", asked)
    with pytest.raises(BadInput, match="a class has 4 queries, of which 4 were to be free"):
        court(make("linear-probe", net="pixels"), asked)
    with pytest.raises(Mismatch, match="court needs tasks with labelled images"):
        court(make("linear-probe", net="pixels"), Clustering(of=asked))
    with pytest.raises(BadInput, match="has no option 'alhpa'"):
        court("linear-probe", asked, tries={"alhpa": (1,)})


def test_the_verb_says_three_numbers_and_keeps_a_row_per_task(capsys, tmp_path):
    import json

    from handful.cli import main

    words = ["court", "linear-probe", "world", "--set", "net=pixels", "--tasks", "4", "--try", "strength=1,10"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json", "--out", str(tmp_path / "rows.csv")])
    facts = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert set(facts["accuracy"]) == {"default", "test", "free", "honest"} and set(facts["bonus"]) == {"test", "free"}
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 5
    with pytest.raises(SystemExit) as ended:
        main([*words[:-1], "strength"])
    assert ended.value.code == 2 and "--try 'strength' is not OPTION=A,B,C" in capsys.readouterr().err
    assert hf.court is court
