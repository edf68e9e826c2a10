"""SYNC: classifiers synthesised from those of phantom classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.zero_shot.base import Candidates, State, Training, ZeroShotMethod


@dataclass(frozen=True, kw_only=True)
class SYNC(ZeroShotMethod):
    """SYNC, one-versus-other (Changpinyo et al., "Synthesized classifiers for zero-shot learning", CVPR 2016).

    A class's linear classifier is a weighted sum of base classifiers, w_c = sum_r s_cr v_r, with weights from how near
    its description is to those of R phantom classes, s_cr = softmax_r(-|a_c - b_r|^2 / sigma^2). The phantoms are put on
    the training classes' descriptions (b_r = a_r), and the v_r minimise the squared hinge loss of every class against
    all images,  sum_c mean_n max(0, 1 - I(y_n = c) w_c' x_n)^2 + lambda / 2 sum_c |w_c|^2  with I = +-1.

    Parameters
    ----------
    sigma, lambda_
        Chosen on validation classes; sigma is a multiple of the mean distance between training descriptions.
    steps
        Of L-BFGS; the problem is convex.
    """

    sigma: float = 0.5
    lambda_: float = 1e-3
    steps: int = 60

    name: ClassVar[str] = "sync"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"sigma": (0.25, 0.5, 1.0), "lambda_": (1e-5, 1e-4, 1e-3, 1e-2)}

    def learn(self, data: Training) -> State:
        width = self.sigma * torch.pdist(data.s).mean() if data.n_classes > 1 else torch.ones(())
        near = weights(data.s, data.s, width)
        signs = 2 * F.one_hot(data.y, data.n_classes).to(data.x.dtype) - 1
        v = torch.zeros(data.n_classes, data.x.shape[1], device=data.x.device, requires_grad=True)
        optimiser = torch.optim.LBFGS([v], max_iter=self.steps, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimiser.zero_grad()
            loss = one_versus_other(near @ v, data.x, signs, self.lambda_)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimiser.step(closure)  # type: ignore[no-untyped-call, arg-type]
        return {"V": v.detach(), "B": data.s, "width": width.reshape(1)}

    def prepare(self, state: State, candidates: Candidates) -> Tensor:
        return weights(candidates.s, state["B"], state["width"]) @ state["V"]

    def score(self, state: State, prepared: Tensor, x: Tensor) -> Tensor:
        return x @ prepared.T


def weights(a: Tensor, b: Tensor, width: Tensor) -> Tensor:
    """s_cr: how much of each phantom class goes into each class."""
    return torch.softmax(-torch.cdist(a, b).square() / width.square(), dim=1)


def one_versus_other(w: Tensor, x: Tensor, signs: Tensor, lambda_: float) -> Tensor:
    """Squared hinge of every class against all images, and the size of the synthesised classifiers."""
    return (1 - signs * (x @ w.T)).clamp_min(0).square().mean(0).sum() + lambda_ / 2 * w.square().sum()
