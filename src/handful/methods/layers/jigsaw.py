"""Jigsaw puzzles: a 3x3 grid of patches in one of a fixed set of orders."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

PIECES = 9
LUMA = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in grey (ITU-R BT.601)."""


@cache
def orders(n: int = 35) -> tuple[tuple[int, ...], ...]:
    """n permutations of nine, far from one another: each next one has the largest mean Hamming distance to those chosen.

    Noroozi & Favaro, "Unsupervised learning of visual representations by solving jigsaw puzzles", ECCV 2016, Algorithm 1,
    started from the order as it is.
    """
    every = np.array(list(permutations(range(PIECES))), dtype=np.int8)
    chosen = [0]
    distance = np.zeros(len(every))
    for _ in range(n - 1):
        distance += (every != every[chosen[-1]]).sum(1)
        distance[chosen] = -np.inf
        chosen.append(int(distance.argmax()))
    return tuple(tuple(int(p) for p in every[i]) for i in chosen)


def puzzles(x: Tensor, generator: torch.Generator, smallest: int = 16, n_orders: int = 35) -> tuple[Tensor, Tensor]:
    """Shuffled patches ``(n, 9, c, p, p)`` of images, and the number of each image's order.

    Every cell of the grid gives a patch of three quarters of its side from a random place, so that edges cannot be matched;
    patches smaller than ``smallest`` pixels are enlarged to it. Three images of ten are turned grey, and each channel of
    each patch has mean 0 and deviation 1, so that brightness and colour do not give the place away.

    Read in cvl-umass/fsl_ssl at f800228. Its shift of each channel by -2 to 1 of 255 is left out: the mean takes it away
    again, whatever it is.
    """
    n, channels, h, w = x.shape
    if channels == 3:
        grey = (x * x.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)
        x = torch.where((torch.rand(n, generator=generator) < 0.3).to(x.device).view(n, 1, 1, 1), grey, x)
    cell = min(h, w) // 3
    side = max(1, cell * 3 // 4)
    lots = torch.rand(2, n, PIECES, generator=generator)
    jitter = (lots * (cell - side + 1)).long()
    corner = torch.arange(PIECES)
    top = (corner // 3 * (h // 3) + jitter[0]).to(x.device)
    left = (corner % 3 * (w // 3) + jitter[1]).to(x.device)
    step = torch.arange(side, device=x.device)
    rows = (top[..., None] + step)[..., :, None]
    columns = (left[..., None] + step)[..., None, :]
    pieces = x.permute(0, 2, 3, 1)[torch.arange(n, device=x.device)[:, None, None, None], rows, columns]
    pieces = pieces.permute(0, 1, 4, 2, 3)
    spread, mean = torch.std_mean(pieces, (3, 4), keepdim=True, correction=0)
    pieces = (pieces - mean) / torch.where(spread > 1e-6, spread, 1)
    labels = torch.randint(n_orders, (n,), generator=generator)
    order = torch.tensor(orders(n_orders))[labels].to(x.device)
    pieces = pieces[torch.arange(n, device=x.device)[:, None], order]
    if side < smallest:
        pieces = F.interpolate(pieces.flatten(0, 1), size=(smallest, smallest), mode="bilinear", align_corners=False)
        pieces = pieces.unflatten(0, (n, PIECES))
    return pieces, labels.to(x.device)
