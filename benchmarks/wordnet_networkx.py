"""Distances between WordNet nouns against networkx on the same graph, answers compared.

    python benchmarks/wordnet_networkx.py [--classes 1000] [--peer-classes 20]

(1) hops between every two of some classes; networkx: `single_source_shortest_path_length`, one class at a time, timed on some classes
and scaled. (2) hops from every noun to the nearest of the classes; networkx: `multi_source_dijkstra_path_length`, timed whole.
"""

from __future__ import annotations

import argparse
import time

import networkx as nx
import numpy as np
from machine import quiet, verdict

from handful.data.wordnet import wordnet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--peer-classes", type=int, default=20)
    options = parser.parse_args()
    judged = quiet()
    nouns = wordnet()
    ptr, idx = nouns.around
    graph = nx.Graph()
    graph.add_nodes_from(range(len(nouns)))
    graph.add_edges_from((i, int(j)) for i in range(len(nouns)) for j in idx[ptr[i] : ptr[i + 1]])
    classes = np.random.default_rng(0).choice(len(nouns), options.classes, replace=False)

    fast = np.inf
    for _ in range(3):
        start = time.perf_counter()
        ours = nouns.distances(classes, classes)
        fast = min(fast, time.perf_counter() - start)
    start = time.perf_counter()
    for row, source in enumerate(classes[: options.peer_classes].tolist()):
        hops = nx.single_source_shortest_path_length(graph, source)
        if [hops.get(int(c), -1) for c in classes] != ours[row].tolist():
            raise SystemExit(f"the two ways disagree at {nouns.words(int(source))}")
    slow = (time.perf_counter() - start) / options.peer_classes * options.classes
    print(f"{options.classes} x {options.classes} distances: {fast:.2f} s, networkx {slow:.1f} s (scaled)")
    verdict("WordNet distances: networkx, a search a class / ours", slow / fast, 10, judged)

    near = np.inf
    for _ in range(3):
        start = time.perf_counter()
        nearest = nouns.to_nearest(classes)
        near = min(near, time.perf_counter() - start)
    start = time.perf_counter()
    hops = nx.multi_source_dijkstra_path_length(graph, set(classes.tolist()))
    far = time.perf_counter() - start
    if [hops.get(i, -1) for i in range(len(nouns))] != nearest.tolist():
        raise SystemExit("the two ways disagree on the nearest class")
    print(
        f"nearest of {options.classes} classes for {len(nouns):,} nouns: {near * 1e3:.1f} ms, networkx {far * 1e3:.0f} ms"
    )
    verdict("WordNet, hops to the nearest class: networkx, one search / ours", far / near, 10, judged)


if __name__ == "__main__":
    main()
