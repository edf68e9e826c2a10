"""What zero-shot methods share: features in, descriptions in, hyper-parameters chosen on validation classes, scores out."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.data.semantics import Semantics
from handful.errors import BadInput, Mismatch
from handful.methods.contract import Learner, Method, Predictor
from handful.metrics.zero_shot import hits_at
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_images, embed_rows
from handful.tasks.episode import Query, Support
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot

State = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Graph:
    """The hierarchy as tensors: edges child -> parent and one description a node."""

    child: Tensor
    parent: Tensor
    nodes: Tensor

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, eq=False)
class Training:
    """What a method learns from: features, class numbers, a description a class, and perhaps the graph.

    ``memo`` is shared by all tries of a grid, for what does not depend on the options that are tried.
    """

    x: Tensor
    y: Tensor
    s: Tensor
    places: Tensor | None
    graph: Graph | None
    memo: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        return len(self.s)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a task offers: a description a class, node numbers if there is a graph, and who was seen in training."""

    s: Tensor
    places: Tensor | None
    seen: Tensor


@dataclass(frozen=True, kw_only=True)
class ZeroShotMethod(Method):
    """Base of the zero-shot methods.

    A method fills in `learn` (training images and descriptions to tensors), `prepare` (what depends on the candidates
    alone, done once a split) and `score`.

    Parameters
    ----------
    net
        Backbone for collections of images; ``pixels`` takes given features as they are.
    features
        ``l2``: each image's features on the unit sphere; ``standard``: mean 0 and deviation 1 over the training images;
        ``raw``.
    descriptions
        ``l2``, ``centred`` (less the mean training description, then ``l2``) or ``raw``.
    tune
        With a validation rule, choose the options of the method's grid by accuracy on its classes; never on test classes.
    calibration
        Subtracted from the scores of seen classes (calibrated stacking); plus or minus infinity leaves only unseen or
        only seen classes.
    seed
        Of everything random in training.
    """

    net: str = "pixels"
    features: Literal["l2", "standard", "raw"] = "l2"
    descriptions: Literal["l2", "centred", "raw"] = "l2"
    tune: bool = True
    calibration: float = 0.0
    seed: int = 0

    needs: ClassVar[frozenset[str]] = frozenset({"descriptions"})
    trains: ClassVar[Literal["tasks", "batches", "no"]] = "batches"
    needs_graph: ClassVar[bool] = False
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def learn(self, data: Training) -> State:
        raise NotImplementedError

    def prepare(self, state: State, candidates: Candidates) -> Any:
        """What scoring needs of the candidates; the candidates themselves by default."""
        return candidates

    def score(self, state: State, prepared: Any, x: Tensor) -> Tensor:
        """Scores ``(images, candidates)`` of normalised features."""
        raise NotImplementedError

    # what a method gets

    def meta_fit(
        self, train: Rule | None, valid: Rule | None = None, *, compute: Compute | None = None, keep: Path | None = None
    ) -> ZeroShotLearner:
        if not isinstance(train, ZeroShot):
            raise Mismatch(
                f"{self.name} learns from classes with descriptions; give meta_fit a zero-shot rule on train"
            )
        compute = compute or Compute()
        with compute.here():
            given = _read(self, train, compute)
            if valid is None or not self.tune or not self.grid:
                return self._learner(given, compute)
            if not isinstance(valid, ZeroShot):
                raise Mismatch(f"{self.name} is tuned on classes with descriptions; give a zero-shot rule on valid")
            both = sorted(set(train.part.class_names) & set(valid.part.class_names))
            if both:
                raise BadInput(f"validation classes must be unseen, but {both[0]} is in train too ({len(both)} such)")
            best: tuple[float, ZeroShotLearner] | None = None
            for values in itertools.product(*self.grid.values()):
                tried = dataclasses.replace(self, tune=False, **dict(zip(self.grid, values, strict=True)))
                learner = tried._learner(given, compute)
                accuracy = validate(learner, valid)
                if best is None or accuracy > best[0]:
                    best = (accuracy, learner)
            assert best is not None
            return best[1]

    def _learner(self, given: _Given, compute: Compute) -> ZeroShotLearner:
        learner = ZeroShotLearner(self, given.shape, {}, compute)
        x = given.x
        frame: State = {"seen": given.s}
        if given.places is not None:
            frame["seen_places"] = given.places
        if given.graph is not None:
            frame |= {"child": given.graph.child, "parent": given.graph.parent, "nodes": given.graph.nodes}
        if self.features == "standard":
            frame |= {"mean": x.mean(0), "scale": x.std(0, unbiased=False).clamp_min(1e-6)}
        if self.descriptions == "centred":
            frame["centre"] = given.s.mean(0)
        learner.tensors = frame
        learner.tensors |= self.learn(
            Training(
                learner.normalised(x), given.y, learner.described(given.s), given.places, learner.graph, given.memo
            )
        )
        return learner

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> ZeroShotLearner:
        return ZeroShotLearner(self, tuple(shape), {}, compute or Compute())

    def load(self, state: State, facts: dict[str, Any], compute: Compute, where: str) -> ZeroShotLearner:
        moved = {k: v.to(compute.device) for k, v in state.items()}
        return ZeroShotLearner(self, tuple(facts["shape"]), moved, compute)


@dataclass(frozen=True, eq=False)
class _Given:
    x: Tensor
    y: Tensor
    s: Tensor
    places: Tensor | None
    graph: Graph | None
    shape: tuple[int, ...]
    memo: dict[Any, Any] = field(default_factory=dict)


def _read(method: ZeroShotMethod, rule: ZeroShot, compute: Compute) -> _Given:
    """Features and descriptions of the training classes, checked."""
    rule.check()
    part, semantics = rule.part, rule.described
    if method.needs_graph and semantics.taxonomy is None:
        raise Mismatch(f"{method.name} needs the classes' hierarchy; give semantics with one, such as wordnet:VECTORS")
    shown = semantics.shown(part.class_names)
    net = build_net(method.net, part.collection.card.shape, method.seed).to(compute.device)
    x = embed_rows(net, part.collection, part.rows, compute)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        row = int(part.rows[bad[0]])
        name = part.class_names[int(part.classes[bad[0]])]
        raise BadInput(
            f"{part.collection.card.name}: the features of image {row} ({name}) are not finite ({len(bad)} such); "
            "remove these images"
        )
    device = compute.device
    return _Given(
        torch.as_tensor(x, device=device),
        torch.as_tensor(part.classes, device=device),
        torch.as_tensor(shown[0], device=device, dtype=torch.float32),
        torch.as_tensor(shown[1][:, 0], device=device) if len(shown) > 1 else None,
        _graph(semantics, device),
        tuple(part.collection.card.shape),
    )


def _graph(semantics: Semantics, device: str) -> Graph | None:
    if semantics.taxonomy is None or semantics.nodes is None:
        return None
    tree = semantics.taxonomy
    edges = [torch.as_tensor(e.astype(np.int64), device=device) for e in (tree.child, tree.parent)]
    return Graph(edges[0], edges[1], torch.as_tensor(semantics.nodes, device=device))


def validate(learner: ZeroShotLearner, rule: ZeroShot) -> float:
    """Per-image accuracy at 1 on the rule's classes."""
    hits, total = 0.0, 0
    for episode in rule.draw_block(0, 0, rule.size):
        scores = learner.fit(rule.support(episode)).predict(Query(rule.part.collection.read(episode.query)))
        hits += float(hits_at(scores, episode.query_labels, 1).sum())
        total += len(episode.query)
    return hits / total


class ZeroShotLearner(Learner):
    """What training left: tensors by name. A learner without any answers by a random map, as before training."""

    def __init__(self, method: ZeroShotMethod, shape: tuple[int, ...], tensors: State, compute: Compute):
        self.method: ZeroShotMethod = method
        self.shape, self.tensors, self.compute = shape, tensors, compute
        self._net: nn.Module | None = None
        self._last: tuple[Any, ZeroShotPredictor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_net": None, "_last": None}

    @property
    def net(self) -> nn.Module:
        if self._net is None:
            self._net = build_net(self.method.net, self.shape, self.method.seed).to(self.compute.device)
        return self._net

    @property
    def trained(self) -> bool:
        return bool(self.tensors)

    @property
    def graph(self) -> Graph | None:
        t = self.tensors
        return Graph(t["child"], t["parent"], t["nodes"]) if "nodes" in t else None

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
        return {"shape": list(self.shape)}

    def state(self) -> State:
        return self.tensors

    def to(self, compute: Compute) -> ZeroShotLearner:
        moved = {k: v.to(compute.device) for k, v in self.tensors.items()}
        return ZeroShotLearner(self.method, self.shape, moved, compute)


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
        if places is not None and "seen_places" in t:
            self.seen = torch.isin(places, t["seen_places"])
        else:
            self.seen = (torch.cdist(matrix, t["seen"], p=float("inf")) == 0).any(1)
        with torch.no_grad():
            self.prepared = self.method.prepare(t, Candidates(learner.described(matrix), places, self.seen))

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
            scores = self._untrained(x) if not self.learner.trained else self._scores(x)
            return stacked(scores, self.seen, self.method.calibration).float().cpu().numpy()

    def _scores(self, x: Tensor) -> Tensor:
        return self.method.score(self.learner.tensors, self.prepared, self.learner.normalised(x))

    def _untrained(self, x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.method.seed)
        map_ = torch.randn(x.shape[1], self.width, generator=generator).to(x.device) / x.shape[1] ** 0.5
        return F.normalize(x, dim=1) @ map_ @ self.s.T


def stacked(scores: Tensor, seen: Tensor, calibration: float) -> Tensor:
    """Scores with the seen classes' lowered; an infinite amount puts them below (or above) all others, in order."""
    if calibration == 0 or not len(scores):
        return scores
    if np.isinf(calibration):
        reach = scores.amax(1, keepdim=True) - scores.amin(1, keepdim=True) + 1
        return torch.where(seen, scores - float(np.sign(calibration)) * reach, scores)
    return torch.where(seen, scores - calibration, scores)
