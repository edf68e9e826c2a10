"""Random words as a pure function of (seed, stream, number, lane): no state, any order, any worker.

A word is the SplitMix64 finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)
applied along a sequence whose start depends on seed, stream and task number.
"""

from __future__ import annotations

import hashlib

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser, elementwise on uint64."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> _30)) * _A
        x = (x ^ (x >> _27)) * _B
        return x ^ (x >> _31)


def key(seed: int, stream: str) -> np.uint64:
    """A 64-bit key for a named stream of random words under a seed."""
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def words(seed: int, stream: str, numbers: np.ndarray, lanes: int) -> np.ndarray:
    """``(len(numbers), lanes)`` random uint64: row i depends on numbers[i] alone."""
    with np.errstate(over="ignore"):
        start = mix(key(seed, stream) ^ mix(np.asarray(numbers, dtype=np.uint64) * GOLDEN + GOLDEN))
        return mix(start[:, None] + (np.arange(1, lanes + 1, dtype=np.uint64) * GOLDEN)[None, :])


def below(random: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """Uniform integers in 0..n-1 from random words (bias below 2**-32 for n < 2**31)."""
    high = (random >> np.uint64(32)).astype(np.uint64)
    return ((high * np.asarray(n).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def uniform(random: np.ndarray) -> np.ndarray:
    """Uniform float64 in [0, 1)."""
    return (random >> np.uint64(11)).astype(np.float64) * 2.0**-53


def choose(random: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """Draw k distinct integers of 0..n-1 in random order, for every row at once.

    Parameters
    ----------
    random
        ``(..., k)`` random words.
    n
        How many there are to choose from, one for each row. Where n < k the first n picks are right, the rest void.

    Notes
    -----
    The j-th word picks the r-th of the n - j integers not chosen yet; stepping over the chosen ones in ascending order
    turns r into that integer. k(k-1)/2 vector operations, k words a row, whatever n is.
    """
    k = random.shape[-1]
    n = np.broadcast_to(np.asarray(n, dtype=np.int64), random.shape[:-1])
    picks = np.empty(random.shape, dtype=np.int64)
    chosen = np.empty((*random.shape[:-1], 0), dtype=np.int64)
    for j in range(k):
        pick = below(random[..., j], np.maximum(n - j, 1))
        for i in range(j):
            pick = pick + (chosen[..., i] <= pick)
        picks[..., j] = pick
        chosen = np.sort(np.concatenate([chosen, pick[..., None]], axis=-1), axis=-1)
    return picks


def subseed(seed: int, stream: str, number: int = 0) -> int:
    """A seed of its own (63 bits) for one task, step or worker."""
    return int(words(seed, stream, np.asarray([number]), 1)[0, 0] >> np.uint64(1))
