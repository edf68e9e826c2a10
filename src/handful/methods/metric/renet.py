"""RENet: relational embedding by self- and cross-correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.layers.imagetasks import Images, OnImages
from handful.methods.layers.masks import asked

WINDOW = 5
PAIRS = 512


class SelfCorrelation(nn.Module):
    """What surrounds every place of a map: products with a 5x5 neighbourhood, channel by channel, read by convolutions."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 3, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 3, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
        )
        self.outer = nn.Sequential(nn.Conv2d(hidden, width, 1, bias=False), nn.BatchNorm2d(width))

    def neighbourhoods(self, x: Tensor) -> Tensor:
        """``(n, places, c, 5, 5)`` products of every place's unit vector with those around it (zero beyond the edge)."""
        n, c, h, w = x.shape
        unit = F.normalize(F.relu(x), dim=1)
        around = F.unfold(unit, WINDOW, padding=WINDOW // 2).view(n, c, WINDOW, WINDOW, h * w)
        return (around * unit.view(n, c, 1, 1, h * w)).permute(0, 4, 1, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        read = self.inner(self.neighbourhoods(x).flatten(0, 1))[..., 0, 0]
        return self.outer(read.view(n, h * w, -1).transpose(1, 2).reshape(n, -1, h, w))


class Separable4d(nn.Module):
    """A convolution over pairs of places: first over one map's two axes, then over the other's."""

    def __init__(self, c_in: int, c_out: int):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(c_in, c_in, 3, padding=1, bias=False), nn.BatchNorm2d(c_in)
        self.second, self.norm2 = nn.Conv2d(c_in, c_in, 3, padding=1, bias=False), nn.BatchNorm2d(c_in)
        self.project, self.norm3 = nn.Conv2d(c_in, c_out, 1, bias=False), nn.BatchNorm2d(c_out)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, a, b, d, e)``, (a, b) of one map and (d, e) of the other."""
        n, c, a, b, d, e = x.shape
        x = x.permute(0, 4, 5, 1, 2, 3).reshape(-1, c, a, b)
        x = F.relu(self.norm1(self.first(x))).view(n, d, e, c, a, b)
        x = x.permute(0, 4, 5, 3, 1, 2).reshape(-1, c, d, e)
        x = self.norm3(self.project(self.norm2(self.second(x))))
        return x.view(n, a, b, -1, d, e).permute(0, 3, 1, 2, 4, 5)


class CrossCorrelation(nn.Module):
    """Cosines of all pairs of places of two maps, cleaned by 4-d convolutions in both readings."""

    def __init__(self, width: int, hidden: int, channels: int = 16):
        super().__init__()
        self.reduce = nn.Sequential(nn.Conv2d(width, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU())
        self.layers = nn.Sequential(Separable4d(1, channels), nn.ReLU(), Separable4d(channels, 1))

    def forward(self, pairs: Tensor) -> Tensor:
        """``(n, h, w, h', w')`` cosines to the same, refined."""
        x = pairs[:, None]
        swapped = self.layers(x.permute(0, 1, 4, 5, 2, 3)).permute(0, 1, 4, 5, 2, 3)
        return (self.layers(x) + swapped)[:, 0]


def standard(x: Tensor, dim: int) -> Tensor:
    """Zero mean and unit variance along an axis."""
    variance = x.var(dim, keepdim=True, correction=1 if x.shape[dim] > 1 else 0)
    return (x - x.mean(dim, keepdim=True)) / (variance + 1e-5).sqrt()


@dataclass(frozen=True, kw_only=True)
class RENet(OnImages):
    """RENet (Kang, Kwon, Min, Cho, "Relational embedding for few-shot classification", ICCV 2021).

    Self-correlation adds to each map how its places relate to their surroundings. For every pair of a support image and a
    query, the cosines of all their places are refined by 4-d convolutions; each map is averaged with the weights that
    the other gives its places (a softmax over places), and the logit is the cosine of the two averages, meaned over a
    class's shots. Trained by λ times this loss plus a linear classifier over the training classes on the queries.

    Parameters
    ----------
    temperature, attention
        0.2 for the logits and 5 for the attention, the paper's for miniImageNet (2 for CUB).
    balance
        λ = 0.25 on the metric loss, as published.
    hidden
        64 channels inside both modules, as published.

    Notes
    -----
    dahyun-kang/renet at 43a4e5a also classifies a second batch of images that are in no task and clips gradients at 2; the
    paper's loss, followed here, has one classifier, on the queries. As there, what self-correlation is added to is the map
    without its negative values (a ReLU in place; ResNet-12's maps have some).
    """

    temperature: float = 0.2
    attention: float = 5.0
    balance: float = 0.25
    hidden: int = 64

    name: ClassVar[str] = "renet"
    over_classes: ClassVar[bool] = True
    maps: ClassVar[bool] = True
    together: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.attention <= 0:
            raise BadInput("renet needs temperature and attention above 0")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.map_shape[0]  # type: ignore[index, assignment]
        return {
            "around": SelfCorrelation(width, self.hidden),
            "cross": CrossCorrelation(width, self.hidden),
            "classifier": nn.Linear(width, n_classes),
        }

    def encoded(self, m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor]:
        """Maps of support and queries with self-correlation added, less their mean over channels; padding stays zero.

        In training batch norm takes its statistics over support and queries together.
        """
        masks = b.s_mask, asked(b)
        real = F.relu(torch.cat([b.s[masks[0]], b.q[masks[1]]]))
        real = F.relu(real + m["around"](real))
        real = real - real.mean(1, keepdim=True)
        s, q = torch.zeros_like(b.s), torch.zeros_like(b.q)
        s[masks[0]], q[masks[1]] = real.split([int(here.sum()) for here in masks])
        return s, q

    def compared(self, m: nn.ModuleDict, b: Batch, s: Tensor, q: Tensor) -> Tensor:
        """Logits from encoded maps."""
        cross: CrossCorrelation = m["cross"]  # type: ignore[assignment]
        real = asked(b)[:, :, None] & (b.y >= 0)[:, None, :]
        at = real.nonzero()
        s_small, q_small = _reduced(cross, s, b.s_mask), _reduced(cross, q, asked(b))
        found = []
        # Batch norm takes its statistics over all pairs of a step; otherwise a few pairs at a time spare memory.
        for some in at.split(max(1, len(at)) if cross.training else PAIRS):
            task, query, support = some.unbind(1)
            pairs = cross(torch.einsum("ncij,nckl->nijkl", s_small[task, support], q_small[task, query]))
            n, h, w = pairs.shape[:3]
            flat = pairs.reshape(n, h * w, h * w)
            on_support = torch.softmax(standard(flat, 1) / self.attention, 1).sum(2).view(n, 1, h, w)
            on_query = torch.softmax(standard(flat, 2) / self.attention, 2).sum(1).view(n, 1, h, w)
            weighed = (on_support * s[task, support]).mean((2, 3)), (on_query * q[task, query]).mean((2, 3))
            found.append(torch.stack(weighed))
        one, two = s.new_zeros(2, *real.shape, s.shape[2]).index_put(
            (torch.arange(2, device=s.device)[:, None], *(i[None] for i in at.unbind(1))), torch.cat(found, 1)
        )
        hot = b.one_hot / b.one_hot.sum(1, keepdim=True).clamp_min(1)
        mean = lambda x: torch.einsum("tqsd,tsc->tqcd", x, hot)  # noqa: E731
        return b.close(F.cosine_similarity(mean(one), mean(two), -1) / self.temperature)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return self.compared(m, b, *self.encoded(m, b))

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        b = images.batch(self.embed(m, images.x))
        s, q = self.encoded(m, b)
        logits = self.compared(m, b, s, q)
        metric = F.cross_entropy(logits.flatten(0, 1), images.labels.flatten(), ignore_index=-2)
        named = m["classifier"](q[asked(b)].mean((2, 3)))
        return self.balance * metric + F.cross_entropy(named, images.classes[images.queries()])


def _reduced(cross: CrossCorrelation, x: Tensor, here: Tensor) -> Tensor:
    """Unit vectors of fewer channels at every place of the maps that exist."""
    small = F.normalize(cross.reduce(x[here]), dim=1, eps=1e-8)
    out = small.new_zeros(*x.shape[:2], *small.shape[1:])
    out[here] = small
    return out
