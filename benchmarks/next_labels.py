"""Which strategy needs the fewest labels, and does the learning curve keep its promise? On folders drawn from a collection.

    python benchmarks/next_labels.py COLLECTION --folders 20 --net lite0

A folder is 5 to 10 classes with 30 photos each; 20 more of each class are held out. Each strategy
chooses its own first ten photos. After every batch of five the classifier of the
studio is fitted and asked about the held-out photos. Counted is the number of labels after which it reaches 95% of the
accuracy that all labels give, paired by folder against random. At 30, 40 and 60 labels the curve says what ten more
will bring; ten more random labels are bought, and it is counted how often the gain lies in the interval.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import handful as hf
from handful.metrics.base import mean_interval
from handful.nets import build
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.photos.classifier import Classifier, learn
from handful.progress import bar
from handful.studio.curve import learning_curve
from handful.studio.learning import Learned, Shown
from handful.studio.next import NAMES, order_of

STEP, FIRST, POOL, HELD = 5, 10, 30, 20


def features(collection: str, net: str) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of all images and their classes; embedded once, kept in the cache folder."""
    from handful.cache import cache_folder

    data = hf.open(collection)
    name = f"next-labels-{data.id}-{net}".replace("/", "_").replace(":", "_")
    kept = cache_folder() / "features" / f"{name}.npy"
    labels = data.table.select(data.card.labels).rows()
    y = np.unique([" ".join(map(str, row)) for row in labels], return_inverse=True)[1]
    if not kept.is_file():
        backbone = build(net, data.card.shape).eval()
        blocks = []
        with bar("embedding", len(data)) as advance:
            for start in range(0, len(data), 256):
                rows = np.arange(start, min(start + 256, len(data)))
                blocks.append(embed_images(backbone, data.read(rows), Compute(batch=32)).numpy())
                advance(len(rows))
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, np.concatenate(blocks))
    x = np.load(kept).astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


def fitted(x: np.ndarray, y: np.ndarray) -> tuple[Classifier, np.ndarray] | None:
    """The studio's classifier of the classes that have two labels (prototypes, for speed), and these classes."""
    sizes = np.bincount(y)
    ready = np.flatnonzero(sizes > 1)
    if len(ready) < 2:
        return None
    some = np.isin(y, ready)
    return learn(x[some], np.searchsorted(ready, y[some]), len(ready), head="prototypes")[0], ready


def accuracy(found: tuple[Classifier, np.ndarray] | None, x: np.ndarray, y: np.ndarray) -> float:
    if found is None:
        return 0.0
    classifier, ready = found
    return float((ready[classifier.answer(x)[0].argmax(1)] == y).mean())


def labelled(strategy: str, x: np.ndarray, y: np.ndarray, most: int, seed: int):
    """Photos in the order in which the strategy has them labelled, with the accuracy after each batch by ``score``."""
    numbers, mine = np.arange(len(x)), np.zeros(0, dtype=np.int64)
    while len(mine) < most:
        labels = {int(i): str(y[i]) for i in mine}
        shown = Shown(numbers, x, labels, {}, {}, {})
        found = fitted(x[mine], y[mine]) if len(mine) else None
        state = Learned("", classifier=found[0], y=y[mine]) if found else Learned("")
        if found:  # the least frequent class of those known so far decides whether uncertainty means anything
            state = Learned("", classifier=found[0], y=np.unique(y[mine], return_inverse=True)[1])
        picked, _ = order_of(strategy, shown, state, FIRST if not len(mine) else STEP, seed)
        mine = np.concatenate([mine, picked]).astype(np.int64)
        yield mine


def folder(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to label, rows held out, and which classes."""
    enough = np.flatnonzero(np.bincount(y) >= POOL + HELD)
    if not len(enough):
        enough = np.flatnonzero(np.bincount(y) >= 30)
    classes = rng.choice(enough, int(rng.integers(5, 11)), replace=False)
    pool, held = [], []
    for k in classes:
        rows = rng.permutation(np.flatnonzero(y == k))[: POOL + HELD]
        cut = round(len(rows) * POOL / (POOL + HELD))
        pool.append(rows[:cut])
        held.append(rows[cut:])
    return np.concatenate(pool), np.concatenate(held), classes


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("collection")
    ask.add_argument("--folders", type=int, default=20)
    ask.add_argument("--net", default="lite0")
    ask.add_argument("--most", type=int, default=150)
    ask.add_argument("--seed", type=int, default=0)
    given = ask.parse_args()
    x, y = features(given.collection, given.net)
    strategies = [name for name in NAMES if name != "random"]
    needed: dict[str, list[float]] = {name: [] for name in NAMES}
    promises: list[tuple[bool, float, float]] = []
    with bar("folders", given.folders) as advance:
        for f in range(given.folders):
            rng = np.random.default_rng([given.seed, f])
            pool, held, classes = folder(y, rng)
            own = {int(k): i for i, k in enumerate(classes)}
            px, py = x[pool], np.array([own[int(k)] for k in y[pool]])
            hx, hy = x[held], np.array([own[int(k)] for k in y[held]])
            goal = 0.95 * accuracy(fitted(px, py), hx, hy)
            for name in NAMES:
                reached = float(len(px))
                for mine in labelled(name, px, py, min(given.most, len(px)), f):
                    if accuracy(fitted(px[mine], py[mine]), hx, hy) >= goal:
                        reached = float(len(mine))
                        break
                needed[name].append(reached)
            order = rng.permutation(len(px))
            for m in (30, 40, 60):
                a, b = order[:m], order[: m + 10]
                if (np.bincount(py[a], minlength=len(classes)) < 2).any():
                    continue
                if curve := learning_curve(px[a], py[a], f):
                    gain = accuracy(fitted(px[b], py[b]), hx, hy) - accuracy(fitted(px[a], py[a]), hx, hy)
                    promises.append((curve.low <= gain <= curve.high, curve.gain, gain))
            advance(1)
    print(f"{Path(given.collection).name}, {given.net}, {given.folders} folders: labels to 95% of full-label accuracy")
    print(f"  {'random':8} {np.mean(needed['random']):6.1f}")
    for name in strategies:
        gap = np.array(needed[name]) - np.array(needed["random"])
        e = mean_interval(gap, "folders")
        print(f"  {name:8} {np.mean(needed[name]):6.1f}  against random {e.value:+.1f} ({e.low:+.1f} to {e.high:+.1f})")
    kept = [k for k, _, _ in promises]
    said, came = np.mean([s for _, s, _ in promises]), np.mean([c for _, _, c in promises])
    print(
        f"  curve: {sum(kept)} of {len(kept)} promises kept; said {100 * said:+.1f}, came {100 * came:+.1f} points on average"
    )


if __name__ == "__main__":
    main()
