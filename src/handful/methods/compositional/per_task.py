"""Methods that train modules of their own on each task's support, above a backbone trained once and then fixed.

All tasks of a batch train together: parameters carry a leading task axis, the loss is a sum over tasks and Adam works
element by element, so each task's training is what it would be alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.compositional.lifted import Pairwise, axis_labels, counts_of, sides
from handful.methods.embedded import Embedded
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage

Params = dict[str, Tensor]
_SCHEDULE = Schedule(steps=2000, batch=64, weight_decay=5e-4, augment=("crop", "flip", "jitter"))


@dataclass(frozen=True, kw_only=True)
class PerTask(Pairwise, Embedded):
    """Base of the compositional zero-shot methods as RLCL extends them to few shots (section 3.1, Appendix F).

    The backbone learns from all training images with one linear classifier an axis (cross-entropy + cross-entropy; the
    paper does not say by what loss) and is then fixed; modules of the method are trained anew on each support.

    Parameters
    ----------
    iterations, rate, weight_decay
        Training on a task: 100 iterations over the whole support, Adam 1e-3, L2 5e-4 (RLCL, Appendix E).
    """

    schedule: Schedule = field(default=_SCHEDULE)
    iterations: int = 100
    rate: float = 1e-3
    weight_decay: float = 5e-4

    tunes: ClassVar[bool] = True

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule)]

    @property
    def together(self) -> int:  # type: ignore[override]
        """Tasks trained at once: many small ones, few large ones."""
        return max(1, min(64, (1 << 22) // max(1, self.weights)))

    @property
    def weights(self) -> int:
        """About how many parameters a task has, features taken to be 512 long."""
        raise NotImplementedError

    def extras(self, backbone: nn.Module, n_classes: Any) -> dict[str, nn.Module]:
        return {f"axis{i}": nn.Linear(backbone.width, n) for i, n in enumerate(counts_of(n_classes))}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        features = m["backbone"](x).float()
        return F.cross_entropy(m["axis0"](features), labels[:, 0]) + F.cross_entropy(m["axis1"](features), labels[:, 1])

    def context(self, b: Batch) -> Any:
        """What stays the same while a task is trained (a graph, descriptions)."""
        return None

    def start(self, b: Batch, c: Any) -> Params:
        """Initial parameters, one of each a task."""
        raise NotImplementedError

    def losses(self, p: Params, b: Batch, c: Any) -> Tensor:
        """Training loss of each task on its support ``(T,)``."""
        raise NotImplementedError

    def scores(self, p: Params, b: Batch, c: Any) -> Tensor:
        """Query logits ``(T, Q, C)`` under trained parameters."""
        raise NotImplementedError

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        c = self.context(b)
        params = self.descend(self.start(b, c), lambda p: self.losses(p, b, c))
        return self.scores(params, b, c)

    def descend(self, params: Params, losses: Callable[[Params], Tensor]) -> Params:
        """Adam from ``params`` on the sum of the tasks' losses."""
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {k: v.clone().requires_grad_() for k, v in params.items()}
            optimiser = torch.optim.Adam(list(leaves.values()), self.rate, weight_decay=self.weight_decay)
            for _ in range(self.iterations):
                optimiser.zero_grad(set_to_none=True)
                losses(leaves).sum().backward()
                optimiser.step()
        return {k: v.detach() for k, v in leaves.items()}


class Noise:
    """Initial weights, drawn from each task's own seed: alone or in company, a task starts from the same ones."""

    def __init__(self, b: Batch):
        self.like = b.s
        self.generators = [torch.Generator().manual_seed(int(seed)) for seed in b.seeds]

    def linear(self, name: str, n_in: int, n_out: int | Sequence[int], params: Params) -> None:
        """Add weight ``(T, n_in, n_out)`` and bias ``(T, 1, n_out)``, uniform within ±1/√n_in; short outputs are zeros."""
        outs = [n_out] * len(self.generators) if isinstance(n_out, int) else list(n_out)
        weight = torch.zeros(len(outs), n_in, max(outs))
        bias = torch.zeros(len(outs), 1, max(outs))
        bound = n_in**-0.5
        for t, (n, generator) in enumerate(zip(outs, self.generators, strict=True)):
            both = (2 * torch.rand(n_in + 1, n, generator=generator) - 1) * bound
            weight[t, :, :n], bias[t, :, :n] = both[:-1], both[-1:]
        params[f"{name}.w"], params[f"{name}.b"] = weight.to(self.like), bias.to(self.like)


def linear(p: Params, name: str, x: Tensor) -> Tensor:
    """Each task's own linear layer on ``(T, ..., n_in)``."""
    shape = x.shape
    out = torch.baddbmm(p[f"{name}.b"], x.reshape(shape[0], -1, shape[-1]), p[f"{name}.w"])
    return out.reshape(*shape[:-1], -1)


def mlp(p: Params, name: str, x: Tensor) -> Tensor:
    """Two layers with a ReLU in between."""
    return linear(p, f"{name}.2", torch.relu(linear(p, f"{name}.1", x)))


def add_mlp(noise: Noise, name: str, n_in: int, hidden: int, n_out: int | Sequence[int], params: Params) -> None:
    noise.linear(f"{name}.1", n_in, hidden, params)
    noise.linear(f"{name}.2", hidden, n_out, params)


def supports(b: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Support labels of each axis (0 at padding) and which images count, ``(T, S)``."""
    first, second = axis_labels(b.y, sides(b)[:, 1:])
    return first.clamp_min(0), second.clamp_min(0), b.y >= 0


def mean_over(values: Tensor, used: Tensor) -> Tensor:
    """Each task's mean ``(T,)`` of values ``(T, S, ...)`` over its images, and over what follows them."""
    used = used.to(values.dtype).reshape(*used.shape, *([1] * (values.ndim - used.ndim))).expand_as(values)
    return (values * used).flatten(1).sum(1) / used.flatten(1).sum(1).clamp_min(1)


def closed(logits: Tensor, n: Tensor) -> Tensor:
    """Logits ``(T, S, N)`` with a large negative number at primitives that a task does not have."""
    missing = torch.arange(logits.shape[-1], device=n.device) >= n[:, None]
    return logits.masked_fill(missing[:, None, :], -1e9)


def cross_entropy(logits: Tensor, labels: Tensor, used: Tensor) -> Tensor:
    """Mean cross-entropy of each task ``(T,)``."""
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
    return mean_over(losses, used)
