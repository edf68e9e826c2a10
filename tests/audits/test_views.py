"""The poor views of images, and what copies are looked for by, against slow and simple references."""

from __future__ import annotations

import numpy as np

from handful.audits.scan import exact_pairs, groups, near_pairs, scan, signs, small_grey
from handful.audits.views import borders, colours, resized, thumbnails
from handful.data.collection import Card, Collection, as_table


def images(n: int = 6, side: int = 24, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, side, side, channels)).astype(np.uint8)


def test_thumbnails_are_means_of_blocks():
    x = images()
    slow = x.reshape(6, 8, 3, 8, 3, 3).astype(float).mean((2, 4)) / 255
    np.testing.assert_allclose(thumbnails()(x).reshape(6, 8, 8, 3), slow, atol=1e-5)
    np.testing.assert_allclose(resized(x, 5, 7).mean((1, 2)), x.mean((1, 2)) / 255, atol=1e-5)


def test_histograms_count_every_pixel_once():
    for channels, width in ((3, 64), (1, 16)):
        x = images(channels=channels)
        found = colours()(x)
        assert found.shape == (6, width)
        np.testing.assert_allclose(np.square(found).sum(1), 1, atol=1e-5)
    x = images()
    code = (x // 64).astype(int)
    first = (code[0, ..., 0] * 16 + code[0, ..., 1] * 4 + code[0, ..., 2]).ravel()
    np.testing.assert_allclose(np.square(colours()(x)[0]), np.bincount(first, minlength=64) / 576, atol=1e-5)


def test_borders_tell_nothing_of_the_middle():
    x = images()
    other = x.copy()
    other[:, 3:21, 3:21] = 255 - other[:, 3:21, 3:21]
    np.testing.assert_array_equal(borders(x), borders(other))
    assert (borders(x)[:, :3] == x[:, :3]).all() and len(
        np.unique(borders(x)[0, 3:21, 3:21].reshape(-1, 3), axis=0)
    ) == 1


def test_a_hash_bears_light_and_grain_and_not_another_picture():
    rng = np.random.default_rng(1)
    rough = rng.integers(30, 200, (20, 6, 6, 3)).repeat(8, 1).repeat(8, 2)
    grain = np.clip(rough + 20 + rng.normal(0, 6, rough.shape), 0, 255).astype(np.uint8)
    a, b = (signs(small_grey(x.astype(np.uint8))) for x in (rough, grain))
    apart = (64 - a.astype(int) @ b.T.astype(int)) / 2
    assert np.diag(apart).max() <= 14 < 18 < (apart + 64 * np.eye(20)).min()


def test_copies_are_found_and_joined():
    rng = np.random.default_rng(2)
    x = rng.integers(30, 220, (30, 6, 6, 3)).repeat(8, 1).repeat(8, 2).astype(np.uint8)
    x[10] = x[3]
    x[20] = x[3]
    x[25] = np.clip(x[7].astype(int) + rng.normal(0, 5, x[7].shape), 0, 255)
    x[[28, 29]] = 77
    c = Collection(Card("c", "images", (48, 48, 3), ("k",), hash="0" * 64), as_table({"k": np.arange(30) % 3}), x)
    seen = scan(c, np.arange(10), 60.0)
    assert seen.complete and seen.rows.tolist() == list(range(30)) and seen.rows[seen.constant].tolist() == [28, 29]
    assert sorted(map(tuple, exact_pairs(seen).tolist())) == [(3, 10), (3, 20), (28, 29)]
    near, asked = near_pairs(seen, np.arange(30))
    assert near.tolist() == [[7, 25]] and asked == 28
    joined = groups(30, exact_pairs(seen), near)
    assert joined[3] == joined[10] == joined[20] and joined[7] == joined[25] and len(np.unique(joined)) == 26
