"""Is an image of a class never seen? The two outlier detectors of CMT, on images mapped into the descriptions' space."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.errors import BadInput

BLOCK = 2048


def radii(mapped: Tensor, y: Tensor, s: Tensor, inside: float) -> Tensor:
    """Per seen class, the distance from its description within which a share ``inside`` of its images lie.

    An isotropic Gaussian around the description falls with this distance alone, so that its threshold T_y on the
    likelihood is a radius.
    """
    if not 0 < inside <= 1:
        raise BadInput(f"inside is a share of the training images, above 0 and at most 1, not {inside}")
    away = (mapped - s[y]).norm(dim=1)
    return torch.stack([torch.quantile(away[y == c], inside) for c in range(len(s))])


def outside(mapped: Tensor, s: Tensor, radius: Tensor) -> Tensor:
    """One for images beyond the radius of every seen class, else zero."""
    return (torch.cdist(mapped, s) > radius).all(1).to(mapped.dtype)


def _set_distance(points: Tensor, known: Tensor, k: int, own: bool) -> tuple[Tensor, Tensor]:
    """Root mean square distance to the k nearest known points, and which these are; a point is not its own neighbour."""
    distance, place = [], []
    for start in range(0, len(points), BLOCK):
        apart = torch.cdist(points[start : start + BLOCK], known)
        if own:
            apart[torch.arange(len(apart)), torch.arange(start, start + len(apart))] = float("inf")
        near = apart.topk(min(k, len(known) - own), dim=1, largest=False)
        distance.append(near.values.square().mean(1).sqrt())
        place.append(near.indices)
    return torch.cat(distance), torch.cat(place)


def loop_fit(known: Tensor, k: int, spread: float) -> tuple[Tensor, Tensor]:
    """Set distances of the training images and the normaliser Z = sqrt(2) * spread * sqrt(E lof^2) of LoOP."""
    if len(known) < 2:
        raise BadInput(f"the outlier probability needs two training images or more, found {len(known)}")
    distance, place = _set_distance(known, known, k, own=True)
    factor = distance / distance[place].mean(1).clamp_min(1e-12) - 1
    return distance, (2**0.5 * spread * factor.square().mean().sqrt()).clamp_min(1e-12).reshape(1)


def loop(points: Tensor, known: Tensor, distance: Tensor, scale: Tensor, k: int) -> Tensor:
    """LoOP (Kriegel et al., "LoOP: local outlier probabilities", CIKM 2009): max(0, erf(lof / Z)) of each point.

    CMT's paper prints Z without the root of two that LoOP and the authors' code (mganjoo/zslearning, ff09101) have.
    """
    own, place = _set_distance(points, known, k, own=False)
    factor = own / distance[place].mean(1).clamp_min(1e-12) - 1
    return torch.erf(factor / scale).clamp_min(0)
