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
    the training classes' descriptions (b_r = a_r), and the v_r minimise a convex loss + lambda / 2 sum_c |w_c|^2. The
    weights S of the training classes can be inverted, so the well-conditioned problem in W = S V is solved once for every
    sigma, and V = pinv(S) W.

    Parameters
    ----------
    loss
        ``one-versus-other``: every class against all images, sum_c mean_n max(0, 1 - I(y_n = c) w_c' x_n)^2, I = +-1.
        ``crammer-singer``: mean_n max(0, max_{c != y_n} 1 + w_c' x_n - w_{y_n}' x_n). ``structured``: the same with
        |a_c - a_{y_n}| for the 1, so that unlike classes must be told apart by more.
    sigma, lambda_
        Chosen on validation classes; sigma is a multiple of the mean distance between training descriptions.
    steps
        Most steps of L-BFGS; the problem is convex.
    """

    loss: Literal["one-versus-other", "crammer-singer", "structured"] = "one-versus-other"
    sigma: float = 0.5
    lambda_: float = 1e-3
    steps: int = 200

    name: ClassVar[str] = "sync"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"sigma": (0.25, 0.5, 1.0), "lambda_": (1e-5, 1e-4, 1e-3, 1e-2)}

    def learn(self, data: Training) -> State:
        s = data.s.double()
        width = self.sigma * torch.pdist(s).mean() if data.n_classes > 1 else torch.ones((), dtype=s.dtype)
        near = weights(s, s, width)
        u, size, vh = torch.linalg.svd(near)
        kept = size > 1e-12 * size[0]
        # All of W can be reached, whatever sigma, unless descriptions are equal: then only the span of the weights.
        basis = None if bool(kept.all()) else u[:, kept]
        key = ("sync", self.loss, self.lambda_, self.steps)
        if basis is not None or key not in data.memo:
            w = self.classifiers(data, basis)
            if basis is None:
                data.memo[key] = w
        else:
            w = data.memo[key]
        v = vh[kept].T @ ((u[:, kept].T @ w) / size[kept, None])
        return {"V": v, "B": s, "width": width.reshape(1)}

    def classifiers(self, data: Training, basis: Tensor | None = None) -> Tensor:
        """The training classes' W of the least loss + lambda / 2 |W|^2, in the span of ``basis`` if one is given.

        L-BFGS runs on Z with W = Z A^-1/2 and A = 2 X'X / n + lambda I, the curvature of the squared hinge where every
        image counts: in these coordinates correlated features and a small lambda cost no steps.
        """
        x = data.x.double()
        power, axes = torch.linalg.eigh(x.T @ x * (2 / len(x)))
        shrink = axes / (power.clamp_min(0) + self.lambda_).sqrt()
        x_white = x @ shrink
        rows = data.n_classes if basis is None else basis.shape[1]
        z = torch.zeros(rows, x.shape[1], dtype=x.dtype, device=x.device, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [z], max_iter=self.steps, max_eval=4 * self.steps, tolerance_change=1e-12, history_size=20,
            line_search_fn="strong_wolfe",
        )  # fmt: skip
        signs = 2 * F.one_hot(data.y, data.n_classes).to(x.dtype) - 1
        s = data.s.double()
        apart = torch.cdist(s, s) if self.loss == "structured" else torch.ones(len(s), len(s), dtype=x.dtype).to(x)
        size = 1 / (power.clamp_min(0) + self.lambda_)

        def closure() -> Tensor:
            optimiser.zero_grad()
            full = z if basis is None else basis @ z
            if self.loss == "one-versus-other":
                loss = one_versus_other(full, x_white, signs)
            else:
                loss = crammer_singer(full, x_white, data.y, apart)
            loss = loss + self.lambda_ / 2 * (z.square() * size).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        if self.steps:
            optimiser.step(closure)  # type: ignore[no-untyped-call, arg-type]
        found = z.detach() @ shrink.T
        return found if basis is None else basis @ found

    def prepare(self, state: State, candidates: Candidates) -> Tensor:
        # In double precision: where sigma is large the V are large too, and most of them cancels.
        near = weights(candidates.s.double(), state["B"].double(), state["width"].double())
        return (near @ state["V"].double()).to(candidates.s.dtype)

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
