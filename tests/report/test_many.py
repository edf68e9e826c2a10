"""Many methods at once: corrections, ranks and groups, by hand and against scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from handful.errors import BadInput
from handful.metrics.compare import paired, sign_flip
from handful.metrics.many import all_pairs, cliques, critical_difference, friedman, holm, p_values


def test_holm_by_hand():
    # sorted: 0.01*4 = 0.04; 0.02*3 = 0.06; 0.03*2 = 0.06; 0.5*1 = 0.5
    assert holm(np.asarray([0.02, 0.5, 0.01, 0.03])) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    # a larger p is never corrected to less than a smaller one: 0.02*2 = 0.04, then max(0.04, 0.03)
    assert holm(np.asarray([0.02, 0.03])) == pytest.approx([0.04, 0.04])
    assert holm(np.asarray([0.9, 0.8, 0.7])) == pytest.approx([1, 1, 1])
    assert holm(np.asarray([np.nan, 0.01])) == pytest.approx([1.0, 0.02])
    assert len(holm(np.zeros(0))) == 0


def test_sign_flips_of_few_pairs_are_counted_exactly():
    d = np.asarray([0.1, 0.3, -0.2, 0.4, 0.05])
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((-1, 1), repeat=5)]
    expected = np.mean([s >= abs(d.sum()) - 1e-12 for s in sums])
    assert sign_flip(d[:, None])[0] == pytest.approx(expected)


def test_sign_flips_agree_with_scipy_and_with_compare_and_ignore_what_is_missing():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.02, 0.1, 80), np.zeros(80)
    ours = paired(a, b).p
    theirs = stats.permutation_test((a,), np.mean, permutation_type="samples", n_resamples=9999, rng=1).pvalue
    assert ours == pytest.approx(theirs, abs=0.02)
    together = np.stack([rng.normal(size=80), a], 1)
    assert p_values(together)[1] == ours
    with_gap = np.concatenate([a, [np.nan] * 4])[:, None]
    assert sign_flip(with_gap)[0] == pytest.approx(ours, abs=0.02)
    assert paired(np.asarray([0.3, np.nan, 0.4]), np.zeros(3)).p == 0.5


@pytest.mark.parametrize("test", ["sign-flip", "t", "wilcoxon"])
def test_each_test_sees_a_difference_and_no_difference(test):
    rng = np.random.default_rng(3)
    d = np.stack([rng.normal(0.05, 0.05, 60), rng.normal(0, 0.05, 60), np.zeros(60)], 1)
    p = p_values(d, test)
    assert p[0] < 0.001 and p[1] > 0.05 and p[2] == 1
    if test == "t":
        assert p[0] == pytest.approx(stats.ttest_rel(d[:, 0], np.zeros(60)).pvalue)
    if test == "wilcoxon":
        assert p[0] == pytest.approx(stats.wilcoxon(d[:, 0]).pvalue)


def test_an_unknown_test_is_refused():
    with pytest.raises(BadInput, match="wilcoxon"):
        p_values(np.zeros((3, 1)), "wilcox")


@pytest.mark.parametrize("decimals", [8, 1])
def test_friedman_is_scipys_with_and_without_ties(decimals):
    rng = np.random.default_rng(decimals)
    scores = np.round(rng.normal(size=(14, 5)) + np.arange(5) * 0.4, decimals)
    found = friedman(scores)
    expected = stats.friedmanchisquare(*scores.T)
    assert (found.chi2, found.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert found.ranks == pytest.approx(stats.rankdata(-scores, axis=1).mean(0))
    assert friedman(scores, lower=True).ranks == pytest.approx(6 - found.ranks)


def test_friedman_by_hand():
    # Three methods always in the same order over four blocks: R = 4, 8, 12, chi2 = 12/(4*3*4) * 224 - 3*4*4 = 8.
    found = friedman(np.tile([0.9, 0.5, 0.1], (4, 1)))
    assert found.chi2 == pytest.approx(8) and found.f == np.inf
    assert list(found.ranks) == [1, 2, 3]
    assert friedman(np.ones((5, 3))).p == 1
    with pytest.raises(BadInput, match="3 methods"):
        friedman(np.ones((5, 2)))


def test_friedman_leaves_incomplete_blocks_out():
    scores = np.random.default_rng(0).normal(size=(10, 3))
    holed = np.vstack([scores, [1.0, np.nan, 0.0]])
    assert friedman(holed).chi2 == friedman(scores).chi2 and friedman(holed).n == 10


# Demsar 2006, Table 5(a): q at 0.05 for 2 to 10 methods.
DEMSAR = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


def test_the_critical_difference_is_the_published_one():
    for k, q in enumerate(DEMSAR, start=2):
        assert critical_difference(k, 14) == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * 14)), abs=1e-3)
    # His example of four methods on 14 data sets: CD = 1.25
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    q = stats.studentized_range.ppf(0.9, 5, np.inf) / np.sqrt(2)
    assert critical_difference(5, 30, 0.1) == pytest.approx(q * np.sqrt(5 * 6 / (6 * 30)))


def tied(k: int, *pairs: tuple[int, int]) -> np.ndarray:
    out = np.eye(k, dtype=bool)
    for a, b in pairs:
        out[a, b] = out[b, a] = True
    return out


def test_groups_by_hand():
    ranks = np.asarray([3.0, 1.0, 2.0, 4.0])  # order: 1, 2, 0, 3
    assert cliques(ranks, tied(4, (1, 2), (2, 0), (0, 3))) == [(1, 2), (2, 0), (0, 3)]
    assert cliques(ranks, tied(4, (1, 2), (2, 0), (1, 0))) == [(1, 2, 0)]
    assert cliques(ranks, tied(4)) == []
    assert cliques(ranks, np.ones((4, 4), dtype=bool)) == [(1, 2, 0, 3)]
    # a tie across a method that differs from one of the two is no group
    assert cliques(ranks, tied(4, (1, 0))) == []


def test_groups_are_never_one_inside_another_and_cover_every_tie_of_neighbours():
    rng = np.random.default_rng(1)
    for _ in range(200):
        k = int(rng.integers(2, 8))
        same = np.triu(rng.random((k, k)) < 0.5, 1)
        same = same | same.T | np.eye(k, dtype=bool)
        ranks = rng.permutation(k).astype(float)
        found = cliques(ranks, same)
        assert all(same[a, b] for group in found for a in group for b in group)
        assert not any(set(a) < set(b) for a in found for b in found)
        order = np.argsort(ranks)
        for a, b in itertools.pairwise(order):
            assert not same[a, b] or any({a, b} <= set(group) for group in found)


def test_pairs_are_corrected_over_all_of_them():
    rng = np.random.default_rng(5)
    scores = rng.normal(0.5, 0.1, (50, 4))
    scores[:, 0] += 0.2
    found = all_pairs(scores, "t")
    assert [(p.first, p.second) for p in found] == list(itertools.combinations(range(4), 2))
    assert [p.adjusted for p in found] == pytest.approx(list(holm(np.asarray([p.p for p in found]))))
    assert found[0].difference.value == pytest.approx((scores[:, 0] - scores[:, 1]).mean())
