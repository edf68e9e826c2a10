"""CoOp and CoCoOp: the words around a class's name, learned as vectors through the text tower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import Mismatch
from handful.methods.adapters.base import Adapter, descend, sharpness, unit
from handful.methods.batch import Batch
from handful.nets.clip import Clip, Said
from handful.nets.given import Net


@dataclass(frozen=True, kw_only=True)
class CoOp(Adapter):
    """CoOp (Zhou, Yang, Loy, Liu, "Learning to prompt for vision-language models", IJCV 2022).

    The text of a class is "v_1 ... v_M NAME.", the v_m vectors in the place of words, shared by all classes and learned by
    cross-entropy through the frozen text tower.

    Parameters
    ----------
    net
        A CLIP with its text tower, ``clip:folder=PATH``.
    context
        M, 16 as published.
    start
        Words to start from ("a photo of a"), which then say how many; by default normal noise of deviation 0.02.
    steps, rate
        Steps of SGD (momentum 0.9, decay 0.0005) over the whole support, the first at 1e-5, then falling by a cosine; 50 and 0.002 as
        published for one shot (the paper takes more epochs for more shots, in batches of 32).

    Notes
    -----
    Prompts, logits and learned vectors are those of KaiyangZhou/CoOp at ff61507 (class token at the end, shared context) on features
    that stand still.
    """

    net: Net = "clip"
    context: int = 16
    start: str = ""
    steps: int = 50
    rate: float = 0.002

    name: ClassVar[str] = "coop"
    together: ClassVar[int] = 8
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"context": (4, 16), "steps": (50, 100, 200)}

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        if not isinstance(backbone, Clip):
            raise Mismatch(f"{self.name} learns through CLIP's own text tower; give net=clip:folder=PATH")
        return {}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        out = b.q.new_full((len(b.q), b.q.shape[1], b.C), float("-inf"))
        for i in range(len(b.q)):
            known = b.y[i] >= 0
            found = self.one(m, b, i, unit(b.s[i][known]), b.y[i][known], unit(b.q[i]))
            out[i, :, : found.shape[1]] = found
        return out

    def said(self, m: nn.ModuleDict, b: Batch, i: int) -> tuple[Said, Tensor]:
        """The prompts of a task's classes as tokens with room for the context, and where the context starts."""
        clip: Any = m["backbone"]
        assert b.texts is not None and b.texts[i] is not None
        names = b.texts[i][0]  # type: ignore[index]
        if self.start:
            told = clip.tokens([self.start]).embedded[0]
            count = int(clip.tokens([self.start]).end[0]) - 1
            return clip.tokens([f"{self.start} {name}." for name in names]), told[1 : 1 + count]
        generator = torch.Generator().manual_seed(int(b.seeds[i]))
        said = clip.tokens([f"{' '.join(['X'] * self.context)} {name}." for name in names])
        return said, (0.02 * torch.randn(self.context, said.embedded.shape[-1], generator=generator)).to(b.s)

    def one(self, m: nn.ModuleDict, b: Batch, i: int, s: Tensor, y: Tensor, q: Tensor) -> Tensor:
        clip: Any = m["backbone"]
        said, start = self.said(m, b, i)

        def logits(x: Tensor, context: Tensor) -> Tensor:
            return sharpness(m) * x @ unit(clip.read(said, filled(said, context))).T

        def loss(v: Tensor) -> Tensor:
            return F.cross_entropy(taught(logits(s, v), y), y)

        (context,) = descend([start], loss, self.sgd, self.steps, warm=1e-5)
        return logits(q, context)

    def sgd(self, values: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(values, lr=self.rate, momentum=0.9, weight_decay=5e-4)


@dataclass(frozen=True, kw_only=True)
class CoCoOp(CoOp):
    """CoCoOp (Zhou, Yang, Loy, Liu, "Conditional prompt learning for vision-language models", CVPR 2022).

    As CoOp, and each image moves the context by a vector of its own: v_m + h(x), h a bottleneck of a sixteenth of the width. Every
    image has its own texts of all classes, so a task costs as many passes of the text tower as it has images, in each step.

    Notes
    -----
    The public code (KaiyangZhou/CoOp at ff61507) starts at "a photo of a" and makes ten epochs in batches of one, as ``steps`` counts
    epochs here.
    """

    context: int = 4
    start: str = "a photo of a"
    steps: int = 10

    name: ClassVar[str] = "cocoop"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"steps": (3, 10)}

    def one(self, m: nn.ModuleDict, b: Batch, i: int, s: Tensor, y: Tensor, q: Tensor) -> Tensor:
        clip: Any = m["backbone"]
        said, start = self.said(m, b, i)
        generator = torch.Generator().manual_seed(int(b.seeds[i]) ^ 0x5EED)
        order = torch.cat([torch.randperm(len(s), generator=generator) for _ in range(self.steps)])
        place = iter(order.tolist())

        def answer(x: Tensor, context: Tensor, *net: Tensor) -> Tensor:
            moved = context + moving(x, *net)
            return sharpness(m) * unit(clip.read(said, filled(said, moved))) @ x

        def loss(*values: Tensor) -> Tensor:
            at = next(place)
            return F.cross_entropy(taught(answer(s[at], *values)[None], y), y[at][None])

        starts = [start, *bottleneck(s.shape[1], start.shape[1], generator, s)]
        found = descend(starts, loss, self.sgd, len(order), warm=1e-5, epoch=len(s))
        return torch.stack([answer(x, *found) for x in q])


def taught(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits among the classes that the support has."""
    has = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    has[labels] = True
    return logits.masked_fill(~has, float("-inf"))


def filled(said: Said, context: Tensor) -> Tensor:
    """Embedded prompts with the context in the place of the words behind the start token."""
    room = context.expand(len(said.embedded), -1, -1)
    return torch.cat([said.embedded[:, :1], room, said.embedded[:, 1 + context.shape[0] :]], 1)


def bottleneck(wide: int, out: int, generator: torch.Generator, like: Tensor) -> list[Tensor]:
    """Two linear layers over a sixteenth of the width, started as torch starts them."""
    inner = max(1, wide // 16)
    return [
        ((2 * torch.rand(shape, generator=generator) - 1) * fan**-0.5).to(like)
        for shape, fan in (((inner, wide), wide), ((inner,), wide), ((out, inner), inner), ((out,), inner))
    ]


def moving(x: Tensor, first: Tensor, a: Tensor, second: Tensor, c: Tensor) -> Tensor:
    """What an image adds to each vector of the context."""
    return F.linear(F.linear(x, first, a).relu(), second, c)
