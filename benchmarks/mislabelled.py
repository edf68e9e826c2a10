"""How many of 6 wrong labels among 612 photos does `handful fit` find, and how many photos does it name for that?

    python benchmarks/mislabelled.py ALBUM --draws 3

ALBUM is a folder of data sets in Meta-Album's layout. Each draw takes 36 classes with 17 photos each and gives 6 a wrong class.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from fifty_photos import embedded

import handful as hf
from handful.photos.classifier import learn
from handful.photos.findings import suspects

CLASSES, EACH, PLANTED = 36, 17, 6


def draw(x: np.ndarray, label: np.ndarray, seed: int) -> tuple[int, int]:
    """Planted labels found, and photos named."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(np.unique(label), CLASSES, replace=False)
    rows = np.concatenate([rng.permutation(np.flatnonzero(label == name))[:EACH] for name in chosen])
    y = np.repeat(np.arange(CLASSES), EACH)
    wrong = rng.choice(len(y), PLANTED, replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, CLASSES, PLANTED)) % CLASSES
    _, choice = learn(x[rows], y, CLASSES)
    named = suspects(choice.probabilities, y, [str(i) for i in range(len(y))], [str(k) for k in range(CLASSES)])
    return len({int(s.photo) for s in named} & set(wrong.tolist())), len(named)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("album")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="file for the features, to be used again")
    arguments = parser.parse_args()
    collection = hf.open(arguments.album)
    x = embedded(collection, arguments.cache)
    label = collection.table[collection.card.labels[-1]].to_numpy().astype(str)
    sets = collection.table["dataset"].to_numpy().astype(str)
    for name in np.unique(sets):
        part = np.flatnonzero(sets == name)
        found = [draw(x[part], label[part], seed) for seed in range(arguments.draws)]
        print(f"{name}: " + ", ".join(f"{f} of {PLANTED} found, {n} named" for f, n in found))


if __name__ == "__main__":
    main()
