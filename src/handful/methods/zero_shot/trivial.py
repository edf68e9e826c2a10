"""The trivial solution: every class is its nearest training class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from handful.data import bfs
from handful.errors import BadInput
from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training
from handful.methods.zero_shot.eszsl import Solved


@dataclass(frozen=True, kw_only=True)
class Trivial(ZeroShotMethod):
    """The trivial solution (Hascoet et al., "On zero-shot recognition of generic objects", CVPR 2019, Appendix E).

    Classes are described locally: a training class by its own place in a one-hot vector, a test class by that of the
    nearest training class in the hierarchy plus a little noise, y_c = y_f(c) + e, and a linear baseline (ESZSL) scores.
    What it reaches, a benchmark gives away without any composition of features.

    Parameters
    ----------
    noise
        Deviation of e, which only has to break ties; the paper does not give it.
    ties
        ``first`` of several nearest training classes (Eq. 9b), or the ``average`` of their descriptions.
    gamma, lambda_
        Of the linear baseline; with one-hot descriptions lambda only scales the scores.
    """

    noise: float = 1e-3
    ties: Literal["first", "average"] = "first"
    gamma: float = 1.0
    lambda_: float = 1.0

    name: ClassVar[str] = "trivial"
    needs_graph: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"gamma": (1e-2, 1e-1, 1e0, 1e1)}

    def learn(self, data: Training) -> State:
        local = torch.eye(data.n_classes, device=data.x.device)
        if "trivial" not in data.memo:
            data.memo["trivial"] = Solved.of(data.x, data.y, local)
        return {"V": data.memo["trivial"].at(self.gamma, self.lambda_)}

    def prepare(self, state: State, candidates: Candidates) -> Tensor:
        assert candidates.places is not None
        local = self.local(state, candidates.places)
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.randn(local.shape, generator=generator) * self.noise
        return local + torch.where(candidates.seen[:, None], 0.0, noise.to(local.device))

    def local(self, state: State, places: Tensor) -> Tensor:
        """Descriptions (candidates, training classes) by the nearest training class."""
        child, parent = state["child"].cpu().numpy(), state["parent"].cpu().numpy()
        n = len(state["nodes"])
        ptr, idx = bfs.csr(n, np.concatenate([child, parent]), np.concatenate([parent, child]))
        train = state["seen_places"].cpu().numpy()
        targets = places.cpu().numpy()
        dist = bfs.levels(ptr, idx, train)
        if (dist[targets] == bfs.UNREACHED).any():
            raise BadInput("a candidate has no path to any training class; the trivial solution cannot place it")
        owner, source = bfs.all_nearest(ptr, idx, dist, targets)
        order = np.argsort(train)
        column = order[np.searchsorted(train[order], source)]
        out = np.zeros((len(targets), len(train)), dtype=np.float32)
        if self.ties == "average":
            out[owner, column] = 1.0
            out /= out.sum(axis=1, keepdims=True)
        else:
            by = np.lexsort((column, owner))
            first = np.unique(owner[by], return_index=True)[1]
            out[owner[by][first], column[by][first]] = 1.0
        return torch.as_tensor(out, device=places.device)

    def score(self, state: State, prepared: Tensor, x: Tensor) -> Tensor:
        return x @ state["V"] @ prepared.T
