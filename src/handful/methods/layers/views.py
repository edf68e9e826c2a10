"""Random views of normalised images, for contrastive losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def random_view(x: Tensor, smallest: float = 0.4, contrast: float = 0.4) -> Tensor:
    """One random view of each image ``(n, c, h, w)``: resized crop, mirror image, contrast and brightness.

    Chance comes from torch's current random state, which training seeds at every step.

    Parameters
    ----------
    smallest
        Least area of the crop as a share of the image's.
    contrast
        The image's deviations from its mean are scaled by 1 ± contrast, the mean shifted by up to that many deviations.
    """
    n = len(x)

    def lot(low: float, high: float) -> Tensor:
        return (low + (high - low) * torch.rand(n)).to(x)

    side = lot(smallest, 1.0).sqrt()
    mirror = torch.where(torch.rand(n).to(x) < 0.5, -1.0, 1.0)
    free = 1 - side
    theta = torch.zeros(n, 2, 3, dtype=x.dtype, device=x.device)
    theta[:, 0, 0], theta[:, 1, 1] = side * mirror, side
    theta[:, 0, 2], theta[:, 1, 2] = free * lot(-1, 1), free * lot(-1, 1)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    x = F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    mean = x.mean((1, 2, 3), keepdim=True)
    spread = x.std((1, 2, 3), keepdim=True)
    scale, shift = (lot(1 - contrast, 1 + contrast), lot(-contrast, contrast))
    return mean + (x - mean) * scale.view(n, 1, 1, 1) + spread * shift.view(n, 1, 1, 1)
