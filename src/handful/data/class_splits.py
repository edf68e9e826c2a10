"""Which classes train and which test: lists in and out, ImageNet's hop splits recomputed, held-out training images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible, Missing
from handful.files import read_text, write_atomically


def read_classes(path: str | Path) -> list[str]:
    """Class ids of a text file, one per line; blank lines and what follows ``#`` are skipped; a repeat is refused."""
    file = Path(path)
    try:
        lines = read_text(file).splitlines()
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist; give a text file with one class id per line") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} is not a text file with one class id per line") from error
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if len(name.split()) > 1 or "," in name:
            raise BadInput(f"{file}, line {number}: expected one class id, found {line.strip()[:80]!r}")
        if name in seen:
            raise BadInput(f"{file}, line {number}: {name} repeats line {seen[name]}; keep one")
        seen[name] = number
    if not seen:
        raise BadInput(f"{file} holds no class id")
    return list(seen)


def write_classes(path: str | Path, classes: Sequence[str]) -> Path:
    """Write ids one per line, whole or not at all."""
    target = Path(path)
    text = "".join(f"{name}\n" for name in classes)
    write_atomically(target, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return target


@dataclass(frozen=True)
class ClassSplit:
    """Training and test classes of a zero-shot benchmark.

    ``origin`` tells a list (``as listed``) from one recomputed from the graph: the two differ for ImageNet (the published
    1-hop list has 1,549 classes, the paper says 1,589), and a number measured on one does not hold for the other.
    """

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    origin: str = "given"

    @property
    def label(self) -> str:
        return f"{self.name} ({self.origin})"

    def check(self, taxonomy: Taxonomy | None = None) -> None:
        """Refuse empty or overlapping sides and ids that the taxonomy does not hold, naming them."""
        for side, classes in (("train", self.train), ("test", self.test)):
            if not classes:
                raise BadInput(f"{self.label}: no {side} class; a zero-shot split needs both")
            twice = sorted({c for c in classes if classes.count(c) > 1}) if len(set(classes)) < len(classes) else []
            if twice:
                raise BadInput(f"{self.label}: {twice[0]} is listed twice in {side}; keep one")
        both = sorted(set(self.train) & set(self.test))
        if both:
            shown = ", ".join(both[:5]) + (", ..." if len(both) > 5 else "")
            raise BadInput(
                f"{self.label}: {len(both)} classes are in train and in test ({shown}); remove them from one"
            )
        if taxonomy is not None:
            taxonomy.index(self.train, where=f"{self.label}, train")
            taxonomy.index(self.test, where=f"{self.label}, test")


def read_split(train: str | Path, test: str | Path, taxonomy: Taxonomy | None = None) -> ClassSplit:
    """A split from two files, marked as listed, whoever made the lists."""
    made = ClassSplit(Path(test).stem, tuple(read_classes(train)), tuple(read_classes(test)), origin="as listed")
    made.check(taxonomy)
    return made


def hops(taxonomy: Taxonomy, train: Sequence[str], candidates: Sequence[str], k: int | None) -> tuple[str, ...]:
    """Candidates, without the training classes, at most ``k`` undirected steps from one of them (None: all)."""
    nodes = np.setdiff1d(taxonomy.index(candidates, where="candidates"), taxonomy.index(train, where="train"))
    if k is not None:
        near = taxonomy.to_nearest(train)[nodes]
        nodes = nodes[(near > 0) & (near <= k)]
    return tuple(taxonomy.ids[nodes].tolist())


def held_out(labels: Sequence[str] | NDArray, train: Sequence[str], per_class: int, seed: int) -> NDArray[np.bool_]:
    """Mark ``per_class`` images of every training class to be kept from training, for the generalised setting."""
    rng = np.random.default_rng([seed, 0x5EED])
    named = np.asarray(labels)
    out = np.zeros(len(named), dtype=bool)
    for name in sorted(train):
        rows = np.flatnonzero(named == name)
        if len(rows) <= per_class:
            raise Infeasible(
                f"{name} has {len(rows)} images: holding out {per_class} leaves none to train on; hold out fewer"
            )
        out[rng.permutation(rows)[:per_class]] = True
    return out
