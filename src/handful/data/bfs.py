"""Breadth-first searches over CSR arrays, a whole frontier at a time: the speed of everything that asks a taxonomy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]

UNREACHED = -1


def expand(ptr: Ints, idx: Ints, nodes: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All neighbours of ``nodes``: (position in ``nodes``, neighbour), in order."""
    start = ptr[nodes].astype(np.int64)
    count = ptr[np.asarray(nodes) + 1] - start
    owner = np.repeat(np.arange(len(nodes)), count)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return owner, idx[start[owner] + offset].astype(np.int64)


def distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted without repeats: numpy sorts integers faster than it hashes them."""
    ordered = np.sort(keys)
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def csr(n: int, source: Ints, target: Ints) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Row pointers and sorted column indices of the edges source -> target."""
    order = np.lexsort((target, source))
    ptr = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=n), out=ptr[1:])
    return ptr, np.asarray(target)[order].astype(np.int32)


def levels(ptr: Ints, idx: Ints, sources: Ints) -> NDArray[np.int32]:
    """Distance of every node to its nearest source; ``UNREACHED`` where there is no path."""
    dist = np.full(len(ptr) - 1, UNREACHED, dtype=np.int32)
    frontier = distinct(np.asarray(sources, dtype=np.int64))
    dist[frontier] = 0
    level = 0
    while len(frontier):
        level += 1
        near = expand(ptr, idx, frontier)[1]
        frontier = distinct(near[dist[near] == UNREACHED])
        dist[frontier] = level
    return dist


def reach(ptr: Ints, idx: Ints, sources: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Everything each source reaches by one step or more: (position in ``sources``, node, distance)."""
    n = len(ptr) - 1
    owner, node = np.arange(len(sources), dtype=np.int64), np.asarray(sources, dtype=np.int64)
    seen = np.sort(owner * n + node)
    out: list[tuple[NDArray, NDArray, NDArray]] = []
    level = 0
    while len(node):
        level += 1
        at, near = expand(ptr, idx, node)
        key = distinct(owner[at] * n + near)
        place = np.searchsorted(seen, key)
        known = place < len(seen)
        known[known] = seen[place[known]] == key[known]
        key = key[~known]
        owner, node = key // n, key % n
        seen = np.union1d(seen, key)
        out.append((owner, node, np.full(len(key), level, dtype=np.int32)))
    if not out:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32)
    return np.concatenate([o[0] for o in out]), np.concatenate([o[1] for o in out]), np.concatenate([o[2] for o in out])


def two_nearest(ptr: Ints, idx: Ints, sources: Ints) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The two nearest distinct sources of every node: distances (n, 2) and sources (n, 2), ``UNREACHED`` for none.

    A label that is among the two nearest of a node is (up to ties) among the two nearest of the neighbour it came
    through, so two labels a node are enough and the whole graph costs two breadth-first searches.
    """
    n = len(ptr) - 1
    dist = np.full((n, 2), UNREACHED, dtype=np.int32)
    label = np.full((n, 2), UNREACHED, dtype=np.int64)
    node = distinct(np.asarray(sources, dtype=np.int64))
    name = node.copy()
    dist[node, 0], label[node, 0] = 0, node
    level = 0
    while len(node):
        level += 1
        at, near = expand(ptr, idx, node)
        carried = name[at]
        open_ = (label[near, 1] == UNREACHED) & (label[near, 0] != carried)
        key = distinct(near[open_] * n + carried[open_])
        near, carried = key // n, key % n
        first = np.searchsorted(near, near, side="left")
        rank = np.arange(len(near)) - first + (label[near, 0] != UNREACHED)
        keep = rank < 2
        node, name, rank = near[keep], carried[keep], rank[keep]
        dist[node, rank], label[node, rank] = level, name
    return dist, label


def all_nearest(ptr: Ints, idx: Ints, dist: Ints, targets: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every nearest source of each target, ties included: (position in ``targets``, source), sorted.

    ``dist`` comes from :func:`levels`; walking downhill from the targets visits shortest paths only.
    """
    n = len(ptr) - 1
    owner, node = np.arange(len(targets), dtype=np.int64), np.asarray(targets, dtype=np.int64)
    reachable = dist[node] != UNREACHED
    owner, node = owner[reachable], node[reachable]
    done: list[NDArray] = []
    while len(node):
        arrived = dist[node] == 0
        done.append(owner[arrived] * n + node[arrived])
        owner, node = owner[~arrived], node[~arrived]
        at, near = expand(ptr, idx, node)
        closer = dist[near] == dist[node[at]] - 1
        key = distinct(owner[at][closer] * n + near[closer])
        owner, node = key // n, key % n
    key = np.sort(np.concatenate(done)) if done else np.zeros(0, np.int64)
    return key // n, key % n


def matrix(ptr: Ints, idx: Ints, sources: Ints, targets: Ints) -> NDArray[np.int16]:
    """Distances (sources, targets); 64 searches travel together in the bits of one word."""
    n = len(ptr) - 1
    out = np.full((len(sources), len(targets)), UNREACHED, dtype=np.int16)
    has = np.flatnonzero(np.diff(ptr))
    starts = ptr[has]
    for first in range(0, len(sources), 64):
        block = np.asarray(sources[first : first + 64], dtype=np.int64)
        frontier = np.zeros(n, dtype=np.uint64)
        np.bitwise_or.at(frontier, block, np.uint64(1) << np.arange(len(block), dtype=np.uint64))
        seen = frontier.copy()
        level = 0
        while True:
            new = frontier[targets]
            hit = np.flatnonzero(new)
            if len(hit):
                bits = np.unpackbits(new[hit].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
                where, bit = np.nonzero(bits)
                out[first + bit, hit[where]] = level
            gathered = np.zeros(n, dtype=np.uint64)
            if len(idx):
                gathered[has] = np.bitwise_or.reduceat(frontier[idx], starts)
            frontier = gathered & ~seen
            if not frontier.any():
                break
            seen |= frontier
            level += 1
    return out
