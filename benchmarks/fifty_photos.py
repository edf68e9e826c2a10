"""Is what `handful fit` promises kept? Draws of about fifty photos from Meta-Album data sets, against all other photos.

    python benchmarks/fifty_photos.py ALBUM --draws 20

ALBUM is a folder of data sets in Meta-Album's layout (or a packed collection). For each draw, 5 to 10 classes with 5 to 10
photos each; all other photos of these classes are asked (held out), and 400 photos of other classes (strangers).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import handful as hf
from handful.nets import build
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.photos.classifier import learn
from handful.photos.encoder import BEST
from handful.photos.findings import suspects


def embedded(collection: hf.Collection, cache: Path | None) -> np.ndarray:
    """Unit vectors of every photo by the network that `fit` takes, from the packed squares."""
    if cache is not None and cache.is_file():
        return np.load(cache)
    x = embed_rows(build(BEST, collection.card.shape), collection, np.arange(len(collection)), Compute(batch=32))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.save(cache, x)
    return x


def draw(x: np.ndarray, label: np.ndarray, seed: int) -> dict[str, float]:
    """One person's folder, and what became of what it was told."""
    rng = np.random.default_rng(seed)
    names = np.unique(label)
    classes = rng.choice(names, rng.integers(5, 11), replace=False)
    mine, held = [], []
    for k, name in enumerate(classes):
        rows = rng.permutation(np.flatnonzero(label == name))
        n = rng.integers(5, 11)
        mine += [(r, k) for r in rows[:n]]
        held += [(r, k) for r in rows[n:]]
    rows, y = np.array(mine).T
    others, truth = np.array(held).T
    classifier, choice = learn(x[rows], y, len(classes))
    p, refused = classifier.answer(x[others])
    right = p.argmax(1) == truth
    strangers = rng.permutation(np.flatnonzero(~np.isin(label, classes)))[:400]
    _, strange = classifier.answer(x[strangers])
    wrong = rng.choice(len(y), 3, replace=False)
    exchanged = y.copy()
    exchanged[wrong] = (y[wrong] + rng.integers(1, len(classes), 3)) % len(classes)
    found = {-1}
    if np.bincount(exchanged, minlength=len(classes)).min() >= 2:
        _, other = learn(x[rows], exchanged, len(classes))
        numbers = [str(i) for i in range(len(y))]
        found = {int(s.photo) for s in suspects(other.probabilities, exchanged, numbers, numbers)}
    clean = suspects(choice.probabilities, y, [str(i) for i in range(len(y))], [str(k) for k in range(len(classes))])
    e = choice.expected
    return {
        "photos": len(y),
        "classes": len(classes),
        "linear": float(classifier.head == "linear"),
        "expected": e.accuracy,
        "low": e.low,
        "high": e.high,
        "held_out": float(right.mean()),
        "inside": float(right.mean() in e),
        "confidence": float(p.max(1).mean()),
        "calibration_error": calibration_error(p.max(1), right),
        "own_refused": float(refused.mean()),
        "right_of_answered": float(right[~refused].mean()),
        "strangers_refused": float(strange.mean()),
        "exchanged_found": float("nan") if found == {-1} else len(found & set(wrong.tolist())) / 3,
        "falsely_named": float(len(clean)),
    }


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error over bins with equally many photos."""
    order = np.argsort(confidence)
    parts = np.array_split(order, bins)
    return float(sum(len(b) * abs(confidence[b].mean() - right[b].mean()) for b in parts if len(b)) / len(order))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("album")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="file for the features, to be used again")
    parser.add_argument("--out", type=Path, help="JSON lines of every draw")
    arguments = parser.parse_args()
    collection = hf.open(arguments.album)
    x = embedded(collection, arguments.cache)
    column = collection.card.labels[-1]
    label = collection.table[column].to_numpy().astype(str)
    sets = collection.table["dataset"].to_numpy().astype(str)
    rows = []
    for name in np.unique(sets):
        part = np.flatnonzero(sets == name)
        for number in range(arguments.draws):
            rows.append({"dataset": str(name), **draw(x[part], label[part], arguments.seed + number)})
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    print(
        "| data set | held out, mean | expected, mean | inside its interval | interval's width | calibration error "
        "| own refused | right of answered | strangers refused | exchanged labels found | falsely named, a folder |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in [*np.unique(sets), "all"]:
        of = [r for r in rows if name in (r["dataset"], "all")]
        m = {k: float(np.nanmean([r[k] for r in of])) for k in of[0] if k != "dataset"}
        print(
            f"| {name} | {100 * m['held_out']:.1f} | {100 * m['expected']:.1f} | {int(sum(r['inside'] for r in of))} of "
            f"{len(of)} | {100 * (m['high'] - m['low']):.0f} | {100 * m['calibration_error']:.1f} | "
            f"{100 * m['own_refused']:.1f} | {100 * m['right_of_answered']:.1f} | {100 * m['strangers_refused']:.0f} | "
            f"{100 * m['exchanged_found']:.0f} | {m['falsely_named']:.2f} |"
        )


if __name__ == "__main__":
    main()
