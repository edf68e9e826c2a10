"""What zero-shot methods are given: training features and descriptions, the class graph, the candidates of a task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from handful.data.semantics import Semantics
from handful.errors import BadInput, Mismatch
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.tasks.zero_shot import ZeroShot

if TYPE_CHECKING:
    from handful.methods.zero_shot.base import ZeroShotMethod

State = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class ClassGraph:
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
    graph: ClassGraph | None
    memo: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        return len(self.s)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a task offers: a description a class, its node number if there is a graph, and its number in training.

    ``training`` is -1 for classes that training has not seen.
    """

    s: Tensor
    places: Tensor | None
    training: Tensor

    @property
    def seen(self) -> Tensor:
        return self.training >= 0


@dataclass(frozen=True, eq=False)
class Lessons:
    """Training data as read from a rule, before any normalisation."""

    x: Tensor
    y: Tensor
    s: Tensor
    places: Tensor | None
    graph: ClassGraph | None
    shape: tuple[int, ...]
    memo: dict[Any, Any] = field(default_factory=dict)

    def only(self, rows: Tensor) -> Lessons:
        """The same classes with some of the images, and a memory of its own."""
        return replace(self, x=self.x[rows], y=self.y[rows], memo={})

    def joined(self, more: Lessons) -> Lessons:
        """Both sets of classes as one; they must be described by the same semantics."""
        same = (self.graph is None) == (more.graph is None) and self.s.shape[1] == more.s.shape[1]
        if self.graph is not None and more.graph is not None:
            same = same and torch.equal(self.graph.nodes, more.graph.nodes)
        if not same:
            raise Mismatch("training and validation classes are described by different semantics; give both the same")
        places = None
        if self.places is not None and more.places is not None:
            places = torch.cat([self.places, more.places])
        return Lessons(
            torch.cat([self.x, more.x]),
            torch.cat([self.y, more.y + len(self.s)]),
            torch.cat([self.s, more.s]),
            places,
            self.graph,
            self.shape,
        )


def read(method: ZeroShotMethod, rule: ZeroShot, compute: Compute) -> Lessons:
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
    return Lessons(
        torch.as_tensor(x, device=device),
        torch.as_tensor(part.classes, device=device),
        torch.as_tensor(shown[0], device=device, dtype=torch.float32),
        torch.as_tensor(shown[1][:, 0], device=device) if len(shown) > 1 else None,
        _graph(semantics, device),
        tuple(part.collection.card.shape),
    )


def _graph(semantics: Semantics, device: str) -> ClassGraph | None:
    if semantics.taxonomy is None or semantics.nodes is None:
        return None
    tree = semantics.taxonomy
    edges = [torch.as_tensor(e.astype(np.int64), device=device) for e in (tree.child, tree.parent)]
    return ClassGraph(edges[0], edges[1], torch.as_tensor(semantics.nodes, device=device))
