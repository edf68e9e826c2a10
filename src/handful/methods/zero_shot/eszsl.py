"""ESZSL: a closed-form bilinear map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training


@dataclass(frozen=True, kw_only=True)
class ESZSL(ZeroShotMethod):
    """ESZSL (Romera-Paredes, Torr, "An embarrassingly simple approach to zero-shot learning", ICML 2015).

    A bilinear score x' V s between features and descriptions, regularised on both sides so that the best V is one
    matrix equation:  V = (X'X + gamma I)^-1 X' Y S (S'S + lambda I)^-1.

    Parameters
    ----------
    gamma, lambda_
        Regularisers of features and descriptions, chosen on validation classes from powers of ten (the paper's search).
    targets
        ``binary``: Y is 1 at the class and 0 elsewhere, as in the common evaluations; ``signs``: -1 elsewhere, as the
        paper writes it, which loses much with many classes.
    by
        ``samples`` (the paper), or ``means``: X is one mean a class and Y the identity, as in the public code of the
        generic-object benchmark, with gamma = lambda = 100 there.
    """

    gamma: float = 1.0
    lambda_: float = 1.0
    targets: Literal["binary", "signs"] = "binary"
    by: Literal["samples", "means"] = "samples"

    name: ClassVar[str] = "eszsl"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "gamma": (1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3),
        "lambda_": (1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3),
    }

    def learn(self, data: Training) -> State:
        key = ("eszsl", self.targets, self.by)
        if key not in data.memo:
            data.memo[key] = Solved.of(data.x, data.y, data.s, self.targets, self.by)
        return {"V": data.memo[key].at(self.gamma, self.lambda_)}

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        return x @ state["V"] @ prepared.s.T


@dataclass(frozen=True, eq=False)
class Solved:
    """The equation in the eigenvectors of both sides, where every (gamma, lambda) is two divisions.

    In double precision: the two inverses can be badly conditioned.
    """

    left: tuple[Tensor, Tensor]
    right: tuple[Tensor, Tensor]
    middle: Tensor

    @classmethod
    def of(cls, x: Tensor, y: Tensor, s: Tensor, targets: str = "binary", by: str = "samples") -> Solved:
        x, s = x.double(), s.double()
        hot = F.one_hot(y, len(s)).double()
        if by == "means":
            x = (hot.T @ x) / hot.sum(0)[:, None]
            hot = torch.eye(len(s), dtype=torch.float64, device=s.device)
        moment = x.T @ hot
        if targets == "signs":
            moment = 2 * moment - x.sum(0)[:, None]
        left, right = torch.linalg.eigh(x.T @ x), torch.linalg.eigh(s.T @ s)
        return cls(tuple(left), tuple(right), left[1].T @ moment @ s @ right[1])

    def at(self, gamma: float, lambda_: float) -> Tensor:
        """V for these regularisers."""
        # Eigenvalues of a Gram matrix are not negative; rounding can make them so.
        a, b = self.left[0].clamp_min(0) + gamma, self.right[0].clamp_min(0) + lambda_
        return (self.left[1] @ (self.middle / a[:, None] / b) @ self.right[1].T).float()
