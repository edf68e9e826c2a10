"""Centroid Networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.clustering.clusterer import Clusterer
from handful.methods.clustering.kmeans import kmeans
from handful.methods.clustering.sinkhorn import sinkhorn
from handful.methods.clustering.sinkhorn_kmeans import hard_means, sinkhorn_kmeans, squared_distances
from handful.methods.schedule import Schedule

Conditional = Literal["softmax", "sinkhorn"]


@dataclass(frozen=True, kw_only=True)
class CentroidNet(Clusterer):
    """Centroid Networks ("Are few-shot learning benchmarks too simple?", ICLR 2020 submission).

    An embedding trained like Prototypical Networks with a loss that draws each class together; without labels, its
    support is clustered by Sinkhorn K-means and a query goes to the nearest centroid. The training loss is

        -mean log p(y | x) + center * mean (z - mu_y)²

    over the queries, with class means mu of the support in the centroids' place (the supervised surrogate), and over
    support image and dimension.

    Parameters
    ----------
    train_conditional, eval_conditional
        p(cluster | point) in training (over the queries) and for the support when evaluating: ``softmax`` of minus the
        squared distances over ``temperature``, or ``sinkhorn``: the transport plan's row. The paper's text names
        both as its default; its Table 2 equals the ablation's sinkhorn/sinkhorn row for Omniglot and softmax/softmax for
        miniImageNet. Queries always go to the nearest centroid (Section 5.2): one query's answer must not depend on the
        others.
    center
        Weight of the center loss (support only, mean over dimensions too, as in the public code): 1; Omniglot-CCN 0.1;
        Meta-Dataset 0.01 or 0.001, the paper prints both.
    gamma
        Regularisation of the transport plan: 1; Meta-Dataset 0.1.
    relative
        Clusters each support scaled to a mean squared distance of 1 from its mean, so that gamma, spread and noise are
        shares of it: for features whose scale was not trained together with gamma.
    clustering
        ``kmeans`` puts K-means++ in the place of Sinkhorn K-means (the ablation).
    hard, starts, steps, first, inner, final, carry_on, spread, noise
        Of Sinkhorn K-means, see `sinkhorn_kmeans`; ``final`` is also the number of Sinkhorn iterations of the
        conditionals. ``starts`` and ``init`` apply to K-means too.

    Notes
    -----
    Public code: Adam 1e-3 halved every 2,000 tasks; 5-way 5-shot, 5 training queries per class; 100,000 tasks on Omniglot.
    Shown cluster sizes become the plan's column weights; otherwise clusters are taken to be equal.
    """

    clustering: Literal["sinkhorn", "kmeans"] = "sinkhorn"
    train_conditional: Conditional = "softmax"
    eval_conditional: Conditional = "softmax"
    center: float = 1.0
    gamma: float = 1.0
    relative: bool = False
    hard: bool = False
    starts: int = 1
    init: Literal["plain", "greedy"] = "plain"
    steps: int = 20
    first: int = 20
    inner: int = 4
    final: int = 10
    carry_on: float | None = 0.05
    spread: float = 0.01
    noise: float = 0.001
    schedule: Schedule = field(default=Schedule(steps=4000, halve_every=2000, select="last"))

    name: ClassVar[str] = "centroid"

    def cluster(self, b: Batch) -> tuple[Tensor, Tensor]:
        rows = b.s_mask.to(b.s)
        columns = (~b.absent).to(b.s) if b.sizes is None else b.sizes.to(b.s)
        if not self.relative:
            return self._cluster(b, b.s, rows, columns)
        scale = spread_of(b.s, rows)[:, None, None]
        centroids, support = self._cluster(b, b.s / scale, rows, columns)
        return centroids * scale, support

    def _cluster(self, b: Batch, s: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        if self.clustering == "kmeans":
            centroids = kmeans(s, b.n, b.seeds, rows=rows, init=self.init, starts=self.starts).centroids
            if self.eval_conditional == "softmax":
                return centroids, self.logits(s, centroids)
            plan = sinkhorn(
                squared_distances(s, centroids),
                self.gamma,
                rows,
                columns,
                iterations=self.final,
                carry_on=self.carry_on,
            )
            return centroids, row_logits(plan.log)
        found = sinkhorn_kmeans(
            s,
            b.n,
            b.seeds,
            gamma=self.gamma,
            rows=rows,
            columns=columns,
            steps=self.steps,
            first=self.first,
            inner=self.inner,
            final=self.final,
            carry_on=self.carry_on,
            spread=self.spread,
            noise=self.noise,
            starts=self.starts,
        )
        centroids = hard_means(s, found.centroids, rows, columns) if self.hard else found.centroids
        if self.eval_conditional == "softmax":
            return centroids, self.logits(s, centroids)
        return centroids, row_logits(found.plan.log)

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        prototypes = b.prototypes()
        if self.train_conditional == "softmax":
            loss = super().task_loss(m, b, labels)
        else:
            loss = self._sinkhorn_loss(b, prototypes, labels)
        if not self.center:
            return loss
        own = torch.gather(prototypes, 1, b.y.clamp_min(0)[..., None].expand(-1, -1, b.s.shape[-1]))
        known = b.y >= 0
        return loss + self.center * (b.s - own)[known].square().mean()

    def _sinkhorn_loss(self, b: Batch, prototypes: Tensor, labels: Tensor) -> Tensor:
        """Log-loss of the plan between queries and class means, its columns as heavy as the classes have queries."""
        known = labels >= 0
        columns = (labels[..., None] == torch.arange(b.C, device=labels.device)).sum(1).to(b.q)
        cost = squared_distances(b.q, prototypes)
        plan = sinkhorn(cost, self.gamma, known.to(b.q), columns, iterations=self.final)
        # The plan's rows sum to 1 / N: log N makes it the conditional, and leaves the gradient as it is.
        log = plan.log + known.sum(1).to(b.q).log()[:, None, None]
        return -torch.gather(log, 2, labels.clamp_min(0)[..., None])[..., 0][known].mean()


def spread_of(s: Tensor, rows: Tensor) -> Tensor:
    """``(T,)`` root mean square distance of the points from their mean; 1 where they coincide."""
    share = (rows / rows.sum(1, keepdim=True))[..., None]
    spread = (share * (s - (share * s).sum(1, keepdim=True)).square()).sum((1, 2)).sqrt()
    return torch.where(spread > 0, spread, 1)


def row_logits(log_plan: Tensor) -> Tensor:
    """Sinkhorn conditionals: the plan's rows, scaled to one; padding rows are uniform."""
    empty = torch.isneginf(log_plan).all(2, keepdim=True)
    return torch.log_softmax(log_plan.masked_fill(empty, 0), 2)
