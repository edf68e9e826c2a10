"""The error analysis of section 4 and Figure 9 for any methods on any collection: what a score is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from handful.audits.zero_shot.cuts import KINDS, AnalysisPlan, meaning_views, quality_views, ratio_splits
from handful.audits.zero_shot.factors import Against, FactorAnalysis, accuracy_against, factors_of
from handful.audits.zero_shot.growing import by_level, ceilings, grown
from handful.audits.zero_shot.semantic import Frequency
from handful.audits.zero_shot.split_audit import SplitAudit, audit_split
from handful.audits.zero_shot.tasks import OUT, ClassAnswers, ask, members
from handful.audits.zero_shot.visual import Ceiling, Selection, ceiling, select_samples
from handful.data.class_splits import ClassSplit
from handful.data.taxonomy import Taxonomy
from handful.data.words import WordVectors
from handful.errors import BadInput, HandfulError
from handful.methods.contract import Learner
from handful.metrics.base import Estimate
from handful.metrics.structure import Shares, shares
from handful.metrics.zero_shot import harmonic, over_classes
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was found; ``left_out`` says of everything else why it is not there."""

    split: SplitAudit
    methods: tuple[str, ...]
    accuracy: dict[str, dict[str, Estimate]]
    top: Ceiling
    selection: Selection | None
    good_classes: NDArray[np.bool_]
    answers: dict[str, Shares]
    against: dict[str, dict[str, Against]]
    meaning: dict[str, dict[str, NDArray[np.float64]]]
    meaning_size: int
    factors: dict[str, FactorAnalysis]
    growing: pl.DataFrame | None
    group: int
    left_out: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        relative = {m: self.top.relative(found["top1"].value) for m, found in self.accuracy.items()}
        out: dict[str, Any] = {
            "split": self.split.as_dict(),
            "ceiling": self.top.value,
            "accuracy": {m: {k: e.as_dict() for k, e in found.items()} for m, found in self.accuracy.items()},
            "relative_to_ceiling": relative,
            "answers": {
                k: {**vars(s), "lower": s.lower, "upper": s.upper, "fn_per_tp": _finite(s.fn_per_tp)}
                for k, s in self.answers.items()
            },
            "group": self.group,
            "against": {
                what: {
                    m: {
                        "value": a.value.tolist(),
                        "accuracy": a.accuracy.tolist(),
                        "correlation": [_finite(c) for c in a.correlation],
                    }
                    for m, a in found.items()
                }
                for what, found in self.against.items()
            },
            "meaning": {m: {k: v.tolist() for k, v in found.items()} for m, found in self.meaning.items()},
            "factors": {
                k: {
                    "reported": f.reported,
                    "impact": f.impact,
                    "remaining_error": f.remaining_error,
                    "accuracy": {_switches(on): v for on, v in f.accuracy.items()},
                }
                for k, f in self.factors.items()
            },
            "growing": self.growing.to_dicts() if self.growing is not None else [],
            "left_out": self.left_out,
        }
        if self.selection is not None:
            out["selection"] = {
                "rounds": self.selection.rounds,
                "good_images": float(self.selection.good.mean()),
                "good_classes": float(self.good_classes.mean()),
            }
        return out


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _switches(on: Sequence[bool]) -> str:
    return "+".join(n for n, yes in zip(("visual", "semantic", "structural"), on, strict=True) if yes) or "nothing"


def analyse(
    learners: Mapping[str, Learner],
    rule: ZeroShot,
    train: Sequence[str],
    taxonomy: Taxonomy,
    *,
    generalised: GeneralisedZeroShot | None = None,
    vectors: WordVectors | None = None,
    frequency: Frequency | None = None,
    among: Sequence[str] | None = None,
    population: Mapping[str, float] | None = None,
    plan: AnalysisPlan | None = None,
) -> Analysis:
    """Ask fitted learners for the rule's classes and take their scores apart.

    Parameters
    ----------
    rule, generalised
        The test classes among themselves; and, where images of training classes were held out, among all classes.
    vectors, frequency, among, population
        As in :func:`audit_split`; the images of the collection are counted where no population is given.
    """
    if not learners:
        raise BadInput("an analysis needs at least one fitted learner")
    plan = plan or AnalysisPlan()
    classes = rule.candidates
    counts = dict(zip(classes, np.bincount(rule.part.classes).tolist(), strict=True))
    split = audit_split(
        taxonomy,
        ClassSplit(rule.part.collection.card.name, tuple(train), tuple(classes), rule.part.split or "given"),
        vectors=vectors,
        frequency=frequency,
        among=among,
        population=population or counts,
    )
    left_out: dict[str, str] = {}
    group = plan.group or min(100, max(2, len(classes) // 5))
    views, good = quality_views(split, group, left_out)
    meant, meaning_size = meaning_views(split, group, plan, left_out)
    splits = ratio_splits(taxonomy, train, classes, group, plan, left_out)
    views |= meant | {str(i): members(classes, s.classes) for i, s in enumerate(splits)}
    asked = {name: ask(learner, rule, views) for name, learner in learners.items()}
    wide = {}
    if generalised is not None:
        fine = np.isin(generalised.candidates, np.array(classes)[good]) | np.isin(generalised.candidates, train)
        wide = {n: ask(learner, generalised, {"good": np.where(fine, 0, OUT)}) for n, learner in learners.items()}
    else:
        left_out["generalised setting"] = "no images of training classes were held out (split test_seen)"
    features, named = _features(rule, next(iter(learners.values())))
    folds = min(4, int(min(counts.values())))
    if folds < 2:
        raise BadInput("a test class has one image only; the supervised ceiling needs two or more, leave it out")
    return Analysis(
        split=split,
        methods=tuple(learners),
        accuracy={n: _accuracy(asked[n], wide.get(n)) for n in learners},
        top=ceiling(features, named, classes, folds=folds, kind="ridge", seed=plan.seed),
        selection=(selection := _selection(features, named, taxonomy, plan, left_out)),
        good_classes=good,
        answers=_answers(taxonomy, asked, wide),
        against={
            what: {n: accuracy_against(values, a, what, views[what]) for n, a in asked.items()}
            for what, values in (("frequency", split.frequency), ("population", split.population))
            if what in views and values is not None
        },
        meaning=_meaning(asked, meant),
        meaning_size=meaning_size,
        factors=_factors(taxonomy, rule, asked, wide, selection, left_out),
        growing=by_level(grown(asked, splits, ceilings(rule, splits, folds=folds, seed=plan.seed))) if splits else None,
        group=group,
        left_out=left_out,
    )


def _features(rule: ZeroShot, learner: Learner) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Features of the test images, embedded by the learner's network where the collection holds images."""
    part, compute = rule.part, Compute()
    net = build_net(getattr(learner.method, "net", "pixels"), part.collection.card.shape, 0)
    return embed_rows(net, part.collection, part.rows, compute), np.array(part.class_names)[part.classes]


def _selection(
    features: NDArray, named: NDArray[np.str_], taxonomy: Taxonomy, plan: AnalysisPlan, left_out: dict[str, str]
) -> Selection | None:
    smallest = int(np.unique(named, return_counts=True)[1].min())
    train = plan.train_per_class or min(250, smallest // 2)
    try:
        if train < 1:
            raise BadInput(f"the smallest test class has {smallest} image; a probe needs one to train and one to test")
        return select_samples(
            features,
            named,
            taxonomy,
            classes_per_round=plan.classes_per_round,
            train_per_class=train,
            seed=plan.seed,
        )
    except HandfulError as error:
        left_out["sample-wise selection and factors"] = str(error)
        return None


def _accuracy(asked: ClassAnswers, wide: ClassAnswers | None) -> dict[str, Estimate]:
    """Top-1 and top-5 over images with intervals over classes; in the generalised setting both sides and their mean."""
    out = {f"top{k}": _over_images(asked, k, np.ones(len(asked.truth), dtype=bool)) for k in (1, 5)}
    if wide is None:
        return out
    for k in (1, 5):
        seen, unseen = _over_images(wide, k, wide.seen), _over_images(wide, k, ~wide.seen)
        out |= {f"harmonic{k}": harmonic(seen, unseen), f"unseen{k}": unseen, f"seen{k}": seen}
    return out


def _over_images(asked: ClassAnswers, k: int, rows: NDArray[np.bool_]) -> Estimate:
    hits = asked.hit["all"] if k == 1 else asked.top5
    _, place, count = np.unique(asked.truth[rows], return_inverse=True, return_counts=True)
    return over_classes(np.bincount(place, weights=hits[rows]) / count, count)


def _answers(
    taxonomy: Taxonomy, asked: Mapping[str, ClassAnswers], wide: Mapping[str, ClassAnswers]
) -> dict[str, Shares]:
    """The four shares of every method's answers to images of test classes, in both settings (Figure 2)."""
    out = {}
    for setting, found in (("ZSL", asked), ("GZSL", wide)):
        for name, one in found.items():
            rows = ~one.seen
            out[f"{name}, {setting}"] = shares(
                taxonomy, one.candidates[one.truth[rows]], one.named(one.guess["all"])[rows]
            )
    return out


def _meaning(
    asked: Mapping[str, ClassAnswers], views: Mapping[str, NDArray[np.int64]]
) -> dict[str, dict[str, NDArray[np.float64]]]:
    if not views:
        return {}

    def dots(one: ClassAnswers, kind: str) -> NDArray[np.float64]:
        names = [v for v in views if v.split()[0] == kind]
        return np.array([one.hit[v][one.guess[v] >= 0].mean() for v in names])

    return {name: {kind: dots(one, kind) for kind in KINDS} for name, one in asked.items()}


def _factors(
    taxonomy: Taxonomy,
    rule: ZeroShot,
    asked: Mapping[str, ClassAnswers],
    wide: Mapping[str, ClassAnswers],
    selection: Selection | None,
    left_out: dict[str, str],
) -> dict[str, FactorAnalysis]:
    """The 2^3 analysis of every method in both settings (Figures 6, 16, 17)."""
    if selection is None:
        return {}
    quality = dict(zip(rule.part.rows.tolist(), selection.good.tolist(), strict=True))
    out = {}
    try:
        for setting, found in (("ZSL", asked), ("GZSL", wide)):
            for name, one in found.items():
                rows = ~one.seen
                out[f"{name}, {setting}"] = factors_of(
                    taxonomy,
                    one.candidates[one.truth[rows]],
                    one.named(one.guess["all"])[rows],
                    one.named(one.guess["good"])[rows],
                    good_images=np.array([quality[i] for i in one.image[rows].tolist()], dtype=bool),
                )
    except BadInput as error:
        left_out["factors"] = str(error)
        return {}
    return out
