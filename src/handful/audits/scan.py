"""One pass over the packed images: a digest, a perceptual hash and a thumbnail of each; copies are looked for in these."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from handful.audits.nearby import close_pairs, comparisons
from handful.audits.views import averages
from handful.data.collection import Collection
from handful.data.decoding import pixel_digest
from handful.progress import bar

BLOCK = 512
BITS, SIDE = 64, 16
FAR, ALIKE, TINT = 14, 0.96, 0.06
"""Near copies: at most ``FAR`` of 64 bits apart, thumbnails that correlate by ``ALIKE`` at least, and 4 x 4 patches whose
colours differ by ``TINT`` at most in the mean (of 0 to 1), since a shape alone can be shared by many things."""
PAIRS = 2_000_000_000
"""Comparisons of two images that one search may take (some seconds)."""


@dataclass(frozen=True, eq=False)
class Scan:
    """What was seen of the images ``rows`` (ascending): digests, hashes as rows of -1 and 1, standardised thumbnails, colours.

    ``constant`` are images of one colour throughout; they and features have no hash, a row of zeros.
    """

    rows: np.ndarray
    digests: list[str]
    hashes: np.ndarray
    thumbs: np.ndarray
    tints: np.ndarray
    constant: np.ndarray
    complete: bool

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Where the given images are in the scan; those that were not seen are left out."""
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return at[self.rows[at] == rows]


def scan(collection: Collection, first: np.ndarray, seconds: float, seed: int = 0) -> Scan:
    """Look at every image once, those of ``first`` first, the others in random order until the time is up."""
    others = np.setdiff1d(np.arange(len(collection)), first)
    order = np.concatenate([np.asarray(first, dtype=np.int64), np.random.default_rng(seed).permutation(others)])
    images = collection.card.kind == "images"
    end = time.monotonic() + seconds
    digests: list[str] = []
    hashes, thumbs, tints, constant = [], [], [], []
    done = 0
    with bar(f"looking for copies in {collection.card.name}", len(order)) as advance:
        for start in range(0, len(order), BLOCK):
            if start >= len(first) and time.monotonic() > end:
                break
            some = np.sort(order[start : start + BLOCK])
            order[start : start + BLOCK] = some
            pixels = collection.read(some)
            digests += [pixel_digest(p) for p in pixels]
            if images:
                flat = pixels.reshape(len(pixels), -1, pixels.shape[-1])
                same = (flat == flat[:, :1]).all(axis=(1, 2))
                grey = small_grey(pixels)
                hashes.append(signs(grey) * ~same[:, None])
                half = grey.reshape(len(grey), SIDE, 2, SIDE, 2).mean((2, 4)).reshape(len(grey), -1)
                thumbs.append(standardised(half).astype(np.float16))
                tints.append(patches(pixels))
                constant.append(same)
            done = start + len(some)
            advance(len(some))
    rows = order[:done]
    sorting = np.argsort(rows, kind="stable")
    empty = np.zeros((done, 0), dtype=np.int8)
    return Scan(
        rows[sorting],
        [digests[i] for i in sorting.tolist()],
        np.concatenate(hashes)[sorting] if images else empty,
        np.concatenate(thumbs)[sorting] if images else empty.astype(np.float16),
        np.concatenate(tints)[sorting] if images else empty.astype(np.float16),
        np.concatenate(constant)[sorting] if images else np.zeros(done, dtype=bool),
        done == len(collection),
    )


def small_grey(images: np.ndarray) -> np.ndarray:
    """Area averages ``(n, 32, 32)`` of the mean of the channels."""
    grey = images.sum(3, dtype=np.uint16).astype(np.float32)
    down, across = averages(images.shape[1], 2 * SIDE), averages(images.shape[2], 2 * SIDE)
    return down @ grey @ across.T


def patches(images: np.ndarray) -> np.ndarray:
    """Mean colours of 4 x 4 patches on the scale 0..1, one row per image."""
    n, height, width, channels = images.shape
    rows, columns = height // 4 * 4, width // 4 * 4
    cut = images[:, :rows, :columns].reshape(n, 4, rows // 4, 4, columns // 4, channels)
    return (cut.mean((2, 4), dtype=np.float32) / 255).reshape(n, -1).astype(np.float16)


def signs(grey: np.ndarray) -> np.ndarray:
    """Signs ``(n, 64)``, -1 or 1, of the 8 x 8 lowest frequencies of the grey image, against their median.

    The cosine transform of the 32 x 32 image (Zauner, "Implementation and benchmarking of perceptual image hash functions",
    2010); the mean, which brightness alone changes, is counted as its neighbours' median.
    """
    k, x = np.arange(8)[:, None], np.arange(32)[None, :]
    basis = np.cos(np.pi * k * (2 * x + 1) / 64).astype(np.float32)
    low = (basis @ grey @ basis.T).reshape(len(grey), BITS)
    middle = np.median(low[:, 1:], axis=1, keepdims=True)
    low[:, :1] = middle
    return np.where(low > middle, 1, -1).astype(np.int8)


def standardised(x: np.ndarray) -> np.ndarray:
    """Rows of mean 0 and length 1, so that products are correlations; rows of one value become zeros."""
    x = x - x.mean(1, keepdims=True)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 1e-6)


def exact_pairs(found: Scan) -> np.ndarray:
    """Image numbers ``(n, 2)``: every image with an equal before it, and the first of those."""
    codes = np.unique(found.digests, return_inverse=True)[1].reshape(-1)
    first = np.full(codes.max() + 1 if len(codes) else 0, len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    source = first[codes]
    later = np.flatnonzero(source != np.arange(len(codes)))
    return np.stack([found.rows[source[later]], found.rows[later]], axis=1)


def near_pairs(found: Scan, asked: np.ndarray, seed: int = 0, most: float = PAIRS) -> tuple[np.ndarray, int]:
    """Image numbers ``(n, 2)`` of near copies of the ``asked`` images among all that were scanned, and how many were asked.

    Exact copies are left out. With more than about ``most`` comparisons, some of the asked images are drawn.
    """
    at = found.place(asked)
    at = at[~found.constant[at]]
    if found.hashes.shape[1] == 0 or not len(at):
        return np.zeros((0, 2), dtype=np.int64), 0
    wanted = comparisons(found.tints, len(at), TINT)
    if wanted > most:
        at = np.sort(np.random.default_rng([seed, 0x5CA4]).permutation(at)[: max(1, int(len(at) * most / wanted))])
    codes = np.unique(found.digests, return_inverse=True)[1].reshape(-1)
    pairs = []
    for i, j in close_pairs(found.thumbs, found.tints, at, ALIKE, TINT):
        keep = (codes[i] != codes[j]) & ~found.constant[i] & ~found.constant[j]
        i, j = i[keep], j[keep]
        near = (found.hashes[i] != found.hashes[j]).sum(1) <= FAR
        i, j = i[near], j[near]
        for cut in range(0, len(i), 100_000):
            a, b = i[cut : cut + 100_000], j[cut : cut + 100_000]
            like = np.einsum("nd,nd->n", found.thumbs[a].astype(np.float32), found.thumbs[b].astype(np.float32))
            apart_in_colour = np.abs(found.tints[a].astype(np.float32) - found.tints[b].astype(np.float32)).mean(1)
            pairs.append(np.stack([a, b], 1)[(like >= ALIKE) & (apart_in_colour <= TINT)])
    both = np.concatenate(pairs) if pairs else np.zeros((0, 2), dtype=np.int64)
    both = np.unique(np.sort(both, axis=1), axis=0)
    return found.rows[both].reshape(-1, 2), len(at)


def groups(n: int, *pairs: np.ndarray) -> np.ndarray:
    """A number for each of n images, equal for images that a chain of pairs connects."""
    both = np.concatenate([np.asarray(p, dtype=np.int64).reshape(-1, 2) for p in pairs])
    graph = coo_matrix((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)
