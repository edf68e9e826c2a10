"""HTS: a tree of an image and its turns, aggregated by gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import squared_distances
from handful.methods.layers.masks import asked
from handful.methods.layers.rotation import TURNS
from handful.methods.layers.turned import Turned


class TreeGates(nn.Module):
    """Child-sum Tree-LSTM over a root and its leaves (Tai, Socher, Manning, ACL 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.from_node = nn.Linear(width, 3 * width)
        self.from_children = nn.Linear(width, 3 * width, bias=False)
        self.forget_node = nn.Linear(width, width)
        self.forget_child = nn.Linear(width, width, bias=False)

    def forward(self, root: Tensor, leaves: Tensor) -> tuple[Tensor, Tensor]:
        """Root ``(..., d)`` and leaves ``(..., k, d)`` to what each becomes."""
        i, o, u = self.from_node(leaves).chunk(3, -1)
        cell = torch.sigmoid(i) * torch.tanh(u)
        below = torch.sigmoid(o) * torch.tanh(cell)
        i, o, u = (self.from_node(root) + self.from_children(below.sum(-2))).chunk(3, -1)
        kept = torch.sigmoid(self.forget_node(root)[..., None, :] + self.forget_child(below))
        top = torch.sigmoid(i) * torch.tanh(u) + (kept * cell).sum(-2)
        return torch.sigmoid(o) * torch.tanh(top), below


@dataclass(frozen=True, kw_only=True)
class HTS(Embedded):
    """HTS (Zhang, Huang, Li, Wang, "Tree structure-aware few-shot image classification via hierarchical aggregation", ECCV 2022), on ProtoNet.

    Every image is the root of a tree whose leaves are its quarter turns. A gated unit carries the leaves' features to the
    root, h = o ⊙ tanh(i ⊙ u + Σ_k f_k ⊙ c_k), each turn let through by a gate f_k of its own, and ProtoNet works on the
    roots. The leaves are trained to name their turn: L_proto + β L_turn.

    Parameters
    ----------
    turns
        Quarter turns of the leaves; all four by default (the public code has sets of 1 to 4 and defaults to the first).
    weight
        β = 0.1, the public code's default.

    Notes
    -----
    One level of pretext task; the paper's deeper trees, which add permuted colours under the turns, are not here. The tree
    is built at test time too, as published, so a task costs four passes of the backbone.
    """

    turns: tuple[int, ...] = (0, 1, 2, 3)
    weight: float = 0.1

    name: ClassVar[str] = "hts"

    def __post_init__(self) -> None:
        if len(set(self.turns)) < 2 or not set(self.turns) <= set(range(TURNS)):
            raise BadInput(f"hts needs at least two different turns out of 0, 1, 2, 3, not {self.turns}")

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        m = super().modules(shape, n_classes)
        m["backbone"] = Turned(m["backbone"])
        return m

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        return {"gates": TreeGates(width), "turn": nn.Linear(width, len(self.turns))}

    def trees(self, m: nn.ModuleDict, x: Tensor) -> tuple[Tensor, Tensor]:
        """Roots ``(T, N, d)`` and leaves ``(T, N, k, d)`` after aggregation."""
        x = x.unflatten(-1, (TURNS, -1))
        return m["gates"](x[..., 0, :], x[..., list(self.turns), :])

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(-squared_distances(self.trees(m, b.q)[0], b.prototypes(self.trees(m, b.s)[0])))

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        (s, s_leaves), (q, q_leaves) = self.trees(m, b.s), self.trees(m, b.q)
        logits = b.close(-squared_distances(q, b.prototypes(s)))
        named = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-2)
        leaves = torch.cat([s_leaves[b.s_mask], q_leaves[asked(b)]])
        turns = torch.arange(len(self.turns), device=labels.device).expand(len(leaves), -1)
        return named + self.weight * F.cross_entropy(m["turn"](leaves).flatten(0, 1), turns.flatten())
