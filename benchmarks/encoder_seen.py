"""Does the diagnosis `encoder-seen` find a planted memory? Encoders that really learned half of the test classes, in many worlds.

    python benchmarks/encoder_seen.py [--worlds 100] [--tasks 400]

Each world divides 240 classes of drawn glyphs anew: 20 test classes that the encoder learns, 20 that it does not, 20 that a
twin of it learns in their place, 20 that both learn, 40 for the control. An encoder is a linear discriminant analysis of its classes' pixels.
The planted gain is what the encoder has over its twin, on the learned test classes, in the same tasks. Printed: how often the
interval holds it, and how often the interval of the twin, asked about the same classes, holds zero.
"""

from __future__ import annotations

import argparse

import numpy as np

import handful as hf
from handful.audits.encoder_seen import memory, told
from handful.audits.views import View
from handful.data.collection import Collection
from handful.metrics.base import Estimate

SIZES = {"learned": 20, "not": 20, "twin": 20, "both": 20, "control": 40}


class Worlds:
    """Many divisions of one drawn collection."""

    def __init__(self, classes: int = 240, images: int = 24, seed: int = 0):
        self.collection = hf.world(size=16, classes=classes, images=images, seed=seed)
        self.part = self.collection.whole
        x = self.collection.read(self.part.rows).reshape(len(self.part), -1).astype(np.float64) / 255
        u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
        self.x = np.zeros((len(self.collection), 60))
        self.x[self.part.rows] = u[:, :60] * s[:60]

    def encoder(self, classes: np.ndarray, width: int = 20) -> View:
        """Linear discriminant analysis (Fisher, 1936) of some classes, with a little ridge."""
        keep = np.isin(self.part.classes, classes)
        x, y = self.x[self.part.rows[keep]], np.unique(self.part.classes[keep], return_inverse=True)[1]
        means = np.stack([x[y == k].mean(0) for k in range(y.max() + 1)])
        inner = np.cov((x - means[y]).T)
        white = np.linalg.inv(np.linalg.cholesky(inner + 0.02 * np.trace(inner) / len(inner) * np.eye(len(inner)))).T
        _, _, v = np.linalg.svd((means - means.mean(0)) @ white, full_matrices=False)
        map_ = (white @ v[:width].T).astype(np.float32)
        numbered = Numbered(self.collection)
        return View(numbered, lambda rows: self.x[rows].astype(np.float32) @ map_, width, "lda")

    def draw(self, seed: int, tasks: int) -> tuple[Estimate, Estimate, float]:
        """The gain found, the gain found for the twin that has learned none of these, and the planted gain."""
        order = np.random.default_rng(seed).permutation(self.part.n_classes)
        ends = np.cumsum([0, *SIZES.values()])
        some = {k: order[a:b] for k, a, b in zip(SIZES, ends, ends[1:], strict=False)}
        encoder, twin, control = (
            self.encoder(np.concatenate([some[k] for k in names]))
            for names in (("learned", "both"), ("twin", "both"), ("control",))
        )
        asked = np.sort(np.concatenate([some["learned"], some["not"]]))
        test = self.part.where(np.isin(self.part.classes, asked), "asked")
        seen = np.isin(asked, some["learned"])
        side = test.where(seen[test.classes], "learned")
        planted = told(encoder, side, 5, tasks, seed).accuracy - told(twin, side, 5, tasks, seed).accuracy
        found, none = (memory(e, control, test, seen, tasks, seed).gain for e in (encoder, twin))
        return found, none, float(np.nanmean(planted))


class Numbered(Collection):
    """A collection whose images are their own numbers."""

    def __init__(self, of: Collection):
        super().__init__(of.card, of.table)

    def read(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=400)
    given = parser.parse_args()
    worlds, held, zero, sizes = Worlds(), 0, 0, []
    for seed in range(given.worlds):
        found, none, planted = worlds.draw(seed, given.tasks)
        held += found.low <= planted <= found.high
        zero += none.low <= 0 <= none.high
        sizes.append((planted, found.value, none.value, found.half))
        if seed < 5 or seed % 20 == 19:
            print(
                f"world {seed}: planted {100 * planted:.1f}, found {found}; twin {none}; so far {held} and {zero} of {seed + 1}",
                flush=True,
            )
    planted, found, none, half = 100 * np.mean(sizes, 0)
    print(
        f"{given.worlds} worlds: planted {planted:.1f} points on average, found {found:.1f} ± {half:.1f}, held in {held}; twin {none:.1f}, zero held in {zero}"
    )
