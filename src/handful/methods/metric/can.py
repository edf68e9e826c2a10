"""CAN: cross attention network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import PADDING, Batch
from handful.methods.layers.graph import MaskedNorm
from handful.methods.layers.imagetasks import Images, OnImages
from handful.methods.layers.local import descriptors
from handful.methods.layers.masks import asked


class Fusion(nn.Module):
    """Attention over the places of one map from its correlations with another: a kernel made from their mean weighs them."""

    def __init__(self, places: int, ratio: int, temperature: float):
        super().__init__()
        hidden = max(1, places // ratio)
        self.down, self.norm, self.up = nn.Linear(places, hidden), MaskedNorm(hidden), nn.Linear(hidden, places)
        self.temperature = temperature

    def forward(self, correlation: Tensor, real: Tensor) -> Tensor:
        """``(..., m, m')`` correlations of each place with the other map's places to attention ``(..., m)`` that sums to 1.

        Batch norm sees the pairs of maps that are ``real`` alone.
        """
        kernel = self.up(F.relu(self.norm(self.down(correlation.mean(-2)), real)))
        return torch.softmax((correlation * kernel[..., None, :]).mean(-1) / self.temperature, -1)


@dataclass(frozen=True, kw_only=True)
class CAN(OnImages):
    """CAN (Hou, Chang, Ma, Shan, Chen, "Cross attention network for few-shot classification", NeurIPS 2019), inductive.

    For each pair of a class map P and a query map Q, the cosine of every place of one with every place of the other is fused
    into an attention A (softmax over places, a learned kernel) and each map is weighed by 1 + A; the logit is ``scale`` times
    the cosine of the weighed maps' averages. Trained on the places of the query, each classified by the weighed class
    averages (weight ``balance``), plus a linear classifier of every place over all training classes.

    Parameters
    ----------
    scale, temperature, ratio
        7, 0.025 and 6, as published.
    balance
        λ = 0.5 of the nearest-neighbour loss against 1 for the global loss, as published.

    Notes
    -----
    The kernel is made from the mean over the map's own places of its correlations, a vector over the other map's places,
    as the paper's global average pooling. `TransductiveCAN` is the paper's other form.
    """

    scale: float = 7.0
    temperature: float = 0.025
    ratio: int = 6
    balance: float = 0.5

    name: ClassVar[str] = "can"
    over_classes: ClassVar[bool] = True
    maps: ClassVar[bool] = True
    together: ClassVar[int] = 4

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.ratio < 1:
            raise BadInput("can needs a temperature above 0 and a ratio of at least 1")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width, h, w = backbone.map_shape  # type: ignore[misc]
        return {
            "fusion": Fusion(h * w, self.ratio, self.temperature),  # type: ignore[operator]
            "classifier": nn.Linear(width, n_classes),  # type: ignore[arg-type]
        }

    def attended(self, m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor]:
        """Class and query descriptors ``(T, Q, C, places, width)``, each weighed by what the other shows."""
        p, q = descriptors(b.prototypes()), descriptors(b.q)
        correlation = torch.einsum("tcid,tqjd->tqcij", F.normalize(p, dim=-1), F.normalize(q, dim=-1))
        fusion, real = m["fusion"], asked(b)[..., None] & ~b.absent[:, None]
        p = p[:, None] * (1 + fusion(correlation, real))[..., None]
        q = q[:, :, None] * (1 + fusion(correlation.transpose(-1, -2), real))[..., None]
        return p, q

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        p, q = self.attended(m, b)
        return b.close(self.scale * F.cosine_similarity(p.mean(-2), q.mean(-2), -1))

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        b = images.batch(self.embed(m, images.x))
        p, q = self.attended(m, b)
        near = self.scale * F.cosine_similarity(p.mean(-2, keepdim=True), q, -1)
        near = near.masked_fill(b.absent[:, None, :, None], -1e4).transpose(-1, -2)
        places = near.shape[-2]
        labels = images.labels[..., None].expand(-1, -1, places)
        local = F.cross_entropy(near.flatten(0, 2), labels.flatten(), ignore_index=-2)
        own = images.labels.clamp_min(0)[:, :, None, None, None].expand(-1, -1, 1, *q.shape[3:])
        mine = torch.gather(q, 2, own)[:, :, 0][asked(b)]
        every = images.classes[images.queries()][:, None].expand(-1, places)
        world = F.cross_entropy(m["classifier"](mine).flatten(0, 1), every.flatten())
        return self.balance * local + world


@dataclass(frozen=True, kw_only=True)
class TransductiveCAN(CAN):
    """Transductive CAN (Hou et al., NeurIPS 2019, "CAN+T"): `CAN` whose class maps take in the queries it is surest of.

    Trained as CAN. A task is answered in rounds: the queries with the highest scores join the support under the class they
    were given, ``share`` of all queries in the first round, twice as many in the second, and all queries are asked again.

    Parameters
    ----------
    share
        35 of 75 queries, as published; there are as many rounds as whole shares.

    Notes
    -----
    The rounds are those of blue-blue272/fewshot-CAN at 6055985; tasks of so few queries that a share is none take one.
    """

    share: float = 35 / 75

    name: ClassVar[str] = "can+t"
    transductive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise BadInput(f"can+t needs a share above 0 and at most 1, not {self.share}")

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        scores, here = super().head(m, b), asked(b)
        n = here.sum(1)
        some = (n * self.share + 1e-6).long().clamp_min(1)
        rounds = n // some
        for i in range(int(rounds.max())):
            sure, named = scores.max(-1)
            order = torch.argsort(sure.masked_fill(~here, float("-inf")), dim=1, descending=True, stable=True)
            chosen = (order.argsort(1) < (some * (i + 1))[:, None]) & here
            y = torch.cat([b.y, named.masked_fill(~chosen, PADDING)], 1)
            again = super().head(m, replace(b, s=torch.cat([b.s, b.q], 1), y=y))
            scores = torch.where((i < rounds)[:, None, None], again, scores)
        return scores
