"""LRP: training guided by explanations, on RelationNet, GNN and TPN."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.layers.masks import asked
from handful.methods.layers.relevance import (
    log_odds,
    through_convolution,
    through_linear,
    through_mixing,
    through_pooling,
    weights,
)
from handful.methods.metric.gnn import GNN, EdgeNetwork
from handful.methods.metric.relationnet import Relation, RelationNet
from handful.methods.metric.tpn import TPN


@dataclass(frozen=True, kw_only=True)
class Explained(Embedded):
    """Explanation-guided training (Sun, Lapuschkin, Samek, Zhao, Cheung, Binder, "Explanation-guided training for cross-domain few-shot classification", ICPR 2020).

    While training, the scores log(β p/(1-p)) are traced back to the features by layer-wise relevance propagation; features
    are multiplied by 1 + R / max|R|, so that those which spoke for the score count more, and pass the classifier again: the
    loss is L(scores) + λ L(scores of the weighed features). Tasks are answered by the plain classifier.

    Parameters
    ----------
    guidance
        λ; below 0 (the default) as published: 0.5 for one shot, 1 for more.

    Notes
    -----
    Rules as in the public code: α1β0 for convolutions, ε = 0.01 for linear layers and graphs, winners for max-pooling,
    identity for ReLU and batch norm, no biases; the explanation is taken in evaluation mode and carries no gradient.
    """

    guidance: float = -1.0

    def weight_of(self, b: Batch) -> float:
        if self.guidance >= 0:
            return self.guidance
        return 0.5 if int(b.one_hot.sum(1).max()) <= 1 else 1.0


@dataclass(frozen=True, kw_only=True)
class RelationNetLRP(Explained, RelationNet):
    """RelationNet with explanation-guided training (Sun et al., ICPR 2020); see `Explained` and `RelationNet`."""

    name: ClassVar[str] = "relationnet+lrp"

    def pairs(self, b: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Maps of the class and of the query of every pair that exists, and where the pairs are."""
        classes = b.prototypes()
        if self.pool == "sum":
            classes = classes * b.one_hot.sum(1)[:, :, None, None, None]
        real = asked(b)[:, :, None] & ~b.absent[:, None, :]
        task, query, label = real.nonzero(as_tuple=True)
        return classes[task, label], b.q[task, query], real

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        plain = super().task_loss(m, b, labels)
        relation: Relation = m["relation"]  # type: ignore[assignment]
        c, q, real = self.pairs(b)
        training = relation.training
        relation.eval()
        with torch.no_grad():
            each = torch.arange(len(c), device=c.device)
            scores = relation(c, q, each, each)
            grid = torch.full(real.shape, float("-inf"), device=c.device, dtype=scores.dtype)
            grid[real] = scores
            relevance = explain_relation(relation, c, q, log_odds(grid)[real])
            weight_c, weight_q = weights(torch.cat(relevance, 1), 1).chunk(2, 1)
        relation.train(training)
        again = torch.zeros(real.shape, device=c.device, dtype=c.dtype)
        again[real] = relation(c * weight_c, q * weight_q, each, each)
        return plain + self.weight_of(b) * self.loss_of(again, b, labels)

    def loss_of(self, relations: Tensor, b: Batch, labels: Tensor) -> Tensor:
        if self.loss == "softmax":
            return F.cross_entropy(b.close(relations).flatten(0, 1), labels.flatten(), ignore_index=-2)
        r = torch.sigmoid(relations)
        same = (labels[..., None] == torch.arange(b.C, device=labels.device)).to(r.dtype)
        real = ((labels >= 0)[..., None] & ~b.absent[:, None, :]).to(r.dtype)
        return ((r - same).square() * real).sum() / real.sum().clamp_min(1)


def explain_relation(relation: Relation, c: Tensor, q: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of every value of the class map and of the query map of each pair."""
    norm, _, pool = relation.first
    layers: Any = (relation.second, relation.last)
    (convolution, norm2, _, pool2), (inner, _, outer) = layers
    a1 = F.relu(norm(relation.of_class(c) + relation.of_query(q)))
    p1 = pool(a1)
    a2 = F.relu(norm2(convolution(p1)))
    flat = pool2(a2).flatten(1)
    hidden = F.relu(inner(flat))
    r = through_linear(hidden, outer.weight, relevance[:, None])
    r = through_linear(flat, inner.weight, r).view_as(pool2(a2))
    r = through_pooling(a2, r, 2, True)
    r = through_convolution(p1, convolution.weight, r, 1)
    r = through_pooling(a1, r, 2, True)
    weight = torch.cat([relation.of_class.weight, relation.of_query.weight], 1)
    both = through_convolution(torch.cat([c, q], 1), weight, r, 1)
    return both[:, : c.shape[1]], both[:, c.shape[1] :]


@dataclass(frozen=True, kw_only=True)
class GNNLRP(Explained, GNN):
    """GNN with explanation-guided training (Sun et al., ICPR 2020); see `Explained` and `GNN`."""

    name: ClassVar[str] = "gnn+lrp"

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        if b.C > self.ways:
            raise BadInput(
                f"{self.name} has labels for {self.ways} ways and was given a training task of {b.C}; set ways"
            )
        s, q = self.nodes(m, b)
        (_, mine, hot), *_ = self.groups(b)
        nodes, mask = self.graphs(s, q, asked(b), mine, hot)
        graph: EdgeNetwork = m["graph"]  # type: ignore[assignment]
        training = graph.training
        graph.eval()
        with torch.no_grad():
            relevance = explain_graph(graph, nodes, mask)[..., : self.width]
        graph.train(training)
        weighed = torch.cat([nodes[..., : self.width] * weights(relevance, -1), nodes[..., self.width :]], -1)
        losses = []
        for x in (nodes, weighed):
            scores = graph(x, mask)[:, 0].unflatten(0, q.shape[:2])[..., : b.C]
            losses.append(F.cross_entropy(b.close(scores).flatten(0, 1), labels.flatten(), ignore_index=-2))
        return losses[0] + self.weight_of(b) * losses[1]


def explain_graph(graph: EdgeNetwork, x: Tensor, mask: Tensor) -> Tensor:
    """Relevance of every feature of every node for the log-odds of all nodes, edges taken as given."""
    states, edges = [x], []
    for edge, convolution in zip(graph.edges[:2], graph.convolutions, strict=True):
        edges.append(edge(states[-1], mask))
        states.append(torch.cat([states[-1], F.leaky_relu(convolution(states[-1], edges[-1], mask))], -1))
    edges.append(graph.edges[2](states[-1], mask))
    layers = [*graph.convolutions, graph.last]
    r = log_odds(graph.last(states[-1], edges[-1], mask)) * mask[..., None]
    total = torch.zeros_like(x)
    for i in (2, 1, 0):
        r = explain_convolution(layers[i].linear.weight, states[i], edges[i], r)
        total = total + r[..., : x.shape[-1]]
        if i:
            r = r[..., states[i - 1].shape[-1] :]
    return total


def explain_convolution(weight: Tensor, x: Tensor, edges: Tensor, relevance: Tensor) -> Tensor:
    """Back through θ [x, A x]: to the node itself and, through A, to its neighbours."""
    width = x.shape[-1]
    r = through_linear(torch.cat([x, edges @ x], -1), weight, relevance)
    return r[..., :width] + through_mixing(x, edges, r[..., width:])


@dataclass(frozen=True, kw_only=True)
class TPNLRP(Explained, TPN):
    """TPN with explanation-guided training (Sun et al., ICPR 2020); see `Explained` and `TPN`.

    Notes
    -----
    Neither the paper nor its public code explains TPN (they treat RelationNet, GNN and CAN), and its closed form has no
    layers to propagate through. What is explained is as for GNN, the log-odds of every query and class, summed; their
    relevance for a feature is its share in the first-order Taylor expansion at zero, R = f · ∂(log-odds)/∂f, which is what
    the ε-rule gives without ε for a network of ReLUs. The length scales σ are taken as given, as GNN's edges are.
    """

    name: ClassVar[str] = "tpn+lrp"

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        plain = super().task_loss(m, b, labels)
        training = m.training
        m.eval()
        weight_s, weight_q = (weights(r, 2) for r in self.explain(m, b))
        m.train(training)
        weighed = dataclasses.replace(b, s=b.s * weight_s, q=b.q * weight_q)
        return plain + self.weight_of(b) * super().task_loss(m, weighed, labels)

    def explain(self, m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor]:
        """Relevance of every value of the support's and of the queries' maps."""
        s, q = (x.detach().requires_grad_() for x in (b.s, b.q))
        with torch.no_grad():
            sigma = self.length_scales(m, b)
        with torch.enable_grad():
            scores = self.propagated(dataclasses.replace(b, s=s, q=q), sigma)[:, b.s.shape[1] :]
            odds = log_odds(scores.masked_fill(b.absent[:, None], -1e9))
            told = asked(b)[..., None] & ~b.absent[:, None]
            slopes = torch.autograd.grad(odds.masked_fill(~told, 0.0).sum(), (s, q))
        return (s * slopes[0]).detach(), (q * slopes[1]).detach()
