"""What is learned on validation tasks before a test: a temperature, thresholds of refusal, the threshold of conformal sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from handful.errors import BadInput
from handful.metrics.calibration import probabilities, threshold_for
from handful.metrics.refusals import Evidence, all_scores
from handful.metrics.strangers import threshold_of
from handful.tasks.episode import NONE


@dataclass(frozen=True)
class Promises:
    """Numbers chosen on validation tasks; as they stand here, nothing is chosen."""

    temperature: float = 1.0
    thresholds: Mapping[str, float] = field(default_factory=dict)
    conformal: float = 1.0

    def options(self, metric: str) -> dict[str, Any]:
        """The options of a metric that these decide."""
        if metric == "strangers":
            return {"thresholds": dict(self.thresholds)}
        return {"threshold": self.conformal} if metric == "conformal" else {}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Wanted:
    """What a user wants learned on validation tasks.

    Parameters
    ----------
    temperature
        The number that scores are divided by; ``auto`` learns it.
    promise
        At most this share of strangers is to be accepted.
    alpha
        Conformal sets are to miss the truth at most this often.
    tasks
        Number of validation tasks.
    """

    temperature: float | str = 1.0
    promise: float | None = None
    alpha: float | None = None
    tasks: int = 200

    def __post_init__(self) -> None:
        try:
            if self.temperature != "auto":
                object.__setattr__(self, "temperature", float(self.temperature))
            if self.temperature != "auto" and not 0 < float(self.temperature) < float("inf"):
                raise ValueError
        except ValueError:
            raise BadInput(f"temperature is a number above 0, or auto, not {self.temperature!r}") from None
        for name, value in (("promise", self.promise), ("conformal", self.alpha)):
            if value is not None and not 0 < value < 1:
                raise BadInput(f"{name} is a share between 0 and 1, such as 0.05, not {value!r}")
        if self.tasks < 1:
            raise BadInput(f"the number of validation tasks must be at least 1, not {self.tasks}")

    @property
    def learns(self) -> bool:
        return self.temperature == "auto" or self.promise is not None or self.alpha is not None


Seen = tuple[np.ndarray, Evidence]
"""The truth of a validation task's queries, and what was answered."""


def chosen(wanted: Wanted, seen: Iterable[Seen]) -> Promises:
    """The numbers that validation tasks give."""
    tasks = list(seen)
    temperature = best_temperature(tasks) if wanted.temperature == "auto" else float(wanted.temperature)
    thresholds: dict[str, float] = {}
    if wanted.promise is not None:
        found: dict[str, list[np.ndarray]] = {}
        for truth, e in tasks:
            warm = Evidence(e.scores / temperature, e.support, e.labels, e.query)
            for name, sure in all_scores(warm).items():
                found.setdefault(name, []).append(sure[truth == NONE])
        thresholds = {name: threshold_of(np.concatenate(sure), wanted.promise) for name, sure in found.items()}
        if not thresholds or not len(np.concatenate(next(iter(found.values())))):
            raise BadInput("a promise about strangers needs tasks that have some; ask for --rule strangers")
    conformal = 1.0
    if wanted.alpha is not None:
        conformal = threshold_for(np.concatenate([_truths(t, e.scores / temperature) for t, e in tasks]), wanted.alpha)
    return Promises(temperature, thresholds, conformal)


def _truths(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    known = truth != NONE
    return probabilities(scores[known])[np.arange(int(known.sum())), truth[known]]


def best_temperature(tasks: list[Seen]) -> float:
    """The temperature of least negative log-likelihood over the known queries (Guo et al., ICML 2017)."""

    def loss(log_t: float) -> float:
        p = np.concatenate([_truths(truth, e.scores / np.exp(log_t)) for truth, e in tasks])
        return float(-np.log(np.maximum(p, 1e-300)).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded", options={"xatol": 1e-5}).x))
