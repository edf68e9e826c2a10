"""CovaMNet: classes as covariances of local descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.layers.local import by_class, descriptors
from handful.methods.layers.slices import in_slices


class Weigher(nn.Module):
    """One learned weight a place: leaky ReLU, dropout, weighted sum."""

    def __init__(self, places: int, dropout: float):
        super().__init__()
        bound = places**-0.5
        self.weight = nn.Parameter(torch.empty(places).uniform_(-bound, bound).abs())
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(F.leaky_relu(x, 0.2)) @ self.weight


@dataclass(frozen=True, kw_only=True)
class CovaMNet(Embedded):
    """CovaMNet (Li, Xu, Huo, Wang, Gao, Luo, "Distribution consistency based covariance metric networks for few-shot learning", AAAI 2019).

    A class is the covariance Σ_c of the local descriptors of its support, Σ_c = 1/(n-1) Σ_i (x_i - τ)(x_i - τ)ᵀ with n =
    shots · places; each place of a query is measured by xᵀ Σ_c x, which is large along the class's main directions, and a
    learned weight a place turns the measures into the logit.

    Parameters
    ----------
    query
        ``centred`` takes the query's own mean from its descriptors (the published code); ``unit`` divides each channel by its
        norm over places (the code's later reading).
    dropout
        0.5 on the measures, as in the public code.

    Notes
    -----
    The weights start positive, so that an untrained learner already prefers the class whose directions agree; the public
    code draws them around zero. A map of one place has no centred descriptors: use images that leave a larger map.
    """

    query: Literal["centred", "unit"] = "centred"
    dropout: float = 0.5

    name: ClassVar[str] = "covamnet"
    maps: ClassVar[bool] = True

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        _, height, width = backbone.map_shape  # type: ignore[misc]
        return {"weigher": Weigher(height * width, self.dropout)}  # type: ignore[operator]

    def measures(self, b: Batch) -> Tensor:
        """xᵀ Σ_c x at every place: ``(T, Q, C, places)``."""
        shown, mask = by_class(b, b.s)
        x = descriptors(shown)
        own = mask[..., None, None].to(x.dtype)
        n = (mask.sum(-1) * x.shape[-2]).clamp_min(1).to(x.dtype)[..., None, None]
        centred = ((x - (x * own).sum((2, 3), keepdim=True) / n[..., None]) * own).flatten(2, 3)
        q = descriptors(b.q)
        q = F.normalize(q, dim=-2) if self.query == "unit" else q - q.mean(-2, keepdim=True)
        flat = q.flatten(1, 2)
        degrees = (n - 1).clamp_min(1)
        if centred.shape[-2] < centred.shape[-1]:  # xᵀ Σ x = |X x|² / (n - 1): the fewer descriptors, the cheaper
            values = (flat[:, None] @ centred.transpose(-1, -2)).square().sum(-1) / degrees[..., 0]
        else:
            covariance = centred.transpose(-1, -2) @ centred / degrees
            values = torch.einsum("tcnd,tnd->tcn", flat[:, None] @ covariance, flat)
        return values.unflatten(-1, q.shape[1:3]).transpose(1, 2)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        numbers = b.C * b.q[0].numel()
        return in_slices(lambda part: part.close(m["weigher"](self.measures(part))), b, numbers)
