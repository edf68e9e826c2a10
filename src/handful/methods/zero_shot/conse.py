"""ConSE: a convex combination of the descriptions of likely training classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training
from handful.methods.zero_shot.linear import training_classifier


@dataclass(frozen=True, kw_only=True)
class ConSE(ZeroShotMethod):
    """ConSE (Norouzi et al., "Zero-shot learning by convex combination of semantic embeddings", ICLR 2014).

    A softmax classifier of the training classes says how likely each is; the image's description is the mean of the T
    likeliest classes' descriptions weighted by their probability, f(x) = sum_t p(y_t|x) s(y_t) / sum_t p(y_t|x), and the
    candidate of highest cosine with it is the answer.

    Parameters
    ----------
    top
        T: 10 in the paper (1, 10 and 1000 are tried there), 5 in the public code of the generic-object benchmark.
    decay, steps, sharpness
        Of the bias-free softmax regression that stands in for the network's own last layer; features are multiplied by
        ``sharpness`` first, since unit vectors need large weights.
    """

    top: int = 10
    decay: float = 1e-4
    steps: int = 100
    sharpness: float = 10.0

    name: ClassVar[str] = "conse"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"top": (1, 5, 10, 100)}

    def learn(self, data: Training) -> State:
        weight, _ = training_classifier(data, self.sharpness, self.decay, self.steps, bias=False)
        return {"W": weight, "S": data.s}

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        probability = torch.softmax(x * self.sharpness @ state["W"].T, dim=1)
        return combine(probability, state["S"], prepared.s, self.top)


def combine(probability: Tensor, train: Tensor, candidates: Tensor, top: int) -> Tensor:
    """Cosines of the combined description with the candidates'."""
    weight, place = probability.topk(min(top, probability.shape[1]), dim=1)
    mean = torch.einsum("qt,qtd->qd", weight / weight.sum(1, keepdim=True), train[place])
    return F.normalize(mean, dim=1) @ F.normalize(candidates, dim=1).T
