"""Algorithm 1 as a rule."""

from __future__ import annotations

import dataclasses
import gzip
from collections import Counter

import numpy as np
import polars as pl
import pytest
from scipy import stats

from handful.cli import main
from handful.data.collection import Collection
from handful.errors import BadInput, Infeasible
from handful.tasks.pairs import Pairs, references
from handful.tasks.rule import make as make_rule
from made.grids import full, grid, sparse


@pytest.fixture(scope="module")
def part():
    return grid(sparse(14, 16, 0.22), each=12, size=2).test


def facts(rule, episode):
    table = rule.part.collection.table
    return list(zip(table["tone"][episode.support].to_list(), table["thing"][episode.support].to_list(), strict=True))


def test_labels_are_the_images_own_pairs_and_support_and_query_are_disjoint(part):
    rule = Pairs(part)
    table = part.collection.table
    for episode in rule.draw_block(3, 0, 200):
        assert not set(episode.support) & set(episode.query)
        for images, labels in ((episode.support, episode.support_labels), (episode.query, episode.query_labels)):
            assert len(set(images)) == len(images)
            for image, label in zip(images.tolist(), labels.tolist(), strict=True):
                pair = (episode.names[0][label // 5], episode.names[1][label % 5])
                assert pair == (table["tone"][image], table["thing"][image])


def test_counts_of_pairs_and_images(part):
    for episode in Pairs(part, shots=4, queries=3).draw_block(0, 0, 200):
        support, query = Counter(episode.support_labels.tolist()), Counter(episode.query_labels.tolist())
        assert set(support.values()) == {4} and set(query.values()) == {3}
        seen = set(np.flatnonzero(episode.seen).tolist())
        assert set(support) == seen and seen < set(query)
        assert 5 + 1 <= len(seen) <= len(query) - 1
        assert {c // 5 for c in seen} == {c % 5 for c in seen} == set(range(5))
        assert all(len(set(names)) == 5 for names in episode.names)


def test_every_candidate_pair_is_used(part):
    """The query classes are exactly the existing pairs of the task's primitives."""
    table = part.collection.table
    exists = set(zip(table["tone"].to_list(), table["thing"].to_list(), strict=True))
    for episode in Pairs(part).draw_block(1, 0, 100):
        wanted = {i * 5 + j for i in range(5) for j in range(5) if (episode.names[0][i], episode.names[1][j]) in exists}
        assert set(episode.query_labels.tolist()) == wanted


@pytest.mark.parametrize("density", [0.22, 1.0])
def test_number_of_seen_pairs_is_binomial(density):
    cells = full(8, 8) if density == 1 else sparse(14, 16, density)
    rule = Pairs(grid(cells, each=10, size=1).test)
    episodes = rule.draw_block(0, 0, 4000)
    by_candidates: dict[int, list[int]] = {}
    for e in episodes:
        candidates = e.side["seen_pairs"] + e.side["unseen_pairs"] - 5
        by_candidates.setdefault(candidates, []).append(e.side["seen_pairs"] - 6)
    tested = 0
    for candidates, extra in by_candidates.items():
        if len(extra) < 200:
            continue
        if candidates == 2:
            assert set(extra) == {0}
            continue
        count = np.bincount(extra, minlength=candidates - 1)
        expected = stats.binom.pmf(np.arange(candidates - 1), candidates - 2, 0.5) * len(extra)
        low = expected < 5
        observed, wanted = count[~low].astype(float), expected[~low]
        if low.any():
            observed, wanted = np.append(observed, count[low].sum()), np.append(wanted, expected[low].sum())
        assert stats.chisquare(observed, wanted).pvalue > 1e-4
        tested += 1
    assert tested >= 1


def test_step_one_is_uniform_among_the_pairs_that_fit():
    """Brute force: draw pairs one by one, keep those that share no primitive, count the resulting matchings."""
    cells = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 2), (2, 0)]
    part = grid(cells, each=10, size=1).test
    rng = np.random.default_rng(0)

    def brute() -> frozenset[tuple[int, int]] | None:
        chosen: list[tuple[int, int]] = []
        for k in rng.permutation(len(cells)):
            if all(cells[k][0] != c[0] and cells[k][1] != c[1] for c in chosen):
                chosen.append(cells[k])
                if len(chosen) == 2:
                    rows, columns = {c[0] for c in chosen}, {c[1] for c in chosen}
                    rest = sum(c[0] in rows and c[1] in columns for c in cells) - 2
                    return frozenset((tuple(sorted(rows)), tuple(sorted(columns)))) if rest >= 2 else None
        return None

    wanted = Counter(b for b in (brute() for _ in range(20000)) if b)
    rule = Pairs(part, primitives=2)
    got = Counter(
        frozenset((tuple(sorted(int(n[1:]) for n in e.names[0])), tuple(sorted(int(n[1:]) for n in e.names[1]))))
        for e in rule.draw_block(0, 0, 4000)
    )
    assert set(got) == set(wanted)
    share = np.asarray([wanted[k] for k in wanted]) / sum(wanted.values())
    assert stats.chisquare([got[k] for k in wanted], share * 4000).pvalue > 1e-4


def test_a_block_gives_what_single_draws_give(part):
    rule = Pairs(part)
    block = rule.draw_block(7, 10, 90)
    for number in (10, 33, 89):
        one = rule.draw(7, number)
        assert one.as_dict() == block[number - 10].as_dict()
    assert rule.draw(8, 33).as_dict() != one.as_dict()


def test_columns_do_not_tell_which_pairs_are_seen(part):
    """With shuffled axes the diagonal is seen no more often than any other cell."""
    seen = np.mean([e.seen.reshape(5, 5) for e in Pairs(part).draw_block(0, 0, 3000)], axis=0)
    assert np.ptp(seen) < 0.05


def test_a_fixed_ratio_is_kept():
    rule = Pairs(grid(full(8, 8), each=10, size=1).test, total=12, seen=8)
    for episode in rule.draw_block(0, 0, 300):
        assert episode.side == {"seen_pairs": 8, "unseen_pairs": 4}
        assert len(set(episode.query_labels.tolist())) == 12
    counts = np.mean([e.seen for e in rule.draw_block(0, 0, 3000)], axis=0)
    assert np.ptp(counts) < 0.06


def test_too_small_pairs_are_never_drawn():
    collection = grid(full(6, 6), each=12, size=1)
    table = collection.table
    few = table.with_row_index().filter((table["tone"] == "t00") & (table["thing"] == "o00"))["index"].to_numpy()[:5]
    part = collection.test.where(~np.isin(collection.test.rows, few), "cut")
    for episode in Pairs(part).draw_block(0, 0, 200):
        used = {(episode.names[0][c // 5], episode.names[1][c % 5]) for c in episode.query_labels.tolist()}
        assert ("t00", "o00") not in used


@pytest.mark.parametrize(
    ("cells", "options", "said"),
    [
        (full(4, 9), {}, "at most 4 of them share no primitive"),
        (full(6, 6), {"shots": 10}, "0 pairs with the 10 \\+ 5 images.*need 5: lower shots \\+ queries \\(the largest"),
        ([(i, i) for i in range(8)], {}, "found at most 0 others"),
        ([(i, i) for i in range(8)] + [(0, 1)], {}, "found at most 1 others"),
        ([(i, i) for i in range(9)] + [(0, 1), (1, 0)], {"total": 10, "seen": 6}, "5 are needed"),
    ],
)
def test_what_cannot_be_served_is_said(cells, options, said):
    rule = Pairs(grid(cells, each=12, size=1).test, **options)
    with pytest.raises(Infeasible, match=said):
        rule.check()
    with pytest.raises(Infeasible):
        rule.draw(0, 0)


def test_wrong_options_are_refused(part):
    for options in (
        {"primitives": 1},
        {"primitives": 3.0},
        {"total": 9},
        {"total": 9, "seen": 9},
        {"total": 30, "seen": 9},
        {"total": 12.5, "seen": 8},
        {"shots": 0},
        {"shots": True},
        {"words": 3},
    ):
        with pytest.raises(BadInput):
            Pairs(part, **options)
    with pytest.raises(BadInput, match="no option 'primitive'; did you mean primitives"):
        make_rule("pairs", part, primitive=4)


def test_a_collection_with_one_label_column_is_refused(patches):
    with pytest.raises(BadInput, match="pair tasks need a collection labelled by two"):
        Pairs(patches.test).check()


def test_descriptions_are_the_names_vectors(part, tmp_path):
    names = sorted({*part.collection.table["tone"].to_list(), *part.collection.table["thing"].to_list()})
    path = tmp_path / "v.txt"
    path.write_text("".join(f"{n} {i} {i * i}\n" for i, n in enumerate(names)))
    rule = Pairs(part, words=str(path))
    rule.check()
    assert "descriptions" in rule.shows and "descriptions" not in Pairs(part).shows
    episode = rule.draw(0, 0)
    for axis in range(2):
        wanted = [[names.index(n), names.index(n) ** 2] for n in episode.names[axis]]
        np.testing.assert_allclose(rule.support(episode).descriptions[axis], wanted)
    assert (episode.support == Pairs(part).draw(0, 0).support).all()
    path.write_text("".join(f"{n} {i} {i * i}\n" for i, n in enumerate(names[1:])))
    with pytest.raises(BadInput, match="no vector for 1 of"):
        Pairs(part, words=str(path)).check()
    rule = Pairs(part, words=str(path), unnamed="drop")
    rule.check()
    assert all(names[0] not in e.names[0] + e.names[1] for e in rule.draw_block(0, 0, 200))


def test_names_with_dots_are_described_by_their_words(tmp_path):
    """UT-Zappos writes "Faux.Leather"."""
    collection = grid(full(5, 5), each=12, size=1)
    dotted = collection.table.with_columns(tone=collection.table["tone"].str.replace("t", "Faux.T"))
    part = Collection(collection.card, dotted, np.zeros((len(dotted), 1, 1, 3), dtype=np.uint8)).test
    words = {"faux": 100.0} | {f"{x}{i:02d}": float(i) for x in "to" for i in range(5)}
    (tmp_path / "v.txt").write_text("".join(f"{w} {v} 0\n" for w, v in words.items()))
    rule = Pairs(part, words=str(tmp_path / "v.txt"))
    rule.check()
    episode = rule.draw(0, 0)
    wanted = [(100 + int(name[-2:])) / 2 for name in episode.names[0]]
    np.testing.assert_allclose(episode.descriptions[0][:, 0], wanted)


def test_vectors_that_cannot_be_read_are_refused_in_a_sentence(part, tmp_path):
    packed = gzip.compress(b"".join(b"word%d %d %d\n" % (i, i, i * i) for i in range(200)))
    (tmp_path / "v.txt.gz").write_bytes(packed[:30] + bytes(9) + packed[39:])
    (tmp_path / "v.bin").write_bytes(b"99999999999 300\nword ")
    wrong = {tmp_path: "is a folder", tmp_path / "v.txt.gz": "is damaged", tmp_path / "v.bin": "is too short for"}
    for path, sentence in wrong.items():
        with pytest.raises(BadInput, match=sentence):
            Pairs(part, words=str(path)).check()


def test_dropped_names_are_said_when_too_few_pairs_are_left(part, tmp_path):
    (tmp_path / "v.txt").write_text("t00 1 2\no00 3 4\n")
    with pytest.raises(Infeasible, match="with word vectors of both primitives"):
        Pairs(part, words=str(tmp_path / "v.txt"), unnamed="drop").check()


def test_an_empty_block_is_empty(part):
    assert Pairs(part).draw_block(0, 5, 5) == []


def test_references_count_seen_pairs_a_primitive():
    rule = Pairs(grid(full(5, 5), each=10, size=1).test)
    found = references(rule, 2000)
    assert found["seen_pairs"] == pytest.approx(6 + 18 / 2, abs=0.15)
    assert found["seen_pairs_a_primitive"] == pytest.approx(found["seen_pairs"] / 5)
    assert found["samples_a_primitive"] == pytest.approx(found["seen_pairs"])


def test_batches_carry_both_primitives(part):
    rule = Pairs(part)
    _images, labels = next(rule.batches(0, 32))
    assert labels.shape == (32, 2)
    rows, _ = next(rule.batch_rows(0, 32))
    table = part.collection.table
    assert [rule.grid.names[0][i] for i in labels[:, 0]] == table["tone"][rows].to_list()
    assert [rule.grid.names[1][i] for i in labels[:, 1]] == table["thing"][rows].to_list()


def test_both_published_ways_to_divide_pairs_into_seen_and_unseen():
    """A full grid of 3 x 3: six candidates, so 1 to 5 of them are seen, by coins (binomial) or evenly (authors' sampler)."""
    part = grid(full(3, 3), each=12, size=2).test
    n = 4000
    for division, chance in (
        ("coins", stats.binom.pmf(np.arange(5), 4, 0.5)),
        ("uniform", np.full(5, 1 / 5)),
    ):
        episodes = Pairs(part, primitives=3, division=division).draw_block(0, 0, n)
        extra = np.asarray([e.side["seen_pairs"] for e in episodes]) - 3
        assert {e.side["seen_pairs"] + e.side["unseen_pairs"] for e in episodes} == {9}
        counts = np.bincount(extra, minlength=6)
        assert counts[0] == 0 and len(counts) == 6
        assert stats.chisquare(counts[1:], n * chance).pvalue > 1e-4, division
        if division == "uniform":  # whatever their number, every cell is as often unseen as any other
            unseen = np.mean([~e.seen for e in episodes], axis=0)
            np.testing.assert_allclose(unseen, 3 / 9, atol=5 * np.sqrt(2 / 9 / n))
    with pytest.raises(BadInput, match="division"):
        Pairs(part, division="even")


@pytest.mark.parametrize(("asked", "each"), [((), 5), (("--queries", "3"), 3)])
def test_the_command_line_leaves_the_number_of_queries_to_the_rule(asked, each, tmp_path, capsys):
    grid(full(4, 4), each=24, size=8).save(tmp_path / "p")
    with pytest.raises(SystemExit) as ended:
        main(["eval", "pair-protonet", str(tmp_path / "p"), "--rule", "pairs", "--rule-set", "primitives=3", *asked,
              "--tasks", "4", "--untrained", "-s", "net=pixels", "--out", str(tmp_path / "run")])  # fmt: skip
    assert ended.value.code in (0, None), capsys.readouterr().err
    frame = pl.read_parquet(tmp_path / "run" / "tasks.parquet")
    assert set(frame["queries"] / 9) == {each}


def test_eval_validates_on_the_valid_split_and_keeps_the_best_state(tmp_path, capsys, monkeypatch):
    collection = grid(full(4, 4), each=24, size=16)
    parts = np.array(["train", "valid", "test"])[np.arange(len(collection.table)) % 3]
    table = collection.table.with_columns(pl.Series("halves", parts))
    card = dataclasses.replace(collection.card, schemes=("halves",))
    Collection(card, table, collection.array).save(tmp_path / "p")
    asked = ["eval", "pair-protonet", str(tmp_path / "p"), "--rule", "pairs", "--rule-set", "primitives=3", "--queries", "2",
             "--shots", "2", "--tasks", "4", "-s", "net=conv4:filters=4", "-s", "schedule.steps=4"]  # fmt: skip
    models = {}
    for name, more, judged in (
        ("none", (), ()),
        ("early", ("-s", "schedule.validate_every=2"), (0.9, 0.1)),
        ("late", ("-s", "schedule.validate_every=2"), (0.1, 0.9)),
    ):
        left, seen = list(judged), []
        monkeypatch.setattr(
            "handful.methods.training.validate",
            lambda learner, valid, schedule, left=left, seen=seen: seen.append(valid.part.split) or left.pop(0),
        )
        with pytest.raises(SystemExit) as ended:
            main([*asked, *more, "--save", str(tmp_path / name)])
        assert ended.value.code in (0, None), capsys.readouterr().err
        assert seen == ["valid"] * len(judged)
        models[name] = (tmp_path / name / "model.safetensors").read_bytes()
    assert models["none"] == models["late"] != models["early"]
