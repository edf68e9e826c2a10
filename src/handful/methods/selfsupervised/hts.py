"""HTS: a tree of an image, its turns and their permuted colours, aggregated by gates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import squared_distances
from handful.methods.layers.masks import asked
from handful.methods.layers.rotation import TURNS
from handful.methods.layers.turned import Turned


class TreeGates(nn.Module):
    """Child-sum Tree-LSTM over a tree whose levels are full (Tai, Socher, Manning, ACL 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.from_node = nn.Linear(width, 3 * width)
        self.from_children = nn.Linear(width, 3 * width, bias=False)
        self.forget_node = nn.Linear(width, width)
        self.forget_child = nn.Linear(width, width, bias=False)

    def forward(self, *levels: Tensor) -> list[Tensor]:
        """Root ``(..., d)``, its children ``(..., k, d)``, their children ``(..., k, l, d)`` and so on, to what each becomes."""
        i, o, u = self.from_node(levels[-1]).chunk(3, -1)
        cell = torch.sigmoid(i) * torch.tanh(u)
        below = torch.sigmoid(o) * torch.tanh(cell)
        out = [below]
        for node in levels[-2::-1]:
            i, o, u = (self.from_node(node) + self.from_children(below.sum(-2))).chunk(3, -1)
            kept = torch.sigmoid(self.forget_node(node)[..., None, :] + self.forget_child(below))
            cell = torch.sigmoid(i) * torch.tanh(u) + (kept * cell).sum(-2)
            below = torch.sigmoid(o) * torch.tanh(cell)
            out.append(below)
        return out[::-1]


@dataclass(frozen=True, kw_only=True)
class HTS(Embedded):
    """HTS (Zhang, Huang, Li, Wang, "Tree structure-aware few-shot image classification via hierarchical aggregation", ECCV 2022), on ProtoNet.

    Every image is the root of a tree whose children are its quarter turns, and theirs, if asked for, are permutations of
    their colours. A gated unit carries the children's features upwards, h = o ⊙ tanh(i ⊙ u + Σ_k f_k ⊙ c_k), each child let
    through by a gate f_k of its own, and ProtoNet works on the roots. Each level is trained to name its turn or its
    permutation: L_proto + β Σ_level L_level.

    Parameters
    ----------
    turns
        Quarter turns of the first level; all four by default (the public code has sets of 1 to 4 and defaults to the first).
    colours
        Orders of the colour channels of the second level, such as ``rgb,gbr,brg``; none by default, which is a tree of one
        level. The public code's sets are gbr; gbr,brg; rgb,gbr,brg; and all six.
    weight
        β = 0.1, the public code's default.

    Notes
    -----
    The tree is built at test time too, as published, so a task costs four passes of the backbone, times those of the colours.
    In a tree of two levels the public code (remiMZ/HTS-ECCV22 at 8fd62bb) numbers the grandchildren by the root alone, which
    hangs an image's first permuted turns below other images; here, as in the paper, each turn has its own.
    """

    turns: tuple[int, ...] = (0, 1, 2, 3)
    colours: tuple[Literal["rgb", "rbg", "grb", "gbr", "brg", "bgr"], ...] = field(default=(), metadata={"later": True})
    weight: float = 0.1

    name: ClassVar[str] = "hts"

    def __post_init__(self) -> None:
        if len(set(self.turns)) < 2 or not set(self.turns) <= set(range(TURNS)):
            raise BadInput(f"hts needs at least two different turns out of 0, 1, 2, 3, not {self.turns}")
        if len(set(self.colours)) != len(self.colours):
            raise BadInput(f"hts names a permutation of colours twice: {', '.join(self.colours)}")

    @property
    def seen(self) -> tuple[str, ...]:
        """Orders of the channels that the backbone sees: the image's own first."""
        return ("rgb", *(c for c in self.colours if c != "rgb"))

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        if self.colours and shape[2] != 3:
            raise Mismatch(f"hts permutes three colour channels, and these images have {shape[2]}; leave colours empty")
        m = super().modules(shape, n_classes)
        m["backbone"] = Turned(m["backbone"], tuple(tuple("rgb".index(c) for c in order) for order in self.seen))
        return m

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        colour = {"colour": nn.Linear(width, len(self.colours))} if self.colours else {}
        return {"gates": TreeGates(width), "turn": nn.Linear(width, len(self.turns)), **colour}

    def trees(self, m: nn.ModuleDict, x: Tensor) -> list[Tensor]:
        """Roots ``(T, N, d)``, turns ``(T, N, k, d)`` and permutations ``(T, N, k, l, d)`` after aggregation."""
        x = x.unflatten(-1, (len(self.seen), TURNS, -1)).transpose(-3, -2)
        turned = x[..., list(self.turns), :, :]
        levels = [x[..., 0, 0, :], turned[..., 0, :]]
        if self.colours:
            levels.append(turned[..., [self.seen.index(c) for c in self.colours], :])
        return m["gates"](*levels)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(-squared_distances(self.trees(m, b.q)[0], b.prototypes(self.trees(m, b.s)[0])))

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        (s, *s_below), (q, *q_below) = self.trees(m, b.s), self.trees(m, b.q)
        logits = b.close(-squared_distances(q, b.prototypes(s)))
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-2)
        for name, of_support, of_query in zip(("turn", "colour"), s_below, q_below, strict=False):
            nodes = torch.cat([of_support[b.s_mask], of_query[asked(b)]])
            which = torch.arange(nodes.shape[-2], device=labels.device).expand(nodes.shape[:-1])
            loss = loss + self.weight * F.cross_entropy(m[name](nodes).flatten(0, -2), which.flatten())
        return loss
