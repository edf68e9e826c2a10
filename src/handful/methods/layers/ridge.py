"""Ridge regression in closed form, for many tasks at once."""

from __future__ import annotations

import torch
from torch import Tensor


def ridge(x: Tensor, y: Tensor, penalty: Tensor | float) -> Tensor:
    """Weights ``(..., d, c)`` that minimise |x w - y|² + penalty |w|².

    Parameters
    ----------
    x, y
        ``(..., n, d)`` inputs and ``(..., n, c)`` targets; rows of zeros in both are as if they were not there.
    penalty
        A number above 0, or one for each leading index.

    Notes
    -----
    The smaller of the two systems is solved: (xᵀx + λI) w = xᵀy, or w = xᵀ (xxᵀ + λI)⁻¹ y by Woodbury's identity.
    """
    n, d = x.shape[-2:]
    weight = torch.as_tensor(penalty, dtype=x.dtype, device=x.device)
    weight = weight.reshape(*weight.shape, 1, 1)
    xt = x.transpose(-1, -2)
    if n < d:
        return xt @ torch.linalg.solve(x @ xt + weight * torch.eye(n, dtype=x.dtype, device=x.device), y)
    return torch.linalg.solve(xt @ x + weight * torch.eye(d, dtype=x.dtype, device=x.device), xt @ y)
