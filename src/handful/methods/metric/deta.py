"""DETA: task adaptation that trusts some support images, and some parts of them, more than others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.heads import cosine
from handful.methods.metric.tsa import SCALE, TSA, prototypes


def region_weights(z: Tensor, labels: Tensor, image: Tensor, temperature: float = 0.5) -> Tensor:
    """How much each region speaks for its class: λ = softmax(φ) / softmax(ψ), each softmax over the regions of one class.

    φ is a region's mean similarity to the regions of other images of its class, ψ that to the regions of other classes.
    """
    similar = cosine(z, z)
    same = labels[:, None] == labels[None, :]
    inside = same & (image[:, None] != image[None, :])
    phi = (similar * inside).sum(1) / inside.sum(1).clamp_min(1)
    psi = (similar * ~same).sum(1) / (~same).sum(1).clamp_min(1)
    blocked = torch.where(same, 0.0, float("-inf")).to(z)
    share = torch.exp((phi - psi) / temperature)
    for_class = torch.logsumexp(phi[None] / temperature + blocked, 1)
    against = torch.logsumexp(psi[None] / temperature + blocked, 1)
    return share * torch.exp(against - for_class)


def compactness(q: Tensor, labels: Tensor, weight: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss of the regions, every pair's similarity multiplied by the two regions' weights."""
    logits = q @ q.T / temperature
    logits = (logits - logits.amax(1, keepdim=True).detach()) * weight[:, None] * weight[None, :]
    itself = torch.eye(len(q), dtype=torch.bool, device=q.device)
    positive = (labels[:, None] == labels[None, :]) & ~itself
    log_p = logits - torch.logsumexp(logits.masked_fill(itself, float("-inf")), 1, keepdim=True)
    return -((log_p * positive).sum(1) / positive.sum(1).clamp_min(1)).mean()


@dataclass(frozen=True, kw_only=True)
class DETA(TSA):
    """TSA + DETA (Zhang, Gao, Luo, Shen, Song, "DETA: denoised task adaptation for few-shot learning", ICCV 2023).

    While TSA's adapters are fitted, every step after the first ``plain`` ones cuts random regions out of the support images and weighs each by how much
    more it resembles the rest of its class than the other classes (`region_weights`); an image's weight is the mean of its
    regions', smoothed over the steps. Weighed regions of a class are drawn together (contrastive, weight ``local``) and
    told apart by the weighed images' class means: L = ``local`` · L_compact + L_disperse. Queries are answered by the
    cosines to the weighed class means.

    Parameters
    ----------
    plain
        10 first steps are TSA's own, as in the public code: weights mean something once features fit the task a little.
    regions, side
        5 regions of each image at each step (the paper's main runs: 10), of a side drawn anew at each step from
        these shares of the image's: 84 or 128 of 224 pixels, as in the public code.
    rate
        0.1 for the adapters; the public code that could be read adapts whole backbones, at rates of its own.
    local, smoothing, region_temperature, contrast_temperature
        0.1, 0.7, 0.5 and 0.07, as in the public code.

    Notes
    -----
    Read in nobody-1617/DETA at a744319. Regions are enlarged to the image's size, so that one embedding serves both; all images of a step are cut at the same
    places, as in the public code. The contrastive loss is taken behind a two-layer head (512, 128) made anew for each task.
    """

    rate: float = 0.1
    plain: int = 10
    regions: int = 5
    side: tuple[float, ...] = (84 / 224, 128 / 224)
    local: float = 0.1
    smoothing: float = 0.7
    region_temperature: float = 0.5
    contrast_temperature: float = 0.07

    name: ClassVar[str] = "tsa+deta"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regions < 1 or not self.side or not all(0 < s <= 1 for s in self.side) or not 0 <= self.smoothing < 1:
            raise BadInput("tsa+deta needs at least one region, sides in (0, 1] and a smoothing in [0, 1)")
        if self.plain < 0:
            raise BadInput(f"tsa+deta cannot begin with {self.plain} plain steps; give plain of at least 0")

    def cut(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Regions ``(n · k, c, h, w)`` of images, and the image each is from."""
        height, width = x.shape[-2:]
        side = self.side[int(torch.randint(len(self.side), (1,), generator=generator))]
        h, w = max(1, round(side * height)), max(1, round(side * width))
        found = []
        for _ in range(self.regions):
            top = int(torch.randint(height - h + 1, (1,), generator=generator))
            left = int(torch.randint(width - w + 1, (1,), generator=generator))
            found.append(x[..., top : top + h, left : left + w])
        regions = F.interpolate(torch.cat(found), size=(height, width), mode="bilinear", align_corners=False)
        return regions, torch.arange(len(x), device=x.device).repeat(self.regions)

    def adapt(self, net: nn.Module, beta: Tensor, x: Tensor, y: Tensor, ways: int, seed: int) -> Tensor | None:
        generator = torch.Generator().manual_seed(seed)
        width: Any = net.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            project = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, 128)).to(x.device)
        optimiser = self.optimiser(net, beta, project)
        trust: Tensor | None = None
        for step in range(self.steps):
            optimiser.zero_grad()
            if step < self.plain:
                self.plain_loss(net, beta, x, y, ways).backward()
                optimiser.step()
                continue
            regions, image = self.cut(x, generator)
            labels = y[image]
            z = net(regions) @ beta.T
            with torch.no_grad():
                weight = region_weights(z, labels, image, self.region_temperature)
                now = torch.zeros(len(x), device=x.device).index_add_(0, image, weight) / self.regions
                trust = now if trust is None else self.smoothing * trust + (1 - self.smoothing) * now
            means = prototypes(net(x) @ beta.T, y, ways, trust)
            disperse = F.cross_entropy(weight[:, None] * SCALE * cosine(z, means), labels)
            q = F.normalize(project(z), dim=1)
            loss = disperse + self.local * compactness(q, labels, weight, self.contrast_temperature)
            loss.backward()
            optimiser.step()
        return trust
