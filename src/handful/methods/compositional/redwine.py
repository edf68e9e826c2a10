"""RedWine: classifiers of pairs composed from classifiers of primitives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.compositional.lifted import sides
from handful.methods.compositional.per_task import Noise, Params, PerTask, linear, mean_over, supports


@dataclass(frozen=True, kw_only=True)
class RedWine(PerTask):
    """RedWine (Misra, Gupta, Hebert, "From red wine to red tomato: composition with context", CVPR 2017).

    One-against-all linear classifiers of the primitives are learned first. A network T of three layers (LeakyReLU 0.1)
    turns two of their weight vectors into the classifier of the pair, s(i, j | x) = T([w_i, w_j]) · x, trained by the
    logistic loss on the seen pairs; unseen pairs are composed the same way.

    Parameters
    ----------
    hidden
        Units of T's first hidden layer, the second has half; 0 is three times the features' width, as published.
    margin_decay
        L2 penalty of the primitive classifiers (squared hinge, the linear SVM of the paper by gradient steps).

    Notes
    -----
    Negatives of the logistic loss are the other seen pairs only: an unseen pair is never taught to be absent.
    """

    hidden: int = 0
    margin_decay: float = 1e-3

    name: ClassVar[str] = "redwine"

    @property
    def weights(self) -> int:
        return (2 * 512 + 512) * (self.hidden or 3 * 512) + (self.hidden or 3 * 512) ** 2 // 2

    def start(self, b: Batch, c: Any) -> Params:
        noise, params, n = Noise(b), {}, sides(b)  # type: ignore[var-annotated]
        width = b.s.shape[-1]
        hidden = self.hidden or 3 * width
        for axis in range(2):
            noise.linear(f"axis{axis}", width, n[:, axis].tolist(), params)
        for name, n_in, n_out in (("t1", 2 * width, hidden), ("t2", hidden, hidden // 2), ("t3", hidden // 2, width)):
            noise.linear(name, n_in, n_out, params)
        return params

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        params = self.start(b, None)
        primitives = {k: v for k, v in params.items() if k.startswith("axis")}
        primitives = self.descend(primitives, lambda p: self.hinge(p, b))
        rest = {k: v for k, v in params.items() if not k.startswith("axis")}
        rest = self.descend(rest, lambda p: self.losses(p | primitives, b, None))
        return self.scores(rest | primitives, b, None)

    def hinge(self, p: Params, b: Batch) -> Tensor:
        """One-against-all squared hinge of both axes."""
        first, second, used = supports(b)
        n, total = sides(b), torch.zeros(len(b.n), device=b.s.device, dtype=b.s.dtype)
        for axis, labels in enumerate((first, second)):
            margin = linear(p, f"axis{axis}", b.s)
            classes = torch.arange(margin.shape[-1], device=margin.device)
            sign = torch.where(labels[..., None] == classes, 1.0, -1.0)
            loss = torch.relu(1 - sign * margin).square() * (classes < n[:, axis, None])[:, None, :]
            weight = p[f"axis{axis}.w"]
            total = total + mean_over(loss.sum(-1), used) + self.margin_decay * weight.square().flatten(1).sum(1)
        return total

    def compose(self, p: Params, b: Batch) -> Tensor:
        """Classifier of every pair ``(T, C, width)``."""
        pair = torch.arange(b.C, device=b.n.device)
        n2 = sides(b)[:, 1:]
        own = []
        for axis, index in enumerate((pair // n2, pair % n2)):
            weight = p[f"axis{axis}.w"].transpose(1, 2)
            index = index.clamp_max(weight.shape[1] - 1)[..., None].expand(-1, -1, weight.shape[2])
            own.append(torch.gather(weight, 1, index))
        x = torch.cat(own, -1)
        for name in ("t1", "t2"):
            x = F.leaky_relu(linear(p, name, x), 0.1)
        return linear(p, "t3", x)

    def losses(self, p: Params, b: Batch, c: Any) -> Tensor:
        hot = b.one_hot
        seen = hot.amax(1, keepdim=True)
        logits = b.s @ self.compose(p, b).transpose(1, 2)
        each = F.binary_cross_entropy_with_logits(logits, hot, reduction="none") * seen
        return mean_over(each.sum(-1) / seen.sum(-1).clamp_min(1), b.y >= 0)

    def scores(self, p: Params, b: Batch, c: Any) -> Tensor:
        return b.close(F.logsigmoid(b.q @ self.compose(p, b).transpose(1, 2)))
