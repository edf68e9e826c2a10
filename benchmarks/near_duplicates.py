"""Near-duplicate search: against every two images compared, a matrix product and faiss, in one run; and a million rows.

    python benchmarks/near_duplicates.py [PACKED] [--images 20000] [--million]

The reference compares every two images in full (perceptual hash, thumbnail correlation, patch colours). The matrix product
multiplies all thumbnails with one another, and faiss-cpu (pip install faiss-cpu) searches them by range; both know of thumbnails only, so that
their pairs are cut by hash and colours as well. Without PACKED: world images of which one in twenty is a near copy.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import time
from collections.abc import Callable

import numpy as np

import handful as hf
from handful.audits.scan import ALIKE, FAR, TINT, Scan, near_pairs, scan


def memory() -> float:
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cut(s: Scan, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Of these pairs those that are near copies, by all three measures in full."""
    codes = np.unique(s.digests, return_inverse=True)[1].reshape(-1)
    keep = (codes[i] != codes[j]) & ~s.constant[i] & ~s.constant[j]
    i, j = i[keep], j[keep]
    keep = (s.hashes[i] != s.hashes[j]).sum(1) <= FAR
    i, j = i[keep], j[keep]
    like = np.einsum("nd,nd->n", s.thumbs[i].astype(np.float32), s.thumbs[j].astype(np.float32))
    far = np.abs(s.tints[i].astype(np.float32) - s.tints[j].astype(np.float32)).mean(1)
    keep = (like >= ALIKE) & (far <= TINT)
    both = np.sort(np.stack([i[keep], j[keep]], 1), 1)
    return np.unique(both, axis=0)


def exact(s: Scan) -> np.ndarray:
    """Every two hashes compared, and of those that are near the thumbnails and colours."""
    hashes, out = s.hashes.astype(np.float32), []
    for start in range(0, len(hashes), 1024):
        i, j = np.nonzero((hashes.shape[1] - hashes[start : start + 1024] @ hashes.T) / 2 <= FAR)
        i = i + start
        out.append(cut(s, i[i < j], j[i < j]))
    return np.unique(np.concatenate(out), axis=0)


def product(s: Scan) -> np.ndarray:
    """All thumbnails times all thumbnails."""
    x, out = s.thumbs.astype(np.float32), []
    for start in range(0, len(x), 1024):
        i, j = np.nonzero(x[start : start + 1024] @ x.T >= ALIKE)
        i = i + start
        out.append(cut(s, i[i < j], j[i < j]))
    return np.unique(np.concatenate(out), axis=0)


def by_faiss(s: Scan) -> np.ndarray:
    """faiss's exact inner-product index, searched by range."""
    import faiss

    faiss.omp_set_num_threads(1)
    x = np.ascontiguousarray(s.thumbs, dtype=np.float32)
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(x)
    ends, _, found = index.range_search(x, ALIKE - 1e-4)
    i = np.repeat(np.arange(len(x)), np.diff(ends).astype(np.int64))
    return cut(s, i[i < found], found[i < found])


def ours(s: Scan) -> np.ndarray:
    found, _ = near_pairs(s, s.rows, most=float("inf"))
    return np.unique(np.sort(np.searchsorted(s.rows, found), 1), axis=0)


def timed(search: Callable[[Scan], np.ndarray], s: Scan) -> tuple[np.ndarray, float]:
    start = time.process_time()
    found = search(s)
    return found, time.process_time() - start


def pairs(found: np.ndarray) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in found}


def made(n: int, seed: int = 0) -> Scan:
    """What a scan of n images would have seen: random thumbnails of low-frequency images, one in a thousand a near copy."""
    rng = np.random.default_rng(seed)
    thumbs, tints = np.empty((n, 256), dtype=np.float16), np.empty((n, 48), dtype=np.float16)
    hashes = np.empty((n, 64), dtype=np.int8)
    waves = rng.normal(size=(40, 256)).astype(np.float32) * (1 / np.arange(1, 41) ** 0.7)[:, None]
    for start in range(0, n, 50_000):
        k = min(50_000, n - start)
        x = rng.normal(size=(k, 40)).astype(np.float32) @ waves + 0.2 * rng.normal(size=(k, 256)).astype(np.float32)
        x -= x.mean(1, keepdims=True)
        thumbs[start : start + k] = x / np.linalg.norm(x, axis=1, keepdims=True)
        base = np.clip(rng.normal(0.47, 0.17, (k, 1)), 0, 1)
        tints[start : start + k] = np.clip(base + rng.normal(0, 0.1, (k, 48)), 0, 1)
        hashes[start : start + k] = np.where(rng.random((k, 64)) < 0.5, -1, 1)
    copies = rng.permutation(n)[: 2 * (n // 1000)].reshape(-1, 2)
    for of, copy in copies:
        thumbs[copy], tints[copy], hashes[copy] = thumbs[of], tints[of], hashes[of]
    return Scan(np.arange(n), [str(i) for i in range(n)], hashes, thumbs, tints, np.zeros(n, dtype=bool), True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packed", nargs="?", default="world:classes=400,images=50,near=true,repeats=0.2")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--million", action="store_true")
    asked = parser.parse_args()
    if asked.million:
        s, before = made(1_000_000), memory()
        found, seconds = timed(ours, s)
        print(
            f"a million rows: {len(found):,} pairs of 1,000 planted, {seconds:.0f} s of one core, {memory() - before:,.0f} MB more than the scan's {before:,.0f}"
        )
        return
    c = hf.open(asked.packed)
    rows = np.sort(np.random.default_rng(0).permutation(len(c))[: asked.images])
    s = scan(c, rows, 0.0)
    keep = np.isin(s.rows, rows)
    s = Scan(
        s.rows[keep],
        [d for d, k in zip(s.digests, keep, strict=True) if k],
        s.hashes[keep],
        s.thumbs[keep],
        s.tints[keep],
        s.constant[keep],
        True,
    )
    truth, seconds = timed(exact, s)
    print(
        f"{c.id}: {len(s.rows):,} images, {len(truth):,} near copies; every two hashes compared: {seconds:.2f} s of one core"
    )
    searches = {"handful": ours, "matrix product": product}
    if importlib.util.find_spec("faiss") is not None:
        searches["faiss-cpu"] = by_faiss
    for name, search in searches.items():
        found, seconds = timed(search, s)
        share = len(pairs(found) & pairs(truth)) / max(1, len(truth))
        extra = len(pairs(found) - pairs(truth))
        print(f"  {name:<16}{seconds:8.2f} s  recall {share:.4f}, {extra} pairs beyond")


if __name__ == "__main__":
    main()
