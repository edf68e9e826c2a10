"""The audit of a zero-shot split: everything that can be said of it from class lists, words and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.neighbours import Neighbourhoods, clearest
from handful.audits.zero_shot.semantic import Frequency, Meanings, SharedLabels, labels_of, meanings, shared_labels
from handful.data.class_splits import ClassSplit
from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import other_words
from handful.data.words import WordVectors
from handful.errors import BadInput, Missing
from handful.files import read_rows
from handful.metrics.structure import (
    Relatives,
    Shares,
    StructuralRatio,
    chance,
    relatives,
    shares,
    structural_ratio,
    trivial_bound,
)


@dataclass(frozen=True, eq=False)
class SplitAudit:
    """Findings on one split; what needs words or predictions is None without them."""

    split: ClassSplit
    taxonomy: str
    ratio: StructuralRatio
    kin: Relatives
    trivial: float
    trivial_average: float
    depth: NDArray[np.int32]
    shared: SharedLabels | None = None
    frequency: NDArray[np.float64] | None = None
    frequency_unit: str = ""
    common: NDArray[np.bool_] | None = None
    meaning: Meanings | None = None
    population: NDArray[np.float64] | None = None
    predictions: dict[str, Shares] = field(default_factory=dict)
    neighbours: Neighbourhoods | None = None

    @property
    def rare(self) -> float | None:
        """Share of the test classes whose label is rare."""
        return None if self.common is None else float((~self.common).mean())

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        out: dict[str, Any] = {
            "split": self.split.name,
            "origin": self.split.origin,
            "taxonomy": self.taxonomy,
            "train_classes": len(self.split.train),
            "test_classes": len(self.split.test),
            "structural_ratio": self.ratio.value,
            "ratio_of_means": self.ratio.ratio_of_means,
            "mean_distance_to_train": float(self.ratio.to_train.mean()),
            "mean_distance_to_test": float(self.ratio.to_test.mean()),
            "relatives_in_test": float(self.kin.in_test.mean()),
            "relatives_in_train": float(self.kin.in_train.mean()),
            "consistent": self.kin.consistent,
            "trivial_bound": self.trivial,
            "trivial_bound_ties_averaged": self.trivial_average,
            "chance": chance(len(self.split.test)),
        }
        if self.shared is not None:
            out["shared_labels"] = self.shared.labels
            out["classes_sharing_a_label"] = self.shared.classes
        if self.rare is not None and self.frequency is not None:
            out["rare_labels"] = self.rare
            out["frequency_unit"] = self.frequency_unit
            out["median_frequency"] = float(np.median(self.frequency))
        if self.meaning is not None:
            out["classes_without_vectors"] = int((~self.meaning.described).sum())
            known = self.meaning.described
            out["secondary_meanings"] = float((~self.meaning.primary[known]).mean()) if known.any() else None
        if self.population is not None:
            out["median_population"] = float(np.median(self.population))
            out["classes_below_100_images"] = float((self.population < 100).mean())
        for name, found in self.predictions.items():
            per = found.fn_per_tp if found.true else None
            row = {**asdict(found), "lower": found.lower, "upper": found.upper, "fn_per_tp": per}
            out.setdefault("predictions", {})[name] = row
        return out

    def __str__(self) -> str:
        facts = self.as_dict()
        lines = [
            f"{self.split.label}: {facts['train_classes']} training and {facts['test_classes']} test classes in {self.taxonomy}",
            f"  structural ratio R         {facts['structural_ratio']:.3f}  (ratio of mean distances {facts['ratio_of_means']:.3f})",
            f"  relatives among test       {facts['relatives_in_test']:.1%}",
            f"  relatives among train      {facts['relatives_in_train']:.1%}",
            f"  trivial solution, at most  {self.trivial:.1%}  (ties averaged {self.trivial_average:.1%}, chance {facts['chance']:.2%})",
        ]
        if not self.kin.consistent:
            lines.append(
                "  R is inflated by test classes above or below one another: compare it between consistent splits only"
            )
        if self.shared is not None:
            lines.append(
                f"  labels shared              {self.shared.labels:.1%} of single-word labels name another concept too, {self.shared.classes:.1%} of classes share one among themselves"
            )
        if self.rare is not None:
            lines.append(f"  rare labels                {self.rare:.1%}")
        if self.meaning is not None:
            lines.append(
                f"  secondary meanings         {facts['secondary_meanings'] or 0:.1%} "
                f"({facts['classes_without_vectors']} classes have no vector)"
            )
        for name, s in self.predictions.items():
            lines.append(
                f"  {name}: true {s.true:.1%}, ancestor {s.ancestor:.1%}, descendant {s.descendant:.1%}, unrelated "
                f"{s.unrelated:.1%}; semantically right {s.lower:.1%} to {s.upper:.1%}; "
                + (f"FN/TP {s.fn_per_tp:.2f}" if s.true else "no true positive")
            )
        return "\n".join(lines)


def audit_split(
    taxonomy: Taxonomy,
    split: ClassSplit,
    *,
    vectors: WordVectors | None = None,
    frequency: Frequency | None = None,
    elsewhere: frozenset[str] | None = None,
    among: Sequence[str] | None = None,
    population: Mapping[str, float] | None = None,
    predictions: Mapping[str, tuple[Sequence[str], Sequence[str]]] | None = None,
) -> SplitAudit:
    """Audit a split.

    Parameters
    ----------
    vectors, frequency
        For meanings and word frequency of the test classes' labels.
    elsewhere
        Words of concepts outside the taxonomy, which make labels shared; by default those of WordNet's verbs, adjectives
        and adverbs, if it is WordNet. Single-word labels are counted, as in the paper, unless there are none.
    among
        Classes that may carry a test class's word as their own; the training classes by default.
    population
        Images per class.
    predictions
        Per setting (``zsl``, ``gzsl``, ...) the true and the predicted classes of images.
    """
    split.check(taxonomy)
    train, test = list(split.train), list(split.test)
    for name, (truth, _) in (predictions or {}).items():
        _within(name, truth, {*train, *test})
    worded = len(taxonomy.text[0]) > len(taxonomy.ids)
    phrases = all(" " in word for name in test for word in taxonomy.words(name))
    if elsewhere is None:
        elsewhere = other_words() if taxonomy.source.startswith("WordNet") else frozenset()
    found = frequency.of(labels_of(taxonomy, test, vectors)) if frequency is not None else None
    rivals = train if among is None else list(among)
    meant = meanings(taxonomy, vectors, test, among=rivals) if vectors is not None else None
    return SplitAudit(
        split=split,
        taxonomy=taxonomy.source,
        ratio=structural_ratio(taxonomy, train, test),
        kin=relatives(taxonomy, train, test),
        trivial=trivial_bound(taxonomy, train, test),
        trivial_average=trivial_bound(taxonomy, train, test, ties="average"),
        depth=taxonomy.depth[taxonomy.index(test)],
        shared=shared_labels(taxonomy, test, phrases=phrases, elsewhere=elsewhere) if worded else None,
        frequency=found,
        frequency_unit=frequency.unit if frequency is not None else "",
        common=frequency.common(found) if frequency is not None and found is not None else None,
        meaning=meant,
        neighbours=clearest(taxonomy, vectors, meant, rivals) if vectors is not None and meant is not None else None,
        population=_counted(population, test) if population is not None else None,
        predictions={k: shares(taxonomy, t, p) for k, (t, p) in (predictions or {}).items()},
    )


def _within(name: str, truth: Sequence[str], classes: set[str]) -> None:
    """Truths outside the split would count as answers to other questions than the split asks."""
    outside = sorted({t for t in truth if t not in classes})
    if outside:
        raise BadInput(
            f"predictions {name}: the truth {outside[0]} is neither a training nor a test class of this split "
            f"({len(outside)} such classes); give predictions for this split"
        )


def _counted(population: Mapping[str, float], classes: Sequence[str]) -> NDArray[np.float64]:
    absent = [c for c in classes if c not in population]
    if absent:
        raise BadInput(
            f"no population is given for {len(absent)} test classes ({', '.join(absent[:5])}); add or leave them out"
        )
    return np.array([population[c] for c in classes], dtype=float)


def read_predictions(path: str | Path) -> tuple[list[str], list[str]]:
    """Rows ``truth,predicted`` of class ids, one per image (a header of these two words is skipped)."""
    file = Path(path)
    truth: list[str] = []
    predicted: list[str] = []
    try:
        rows = read_rows(file)
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist; give rows truth,predicted") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} is not a text file of rows truth,predicted ({error})") from error
    for number, row in enumerate(rows, start=1):
        cells = [c.strip() for c in row]
        if not any(cells) or (number == 1 and [c.lower() for c in cells] == ["truth", "predicted"]):
            continue
        if len(cells) != 2 or not all(cells):
            raise BadInput(f"{file}, row {number}: expected truth,predicted, found {','.join(row)[:80]!r}")
        truth.append(cells[0])
        predicted.append(cells[1])
    if not truth:
        raise BadInput(f"{file} holds no prediction; give rows truth,predicted")
    return truth, predicted
