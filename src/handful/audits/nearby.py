"""Pairs of nearly equal thumbnails, without comparing every two: nothing that the comparison of all would find is missed.

Two unit vectors of cosine c are at most sqrt(2 - 2c) apart, and no further in any directions that they are projected on; two images
whose patches differ by t in the mean differ by no more than t in their mean brightness. So images are sorted by brightness, and each
is compared with those within t of it, on the thumbnails' first principal directions alone; what is left is compared in full.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DIRECTIONS = 16
SAMPLE = 4096
ROWS, COLUMNS = 256, 8192
"""One block of the search: its memory is theirs whatever the number of images."""
SLACK = 0.006
"""Thumbnails and patches are kept in half precision."""


def close_pairs(
    thumbs: np.ndarray, tints: np.ndarray, asked: np.ndarray, alike: float, tint: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Candidates in blocks: positions (i, j), i asked, of all pairs whose thumbnails correlate by ``alike`` and whose patches are within ``tint``.

    Some further pairs are among them. A pair of two asked images comes once or twice, never an image with itself. Thumbnails of length
    0 are near to nothing.

    Parameters
    ----------
    thumbs, tints
        ``(n, d)`` rows of length 1 (or 0), and ``(n, p)`` mean colours on the scale 0..1, both float16.
    asked
        Positions whose pairs are wanted.
    """
    light, points = brightness(tints), projected(thumbs)
    whole = np.isfinite(points[:, 0])
    order = np.argsort(light, kind="stable")
    order = order[whole[order]]
    wanted = np.zeros(len(light), dtype=bool)
    wanted[asked] = True
    every = bool(wanted[order].all())
    sorted_light = light[order].astype(np.float64)
    points = points[order]
    # |a - b|² = |a|² + |b|² - 2ab as one product: (a, 1, -|a|²/2) with (b, -|b|²/2, 1).
    half = -0.5 * np.square(points).sum(1, keepdims=True)
    ones = np.ones_like(half)
    left, right = np.concatenate([points, ones, half], 1), np.concatenate([points, half, ones], 1)
    bound = np.float32(-(1 - alike) - SLACK)
    ask = np.flatnonzero(wanted[order])
    for start in range(0, len(ask), ROWS):
        some = ask[start : start + ROWS]
        low = int(np.searchsorted(sorted_light, sorted_light[some[0]] - tint - SLACK))
        high = int(np.searchsorted(sorted_light, sorted_light[some[-1]] + tint + SLACK, side="right"))
        low = int(some[0]) if every else low
        for at in range(low, high, COLUMNS):
            stop = min(at + COLUMNS, high)
            found = np.flatnonzero(left[some] @ right[at:stop].T >= bound)
            i, j = some[found // (stop - at)], at + found % (stop - at)
            kept = (i < j) if every else (i != j)
            if kept.any():
                yield order[i[kept]], order[j[kept]]


def comparisons(tints: np.ndarray, asked: int, tint: float) -> float:
    """About how many pairs a search has to look at."""
    light = np.sort(brightness(tints))
    some = light[:: max(1, len(light) // SAMPLE)]
    near = np.searchsorted(light, some + tint) - np.searchsorted(light, some - tint)
    return float(near.mean()) * asked


def brightness(tints: np.ndarray) -> np.ndarray:
    out = np.empty(len(tints), dtype=np.float32)
    for start in range(0, len(tints), 65536):
        out[start : start + 65536] = tints[start : start + 65536].astype(np.float32).mean(1)
    return out


def projected(thumbs: np.ndarray) -> np.ndarray:
    """Coordinates on the directions of most variance of some of the rows; rows of length 0 become NaN."""
    n = len(thumbs)
    some = thumbs[:: max(1, n // SAMPLE)].astype(np.float32)
    values, vectors = np.linalg.eigh(some.T @ some)
    basis = np.ascontiguousarray(vectors[:, np.argsort(-values)[:DIRECTIONS]], dtype=np.float32)
    out = np.empty((n, basis.shape[1]), dtype=np.float32)
    for start in range(0, n, 16384):
        block = thumbs[start : start + 16384].astype(np.float32)
        out[start : start + 16384] = block @ basis
        out[start : start + 16384][np.square(block).sum(1) < 0.25] = np.nan
    return out
