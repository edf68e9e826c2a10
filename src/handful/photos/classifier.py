"""The part of a classifier of photos that comes after the network: features in, probabilities and refusals out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from handful.errors import BadInput
from handful.photos.expecting import ChosenHead, choose, rate_that_catches, refusal_threshold, strangeness
from handful.photos.heads import fit_linear, fit_prototypes, linear_scores, prototype_scores

STRENGTH = 1.0
HEADS = ("auto", "prototypes", "linear")


@dataclass(frozen=True)
class Classifier:
    """A head with its temperature, and the prototypes that say how strange a photo is.

    Attributes
    ----------
    tensors
        ``means`` and ``inflation`` of the prototypes; ``weight`` and ``bias`` if the head is linear.
    threshold, rate
        Strangeness above which a photo is none of these, and the share of the classes' own photos above it.
    """

    head: str
    tensors: dict[str, np.ndarray]
    temperature: float
    threshold: float
    rate: float

    def answer(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities ``(n, C)`` and which photos are refused, for unit vectors ``x``."""
        near = prototype_scores(x, self.tensors["means"], self.tensors["inflation"])
        linear = self.head == "linear"
        scores = linear_scores(x, self.tensors["weight"], self.tensors["bias"]) if linear else near
        return softmax(scores / self.temperature, axis=1), strangeness(-near) > self.threshold

    def shapes(self, width: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """What `tensors` must be."""
        more = {"weight": (width, n_classes), "bias": (n_classes,)} if self.head == "linear" else {}
        return {"means": (n_classes, width), "inflation": (n_classes,), **more}


def learn(
    x: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    *,
    head: str = "auto",
    refuse: float = 0.1,
    seed: int = 0,
    catch: float = 0.0,
) -> tuple[Classifier, ChosenHead]:
    """The classifier of unit vectors ``x`` with labels ``y``, and the evidence it was chosen by."""
    check_options(head, refuse, catch)
    if catch:
        refuse = max(refuse, rate_that_catches(x, y, catch))
    prototypes = fit_prototypes(x, y, n_classes)
    heads = [prototypes] if head != "linear" else []
    if head != "prototypes":
        heads.append(fit_linear(x, y, n_classes, STRENGTH))
    choice = choose(heads, y, seed)
    threshold, rate = refusal_threshold(strangeness(-prototypes.left_out), refuse)
    tensors = {**prototypes.tensors, **choice.head.tensors}
    return Classifier(choice.head.name, tensors, choice.temperature, threshold, rate), choice


def check_options(head: str, refuse: float, catch: float = 0.0) -> None:
    if head not in HEADS:
        raise BadInput(f"head must be auto, prototypes or linear, not {head!r}")
    if not 0 <= refuse < 1:
        raise BadInput(f"refuse is a share of photos from 0 to below 1, not {refuse}")
    if not 0 <= catch < 1:
        raise BadInput(f"catch is a share of strangers from 0 to below 1, not {catch}")
