"""SYNC: classifiers synthesised from those of phantom classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training


@dataclass(frozen=True, kw_only=True)
class SYNC(ZeroShotMethod):
    """SYNC (Changpinyo et al., "Synthesized classifiers for zero-shot learning", CVPR 2016).

    A class's linear classifier is a weighted sum of base classifiers, w_c = sum_r s_cr v_r, with weights from how near
    its description is to those of R phantom classes, s_cr = softmax_r(-|a_c - b_r|^2 / sigma^2). The phantoms are put on
    the training classes' descriptions (b_r = a_r), and the v_r minimise a convex loss + lambda / 2 sum_c |w_c|^2.

    Parameters
    ----------
    loss
        ``one-versus-other``: every class against all images, sum_c mean_n max(0, 1 - I(y_n = c) w_c' x_n)^2, I = +-1.
        ``crammer-singer``: mean_n max(0, max_{c != y_n} 1 + w_c' x_n - w_{y_n}' x_n). ``structured``: the same with
        |a_c - a_{y_n}| for the 1, so that unlike classes must be told apart by more.
    sigma, lambda_
        Chosen on validation classes; sigma is a multiple of the mean distance between training descriptions.
    steps
        Of L-BFGS; the problem is convex.
    """

    loss: Literal["one-versus-other", "crammer-singer", "structured"] = "one-versus-other"
    sigma: float = 0.5
    lambda_: float = 1e-3
    steps: int = 60

    name: ClassVar[str] = "sync"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"sigma": (0.25, 0.5, 1.0), "lambda_": (1e-5, 1e-4, 1e-3, 1e-2)}

    def learn(self, data: Training) -> State:
        width = self.sigma * torch.pdist(data.s).mean() if data.n_classes > 1 else torch.ones(())
        near = weights(data.s, data.s, width)
        v = torch.zeros(data.n_classes, data.x.shape[1], device=data.x.device, requires_grad=True)
        optimiser = torch.optim.LBFGS([v], max_iter=self.steps, line_search_fn="strong_wolfe")
        signs = 2 * F.one_hot(data.y, data.n_classes).to(data.x.dtype) - 1
        apart = torch.cdist(data.s, data.s) if self.loss == "structured" else torch.ones_like(near)

        def closure() -> Tensor:
            optimiser.zero_grad()
            w = near @ v
            if self.loss == "one-versus-other":
                loss = one_versus_other(w, data.x, signs)
            else:
                loss = crammer_singer(w, data.x, data.y, apart)
            loss = loss + self.lambda_ / 2 * w.square().sum()
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


def one_versus_other(w: Tensor, x: Tensor, signs: Tensor) -> Tensor:
    """Squared hinge of every class against all images."""
    return (1 - signs * (x @ w.T)).clamp_min(0).square().mean(0).sum()


def crammer_singer(w: Tensor, x: Tensor, y: Tensor, apart: Tensor) -> Tensor:
    """Hinge of the most troublesome wrong class, which should score less than the right one by ``apart[y, c]``."""
    scores = x @ w.T
    rivals = (scores + apart[y]).scatter(1, y[:, None], float("-inf"))
    return (rivals.amax(1) - scores.gather(1, y[:, None])[:, 0]).clamp_min(0).mean()
