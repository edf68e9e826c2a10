"""Drawing: uniform, without replacement, refused with words when it cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from handful.errors import BadInput, Infeasible, Mismatch
from handful.options import parse_range
from handful.tasks import AnyWay, NWay, Support, random
from handful.tasks.files import read_episodes, write_episodes
from handful.tasks.rule import make as make_rule
from made.patterns import blobs


def test_choose_is_uniform_over_ordered_samples():
    picks = random.choose(random.words(0, "t", np.arange(24_000), 3), 4)
    codes = picks[:, 0] * 16 + picks[:, 1] * 4 + picks[:, 2]
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-4
    assert all(len(set(row)) == 3 for row in picks.tolist())


def test_choose_takes_a_size_for_each_row():
    n = np.asarray([3, 10, 100])
    picks = random.choose(random.words(1, "t", np.arange(3), 3), n)
    assert (picks < n[:, None]).all()
    assert sorted(picks[0].tolist()) == [0, 1, 2]


def test_words_look_random_and_do_not_depend_on_their_company():
    w = random.words(5, "s", np.arange(2000), 8)
    np.testing.assert_array_equal(w[77], random.words(5, "s", np.asarray([77]), 8)[0])
    assert stats.kstest(random.uniform(w).ravel(), "uniform").pvalue > 1e-4
    assert len(np.unique(w)) == w.size
    assert not np.array_equal(w, random.words(6, "s", np.arange(2000), 8))
    bits = np.unpackbits(w.view(np.uint8)).mean()
    assert abs(bits - 0.5) < 0.005


def test_every_class_and_image_is_drawn_equally_often(patches):
    rule = NWay(patches.test, 3, 2, 3)
    episodes = rule.draw_block(0, 0, 4000)
    images = np.concatenate([e.query for e in episodes])
    counts = np.bincount(images, minlength=len(patches))[patches.test.rows]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_labels_are_those_of_the_table(patches):
    for rule in (NWay(patches.test, 4, 3, 5), AnyWay(patches.test, (2, 4), (1, 9), 6)):
        for e in rule.draw_block(1, 0, 30):
            kinds = patches.table["kind"].to_numpy()
            for rows, labels in ((e.support, e.support_labels), (e.query, e.query_labels)):
                named = [e.names[0][c].split("/")[-1] for c in labels]
                assert kinds[rows].tolist() == named
            assert np.ptp(np.bincount(e.query_labels)) == 0


def test_any_way_shots_are_capped_by_the_smallest_class():
    import polars as pl

    from handful.data.collection import Card, Collection

    sizes = [8, 9, 30, 30, 30, 30]
    label = np.repeat(np.arange(6), sizes)
    table = pl.DataFrame({"k": [f"k{i}" for i in label]})
    c = Collection(
        Card("c", "images", (2, 2, 1), ("k",), hash="0" * 64), table, np.zeros((len(label), 2, 2, 1), np.uint8)
    )
    shots = {}
    for e in AnyWay(c.whole, (2, 6), (1, 20), 5).draw_block(0, 0, 400):
        smallest = min(sizes[int(n[1:])] for n in e.names[0])
        assert 1 <= e.shots <= min(20, smallest - 5)
        shots[e.shots] = shots.get(e.shots, 0) + 1
        assert np.ptp(np.bincount(e.support_labels)) == 0
    assert set(shots) == set(range(1, 21))


def test_each_data_set_gets_its_number_of_tasks(patches):
    names = [e.side["dataset"] for e in AnyWay(patches.whole, 3, 2, 4, datasets="each").draw_block(0, 0, 40)]
    assert names.count("odd") == names.count("even") == 20
    for e in AnyWay(patches.whole, (2, 8), 1, 4).draw_block(0, 0, 50):
        assert len({n.split("/")[0] for n in e.names[0]}) == 1


def test_infeasible_names_classes_and_the_largest_feasible_numbers(patches):
    with pytest.raises(Infeasible, match=r"largest feasible: 0 ways with 45 images per class, or 40 images per class"):
        NWay(patches.test, 5, 30, 15).check()
    with pytest.raises(Infeasible, match="k2"):
        NWay(patches.test, 5, 30, 15).draw(0, 0)
    with pytest.raises(Infeasible, match="largest feasible"):
        AnyWay(patches.test, (15, 20), 1, 4).check()


@pytest.mark.parametrize("options", [{"ways": 1}, {"shots": 0}, {"queries": 0}, {"ways": 2.5}])
def test_impossible_numbers_are_refused(patches, options):
    with pytest.raises(BadInput):
        NWay(patches.test, **options)


def test_rules_by_name_say_what_they_know(patches):
    rule = make_rule("any-way", patches.test, ways="2-5", shots=3)
    assert rule.ways == (2, 5)
    with pytest.raises(BadInput, match="did you mean shots"):
        make_rule("n-way", patches.test, shot=3)
    with pytest.raises(BadInput, match="did you mean n-way"):
        make_rule("nway", patches.test)
    with pytest.raises(BadInput, match="range such as"):
        parse_range("a-b", "ways")


def test_episodes_are_replayed_only_on_their_own_collection(patches, tmp_path):
    episodes = NWay(patches.test, 3, 1, 2).draw_block(0, 0, 4)
    write_episodes(tmp_path / "e.jsonl", episodes, patches)
    back = read_episodes(tmp_path / "e.jsonl", patches)
    assert [e.as_dict() for e in back] == [e.as_dict() for e in episodes]
    with pytest.raises(Mismatch):
        read_episodes(tmp_path / "e.jsonl", blobs(seed=1))
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(BadInput, match="not a file of episodes"):
        read_episodes(tmp_path / "bad", patches)


def test_a_support_can_be_made_from_any_whole_numbers():
    s = Support.of(np.zeros((4, 2, 2, 3), np.uint8), np.asarray([7, -2, 7, 100]))
    assert s.shape == (3,) and s.labels.tolist() == [1, 0, 1, 2]
    with pytest.raises(BadInput):
        Support.of(np.zeros((2, 2, 2, 3), np.uint8), np.asarray([0.5, 1.0]))


def test_batches_cover_the_part_once_an_epoch(patches):
    rule = NWay(patches.train, 3, 1, 1)
    rows = rule.batch_rows(0, 48)
    epoch = np.concatenate([next(rows)[0] for _ in range(len(patches.train) // 48)])
    assert len(set(epoch.tolist())) == len(epoch)
    later = next(rule.batch_rows(0, 48, start=5))[0]
    first = rule.batch_rows(0, 48)
    for _ in range(5):
        next(first)
    np.testing.assert_array_equal(later, next(first)[0])
