"""CMT: a small network that maps images to descriptions, and a detector of images of unseen classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from handful.methods.zero_shot import novelty
from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training
from handful.methods.zero_shot.gradient import Descent, descended, start
from handful.methods.zero_shot.linear import training_classifier


@dataclass(frozen=True, kw_only=True)
class CMT(ZeroShotMethod):
    """CMT (Socher et al., "Zero-shot learning through cross-modal transfer", NIPS 2013).

    A two-layer network takes an image to its class's description, |s_y - T2 tanh(T1 x)|^2, and the nearest candidate
    description is the answer; scores are minus the squared distances. Where seen and unseen classes are candidates
    together, novelty detection first asks how likely the image is of an unseen class, and
    p(y|x) = P(y|seen, x) P(seen|x) + P(y|unseen, x) P(unseen|x): a softmax classifier of the features among the seen, an
    isotropic Gaussian around each description among the unseen; scores are then log-probabilities.

    Parameters
    ----------
    hidden
        Units of the hidden layer, chosen on validation classes.
    scale
        Deviation of the first layer's initial weights, chosen too: small ones keep the map nearly linear, which unseen
        classes may need, large ones bend it at once.
    novelty
        ``none``, as in the common evaluations; ``gaussian``: unseen, if beyond the radius of every seen class that
        holds a share ``inside`` of its training images; ``loop``: local outlier probability among ``neighbours``
        training images, with ``spread`` deviations as its scale (20 and 3 in the paper).
    decay, steps, sharpness
        Of the softmax regression on features that tells the seen classes apart.
    """

    hidden: int = 128
    scale: float = 1.0
    epochs: int = 200
    batch: int = 128
    rate: float = 1e-3
    weight_decay: float = 0.0
    novelty: Literal["none", "gaussian", "loop"] = "none"
    inside: float = 0.9
    neighbours: int = 20
    spread: float = 3.0
    decay: float = 1e-4
    steps: int = 100
    sharpness: float = 10.0

    name: ClassVar[str] = "cmt"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "hidden": (64, 256),
        "scale": (0.1, 1.0),
        "epochs": (10, 30, 100, 200),
    }

    def learn(self, data: Training) -> State:
        first, second = descended(self, data, lambda: self._begin(data))
        state = {"T1": first, "T2": second}
        return state if self.novelty == "none" else state | self._detector(data, state)

    def _begin(self, data: Training) -> Descent:
        first = start(data.x.shape[1], self.hidden, like=data.x, seed=self.seed, scale=self.scale)
        second = start(self.hidden, data.s.shape[1], like=data.x, seed=self.seed + 1)

        def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
            return (data.s[data.y[rows]] - mapped(data.x[rows], first, second)).square().sum(1).mean()

        return Descent(self, [first, second], loss, len(data.x), self.weight_decay)

    def _detector(self, data: Training, state: State) -> State:
        points = mapped(data.x, state["T1"], state["T2"])
        weight, bias = training_classifier(data, self.sharpness, self.decay, self.steps, bias=True)
        variance = (points - data.s[data.y]).square().mean().reshape(1)
        out = {"classifier": weight, "classifier_bias": bias, "variance": variance, "described": data.s}
        if self.novelty == "gaussian":
            return out | {"radius": novelty.radii(points, data.y, data.s, self.inside)}
        distance, scale = novelty.loop_fit(points, self.neighbours, self.spread)
        return out | {"points": points, "distance": distance, "scale": scale}

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        guess, s = mapped(x, state["T1"], state["T2"]), prepared.s
        nearness = 2 * guess @ s.T - guess.square().sum(1, keepdim=True) - s.square().sum(1)
        seen = prepared.seen
        if self.novelty == "none" or bool(seen.all()) or not bool(seen.any()):
            return nearness
        unseen = self.unseen(state, guess).double()
        own = prepared.training[seen]
        logits = x * self.sharpness @ state["classifier"][own].T + state["classifier_bias"][own]
        out = torch.empty(nearness.shape, dtype=torch.float64, device=x.device)
        out[:, seen] = torch.log_softmax(logits.double(), 1) + _log(1 - unseen)[:, None]
        around = nearness[:, ~seen].double() / (2 * state["variance"].double())
        out[:, ~seen] = torch.log_softmax(around, 1) + _log(unseen)[:, None]
        return out.to(x.dtype)

    def unseen(self, state: State, guess: Tensor) -> Tensor:
        """P(unseen | x) of mapped images."""
        if self.novelty == "gaussian":
            return novelty.outside(guess, state["described"], state["radius"])
        return novelty.loop(guess, state["points"], state["distance"], state["scale"], self.neighbours)


def mapped(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """T2 tanh(T1 x), rows being images."""
    return torch.tanh(x @ first) @ second


def _log(probability: Tensor) -> Tensor:
    # A certain answer puts the other kind below every one of its own, and keeps the order inside it.
    return probability.clamp_min(1e-300).log()
