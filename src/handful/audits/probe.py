"""Do features show the context more than the concept? Two linear probes, where there is no CLIP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from handful.audits.context import Context
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, above
from handful.data.collection import Collection, Part
from handful.errors import BadInput, Infeasible
from handful.metrics.base import Estimate, mean_interval
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.progress import bar


@dataclass(frozen=True)
class Probe:
    """Cross-validated linear probes: how well features tell the context, and the concept, on a scale where guessing is 0."""

    context: Estimate
    concept: Estimate
    lead: Estimate
    images: int


def context_probe(
    part: Part, features: np.ndarray, *, column: str = "", folds: int = 5, most: int = 3000, seed: int = 0
) -> Probe:
    """Logistic regressions from a backbone's features to the context and to the concept, on the same folds.

    The estimate to use where there is no CLIP; another quantity than M_te - M_ce, hence its own name.

    Parameters
    ----------
    features
        ``(n, d)``, a row per image of the part.
    most
        Images used, drawn at random. Wide features are taken along their main directions, and standardised on each training
        fold.

    Notes
    -----
    Scores are balanced accuracies minus chance over 1 minus chance, since there are seldom as many contexts as concepts.
    Intervals are over folds, which share training images: read them as a spread.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    card, name = part.collection.card, contexts_of(part, column)
    if len(features) != len(part):
        raise BadInput(f"{len(features)} rows of features for {len(part)} images; embed the same part")
    if not (whole := np.isfinite(features).all(1)).all():
        row = int(part.rows[np.flatnonzero(~whole)[0]])
        raise BadInput(f"{card.name}: the features of image {row} are not all finite; mend or leave out the image")
    concept, context = part.codes(card.labels)[0], part.codes((name,))[0]
    cell = concept * (int(context.max()) + 1) + context
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(part))[:most]
    counts = np.bincount(cell[rows], minlength=int(cell.max()) + 1)
    rows = np.sort(rows[counts[cell[rows]] >= folds])
    targets = {"concept": concept[rows], "context": context[rows]}
    for what, values in targets.items():
        if len(np.unique(values)) < 2:
            raise Infeasible(
                f"{part.id}: fewer than two {what}s have {folds} images in a cell; raise most or lower folds"
            )
    x = principal(np.asarray(features[rows], dtype=np.float64))
    scores: dict[str, list[float]] = {"concept": [], "context": []}
    for fit, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, cell[rows]):
        for what, values in targets.items():
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3)).fit(x[fit], values[fit])
            right = balanced_accuracy_score(values[test], model.predict(x[test]))
            chance = 1 / len(np.unique(values))
            scores[what].append((right - chance) / (1 - chance))
    own, other = np.asarray(scores["context"]), np.asarray(scores["concept"])
    estimates = [mean_interval(v, "folds") for v in (own, other, own - other)]
    return Probe(estimates[0], estimates[1], estimates[2], len(rows))


def contexts_of(part: Part, column: str) -> str:
    """The named column, or the collection's own column of contexts."""
    name = column or part.collection.card.context or ""
    if not name:
        raise Infeasible(f"{part.collection.card.name} has no column of contexts to probe for; name one with column=")
    part.codes((name,))
    return name


def probed(
    part: Part,
    net: str = "lite0",
    *,
    column: str = "",
    folds: int = 5,
    most: int = 3000,
    seed: int = 0,
    compute: Compute | None = None,
) -> Probe:
    """`context_probe` on a backbone's features of at most ``most`` images of a part."""
    compute, column = compute or Compute(), contexts_of(part, column)
    part = some(part, most, seed)
    backbone = build_net(net, part.collection.card.shape).to(compute.device).eval()
    with compute.here(), bar(f"looking at {part.collection.card.name} with {net}", len(part)) as advance:
        features = embed_rows(backbone, part.collection, part.rows, compute, advance=advance)
    return context_probe(part, features, column=column, folds=folds, most=most, seed=seed)


def some(part: Part, most: int, seed: int) -> Part:
    """At most so many images of a part, drawn at random."""
    keep = np.sort(np.random.default_rng(seed).permutation(len(part))[:most])
    return Part(part.collection, part.scheme, f"{part.split}[probe]", part.rows[keep])


def principal(x: np.ndarray, most: int = 64) -> np.ndarray:
    """Coordinates along the directions of most variance, so that probes of wide features take seconds."""
    x = x - x.mean(0, keepdims=True)
    if x.shape[1] <= most:
        return x
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, :most] * s[:most]


@dataclass(frozen=True)
class ContextProbe(Diagnosis):
    """Linear probes for context and concept on the audit's features.

    ``column`` holds the contexts (the collection's own by default); ``most`` images are used, 0 for what the time allows.
    """

    column: str = ""
    folds: int = 5
    most: int = 0

    name: ClassVar[str] = "context-probe"
    question: ClassVar[str] = "Do the features show the context more than the concept?"
    topic: ClassVar[str] = "background"

    def missing(self, collection: Collection) -> str:
        card = collection.card
        if self.column:
            return "" if self.column in collection.table.columns else f"it has no column {self.column}"
        return "" if card.context and card.context not in card.labels else "the collection has no column of contexts"

    def run(self, context: Context) -> list[Finding]:
        part, most = context.part, self.most or (1000 if context.seconds < 60 else 2000)
        part = context.view.like(some(part, most, context.seed))
        probe = context_probe(
            part, context.view.read(part.rows), column=self.column, folds=self.folds, most=most, seed=context.seed
        )
        sentence = (
            f"a linear probe on {context.net} features tells the context at {probe.context.value:.2f} and the concept at "
            f"{probe.concept.value:.2f} of the way from guessing to perfect ({probe.images} images)"
        )
        lead, light = probe.lead, above(probe.lead.value, -0.2, 0.0)
        return [
            Finding(
                self.name, sentence, lead.value, lead.low, lead.high, "folds of the same images",
                "amber where the context comes within 0.2 of the concept, red where it leads", light,
                across({"concept": probe.concept, "context": probe.context}, label="guessing 0, perfect 100"),
                {"context": probe.context.as_dict(), "concept": probe.concept.as_dict(), "images": probe.images},
                alt=f"Two bars: concept {probe.concept.value:.2f}, context {probe.context.value:.2f}.",
            )
        ]  # fmt: skip
