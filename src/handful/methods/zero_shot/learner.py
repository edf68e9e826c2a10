"""The fitted side of the zero-shot methods: tensors by name, candidates prepared once a split, scores out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.methods.contract import Learner, Predictor
from handful.methods.zero_shot.data import Candidates, ClassGraph, Lessons, State
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.tasks.episode import Query, Support

if TYPE_CHECKING:
    from handful.methods.zero_shot.base import ZeroShotMethod


class ZeroShotLearner(Learner):
    """What training left: tensors by name. A learner without any answers by a random map, as before training."""

    def __init__(self, method: ZeroShotMethod, shape: tuple[int, ...], tensors: State, compute: Compute):
        self.method: ZeroShotMethod = method
        self.shape, self.tensors, self.compute = shape, tensors, compute
        self.tuning: list[dict[str, Any]] = []
        self._net: nn.Module | None = None
        self._last: tuple[Any, ZeroShotPredictor] | None = None
        self.given: Lessons | None = None  # what it learns from, while it does

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_net": None, "_last": None, "given": None}

    @property
    def net(self) -> nn.Module:
        if self._net is None:
            self._net = build_net(self.method.net, self.shape, self.method.seed).to(self.compute.device)
        return self._net

    @property
    def trained(self) -> bool:
        return bool(self.tensors)

    @property
    def graph(self) -> ClassGraph | None:
        t = self.tensors
        return ClassGraph(t["child"], t["parent"], t["nodes"]) if "nodes" in t else None

    def normalised(self, x: Tensor) -> Tensor:
        if self.method.features == "standard":
            return (x - self.tensors["mean"]) / self.tensors["scale"]
        return F.normalize(x, dim=1) if self.method.features == "l2" else x

    def described(self, s: Tensor) -> Tensor:
        if self.method.descriptions == "centred":
            s = s - self.tensors["centre"]
        return s if self.method.descriptions == "raw" else F.normalize(s, dim=1)

    def embed(self, images: np.ndarray) -> Tensor:
        if tuple(images.shape[1:]) != self.shape:
            raise Mismatch(
                f"this {self.method.name} takes images or features of {self.shape}, not {tuple(images.shape[1:])}"
            )
        return embed_images(self.net, images, self.compute)

    def fit(self, support: Support) -> ZeroShotPredictor:
        if support.descriptions is None:
            raise Mismatch(f"{self.method.name} needs descriptions of the candidates, and this support shows none")
        # All tasks of a rule share their candidates, so what depends on these alone is worked out once.
        if self._last is None or self._last[0] is not support.descriptions:
            with self.compute.here():
                self._last = (support.descriptions, ZeroShotPredictor(self, support.descriptions))
        return self._last[1]

    def facts(self) -> dict[str, Any]:
        return {"shape": list(self.shape), **({"tuning": self.tuning} if self.tuning else {})}

    def state(self) -> State:
        return self.tensors

    def to(self, compute: Compute) -> ZeroShotLearner:
        moved = {k: v.to(compute.device) for k, v in self.tensors.items()}
        made = ZeroShotLearner(self.method, self.shape, moved, compute)
        made.tuning = self.tuning
        return made


class ZeroShotPredictor(Predictor):
    """Scores queries against one set of candidates."""

    def __init__(self, learner: ZeroShotLearner, shown: tuple[np.ndarray, ...]):
        self.learner, self.method = learner, learner.method
        device = learner.compute.device
        matrix = torch.as_tensor(np.asarray(shown[0], dtype=np.float32), device=device)
        if not bool(torch.isfinite(matrix).all()):
            raise BadInput("the description of a candidate is not finite; leave the class out")
        self.width = matrix.shape[1]
        if not learner.trained:
            self.seen = torch.zeros(len(matrix), dtype=torch.bool, device=device)
            self.s = F.normalize(matrix, dim=1)
            return
        t = learner.tensors
        if self.width != t["seen"].shape[1]:
            raise Mismatch(
                f"{self.method.name} was trained on descriptions of {t['seen'].shape[1]} numbers, these have {self.width}"
            )
        places = torch.as_tensor(shown[1][:, 0], device=device) if len(shown) > 1 else None
        self._check_graph(places, matrix)
        candidates = Candidates(learner.described(matrix), places, self._training(places, matrix))
        self.seen = candidates.seen
        with torch.no_grad():
            self.prepared = self.method.prepare(t, candidates)

    def _training(self, places: Tensor | None, matrix: Tensor) -> Tensor:
        """The number that each candidate had in training, -1 if none: by node, or by description where there is no graph."""
        t = self.learner.tensors
        if places is not None and "seen_places" in t:
            same = places[:, None] == t["seen_places"]
        else:
            same = torch.cdist(matrix, t["seen"], p=float("inf")) == 0
        return torch.where(same.any(1), same.to(torch.uint8).argmax(1), -1)

    def _check_graph(self, places: Tensor | None, matrix: Tensor) -> None:
        if not self.method.needs_graph:
            return
        graph = self.learner.graph
        if places is None or graph is None:
            raise Mismatch(f"{self.method.name} needs the classes' hierarchy; give semantics with one")
        if int(places.max()) >= len(graph) or not torch.equal(graph.nodes[places], matrix):
            raise Mismatch(
                f"these candidates are not nodes of the hierarchy that {self.method.name} was trained on; "
                "train with semantics that cover them"
            )

    def predict(self, query: Query) -> np.ndarray:
        with self.learner.compute.here(), torch.no_grad():
            x = self.learner.embed(query.images)
            if not bool(torch.isfinite(x).all()):
                raise BadInput("the features of a query image are not finite; remove it")
            return self.answer(x).float().cpu().numpy()

    def answer(self, x: Tensor) -> Tensor:
        """Scores of embedded images."""
        if not self.learner.trained:
            return self._untrained(x)
        scores = self.method.score(self.learner.tensors, self.prepared, self.learner.normalised(x))
        return stacked(scores, self.seen, self.method.bias)

    def _untrained(self, x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.method.seed)
        map_ = torch.randn(x.shape[1], self.width, generator=generator).to(x.device) / x.shape[1] ** 0.5
        return F.normalize(x, dim=1) @ map_ @ self.s.T


def stacked(scores: Tensor, seen: Tensor, bias: float) -> Tensor:
    """Scores with the seen classes' lowered; an infinite amount puts them below (or above) all others, in order."""
    if bias == 0 or not len(scores):
        return scores
    if np.isinf(bias):
        reach = scores.amax(1, keepdim=True) - scores.amin(1, keepdim=True) + 1
        return torch.where(seen, scores - float(np.sign(bias)) * reach, scores)
    return torch.where(seen, scores - bias, scores)
