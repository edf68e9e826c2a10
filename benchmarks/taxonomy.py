"""How fast a taxonomy answers, against one breadth-first search a class in the same run on the same machine.

    python benchmarks/taxonomy.py --splits FOLDER [--sample 40] [--json]

FOLDER holds train.txt and all.txt (WordNet ids, one a line). The slow way is timed on a sample of the classes and
scaled to all of them, since the whole would take minutes. All times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from handful.audits.zero_shot.builder import build
from handful.data.class_splits import read_classes
from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import wordnet
from handful.metrics.structure import structural_ratio


def best_of(n: int, call) -> tuple[float, object]:
    """Least processor time of ``n`` runs: what the code costs, whatever else the machine is doing."""
    times, out = [], None
    for _ in range(n):
        start = time.process_time()
        out = call()
        times.append(time.process_time() - start)
    return min(times), out


def one_search_a_class(neighbours: list[list[int]], start: int, train: set[int], test: set[int]) -> tuple[int, int]:
    """Distances from one class to the nearest of either set, by an ordinary breadth-first search with a queue."""
    seen, queue = {start}, collections.deque([(start, 0)])
    to_train = to_test = -1
    while queue and (to_train < 0 or to_test < 0):
        node, far = queue.popleft()
        if node in train and to_train < 0:
            to_train = far
        if node in test and node != start and to_test < 0:
            to_test = far
        for near in neighbours[node]:
            if near not in seen:
                seen.add(near)
                queue.append((near, far + 1))
    return to_train, to_test


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]

    nouns = wordnet()
    with tempfile.TemporaryDirectory() as folder:
        file = nouns.save(Path(folder) / "nouns.npz")
        loading, _ = best_of(5, lambda: Taxonomy.load(file))
    train, every = read_classes(options.splits / "train.txt"), read_classes(options.splits / "all.txt")
    a, b = nouns.index(train), nouns.index(every)
    _ = nouns.around
    fast, found = best_of(5, lambda: structural_ratio(nouns, a, b))

    ptr, idx = nouns.around
    neighbours = [idx[ptr[i] : ptr[i + 1]].tolist() for i in range(len(nouns))]
    sample = np.random.default_rng(0).choice(len(b), options.sample, replace=False)
    train_set, test_set = set(a.tolist()), set(b.tolist())
    slow, answers = best_of(1, lambda: [one_search_a_class(neighbours, int(b[i]), train_set, test_set) for i in sample])
    expected = list(zip(found.to_train[sample].tolist(), found.to_test[sample].tolist(), strict=True))
    if answers != expected:
        print("the two ways disagree", file=sys.stderr)
        return 1
    # A search that stops early is the kindest comparison; the literal one runs over the whole graph for every class.
    whole, _ = best_of(1, lambda: [one_search_a_class(neighbours, int(b[i]), set(), set()) for i in sample])
    scale = len(b) / options.sample
    pool = np.random.default_rng(0).choice(every, 2000, replace=False).tolist()
    building, made = best_of(1, lambda: build(nouns, train, pool, 500))
    result = {
        "load_average": load,
        "cores": os.cpu_count(),
        "load_from_cache_s": loading,
        "ratio_of_all_s": fast,
        "one_search_a_class_s": whole * scale,
        "one_search_a_class_stopping_early_s": slow * scale,
        "times_faster": whole * scale / fast,
        "times_faster_than_stopping_early": slow * scale / fast,
        "build_500_of_2000_s": building,
        "build_gap": made.gap,
        "R": found.value,
    }
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"machine: {result['cores']} cores, load {load:.1f}")
    print(f"82,115 nouns from cache            {loading * 1e3:8.1f} ms")
    print(f"R of {len(b):,} classes = {found.value:.3f}      {fast * 1e3:8.1f} ms")
    print(f"one search a class (scaled)        {whole * scale:8.1f} s   {whole * scale / fast:,.0f}x slower")
    print(f"the same, stopping early (scaled)  {slow * scale:8.1f} s   {slow * scale / fast:,.0f}x slower")
    print(f"500 of 2,000 classes               {building:8.1f} s   {made.gap:.1%} below its bound")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
