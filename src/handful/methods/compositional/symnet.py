"""SymNet: attributes as transformations that obey the axioms of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.batch import Batch
from handful.methods.compositional.describe import SHOWN, descriptions
from handful.methods.compositional.lifted import join, sides
from handful.methods.compositional.per_task import (
    Noise,
    Params,
    PerTask,
    add_mlp,
    closed,
    cross_entropy,
    linear,
    mean_over,
    mlp,
    supports,
)

Transform = Callable[[Tensor, Tensor | None], Tensor]
"""Representations ``(T, S, N or 1, r)`` under every attribute along the third axis (None), or each image's own ``(T, S)``."""


@dataclass(frozen=True, kw_only=True)
class SymNet(PerTask):
    """SymNet (Li, Xu, Mao, Lu, "Symmetry and group in attribute-object compositions", CVPR 2020).

    An image's representation f is coupled with an attribute by T₊(f, a) and freed of it by T₋(f, a); both attend to f's
    channels by the attribute's description, f ⊙ (1 + σ(MLP(a))), join the description and map back. An image that has a
    is not moved by T₊(·, a) and is moved by T₋(·, a): attributes are read off the relative moving distance

        RMD(a) = |f - T₋(f, a)| - |f - T₊(f, a)|,   P(i, j | x) = softmax_i RMD · softmax_j object(f)

    With A the image's attribute and B any other, the losses are: symmetry |T₊A - f| + |T₋B - f|; axioms: closure
    |T₋A T₊A - T₋A| + |T₊B T₋B - T₊B|, invertibility |T₊A T₋A - f| + |T₋B T₊B - f|, commutativity
    |T₋B T₊A - T₊A T₋B|; triplets [|T₊A - f| - |T₋A - f| + m]₊ + [|T₋B - f| - |T₊B - f| + m]₊; attribute: cross-entropy of
    f, of T₋A (not A), of softmax(-|T₊ - f|) and of softmax(|T₋ - f|); object: cross-entropy of f, T₋A and T₊B. Symmetry is
    the identity element; composing maps is associative.

    Parameters
    ----------
    symmetry, axiom, triplet, first, second
        Weights 0.5, 0.01, 0.03, 1.0 and 0.1 (RLCL, Appendix F).
    rep, hidden, margin
        Length of f, units of the networks' hidden layers, the triplets' margin.
    public_code
        The slip of the public code's first release (DirtyHarryLYL/SymNet, 8e69ed3): a second decoupling in commutativity
        (T₋B T₊A against T₋A T₋B). From bd64366 on it couples there, as the paper and this do. All its distances are averaged
        over the images, in every release.

    Notes
    -----
    Where the public code draws one other attribute B an image, all others of the task are averaged. Without shown
    descriptions they are the support's prototypes of the first primitive.
    """

    rep: int = 300
    hidden: int = 512
    margin: float = 0.5
    symmetry: float = 0.5
    axiom: float = 0.01
    triplet: float = 0.03
    first: float = 1.0
    second: float = 0.1
    public_code: bool = False

    name: ClassVar[str] = "symnet"
    words: ClassVar[bool] = False

    @property
    def weights(self) -> int:
        return 512 * self.rep + self.hidden * (2 * 2 * 512 + 6 * self.rep)

    def context(self, b: Batch) -> Tensor:
        return descriptions(b, self.words)[0]

    def start(self, b: Batch, c: Tensor) -> Params:
        noise, params, n = Noise(b), {}, sides(b)  # type: ignore[var-annotated]
        noise.linear("embed", b.s.shape[-1], self.rep, params)
        for name in ("couple", "decouple"):
            add_mlp(noise, f"{name}.attend", c.shape[-1], self.hidden, self.rep, params)
            add_mlp(noise, f"{name}.out", self.rep + c.shape[-1], self.hidden, self.rep, params)
        add_mlp(noise, "attribute", self.rep, self.hidden, n[:, 0].tolist(), params)
        add_mlp(noise, "object", self.rep, self.hidden, n[:, 1].tolist(), params)
        return params

    def transforms(self, p: Params, c: Tensor) -> tuple[Transform, Transform]:
        """T₊ and T₋ under parameters, for the task's attributes."""

        def transform(name: str) -> Transform:
            # What depends on the attribute alone is computed once for all images.
            gain = 1 + torch.sigmoid(mlp(p, f"{name}.attend", c))[:, None]
            weight, bias = p[f"{name}.out.1.w"], p[f"{name}.out.1.b"]
            shift = torch.baddbmm(bias, c, weight[:, self.rep :])[:, None]
            inner = weight[:, : self.rep]

            def apply(f: Tensor, own: Tensor | None) -> Tensor:
                g, h = (gain, shift) if own is None else (own_row(gain, own), own_row(shift, own))
                x = f * g
                hidden = torch.bmm(x.flatten(1, 2), inner).view(*x.shape[:-1], -1) + h
                return linear(p, f"{name}.out.2", torch.relu(hidden))

            return apply

        return transform("couple"), transform("decouple")

    def losses(self, p: Params, b: Batch, c: Tensor) -> Tensor:
        own, objects, used = supports(b)
        n = sides(b)
        f = linear(p, "embed", b.s)
        moved = Moved.of(f, own, n[:, 0], used, *self.transforms(p, c))

        def of_attribute(x: Tensor) -> Tensor:
            return closed(mlp(p, "attribute", x), n[:, 0])

        def of_object(x: Tensor) -> Tensor:
            return closed(mlp(p, "object", x), n[:, 1])

        rid = F.softmax(of_attribute(moved.minus_own), -1)
        not_own = -torch.log((1 - torch.gather(rid, 2, own[..., None])[..., 0]).clamp_min(1e-8))
        attribute = (
            cross_entropy(of_attribute(f), own, used)
            + mean_over(not_own, used)
            + cross_entropy(closed(-moved.to_plus, n[:, 0]), own, used)
            + cross_entropy(closed(moved.to_minus, n[:, 0]), own, used)
        )
        added = of_object(moved.plus.flatten(1, 2))
        repeated = objects[..., None].expand(-1, -1, c.shape[1]).flatten(1)
        obj = (
            cross_entropy(of_object(f), objects, used)
            + cross_entropy(of_object(moved.minus_own), objects, used)
            + cross_entropy(added, repeated, moved.others.flatten(1))
        )
        distances = self.symmetry * moved.symmetry() + self.axiom * moved.axioms(self.public_code)
        return distances + self.triplet * moved.triplets(self.margin) + self.first * attribute + self.second * obj

    def scores(self, p: Params, b: Batch, c: Tensor) -> Tensor:
        n, f = sides(b), linear(p, "embed", b.q)
        plus, minus = self.transforms(p, c)
        here = f[:, :, None]
        rmd = distance(here, minus(here, None)) - distance(here, plus(here, None))
        return join(b, closed(rmd, n[:, 0]), closed(mlp(p, "object", f), n[:, 1]))


def distance(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vector_norm(a - b, dim=-1)


@dataclass(frozen=True, eq=False)
class Moved:
    """Support representations and where both transformations take them, for every attribute of the task.

    ``f`` ``(T, S, r)``; ``plus``, ``minus`` ``(T, S, N, r)``; ``to_plus``, ``to_minus`` the distances moved; ``others``
    which (image, attribute) are no padding and not the image's own attribute; ``used`` which images are no padding.
    """

    f: Tensor
    plus: Tensor
    minus: Tensor
    own: Tensor
    used: Tensor
    others: Tensor
    couple: Transform
    decouple: Transform

    @classmethod
    def of(cls, f: Tensor, own: Tensor, n: Tensor, used: Tensor, couple: Transform, decouple: Transform) -> Moved:
        here = f[:, :, None]
        plus, minus = couple(here, None), decouple(here, None)
        index = torch.arange(plus.shape[2], device=f.device)
        others = used[..., None] & (index != own[..., None]) & (index < n[:, None])[:, None, :]
        return cls(f, plus, minus, own, used, others, couple, decouple)

    def _own(self, x: Tensor) -> Tensor:
        """Of ``(T, S, N, r)``, the row of each image's own attribute."""
        return own_row(x, self.own)[:, :, 0]

    @property
    def minus_own(self) -> Tensor:
        return self._own(self.minus)

    @property
    def to_plus(self) -> Tensor:
        return distance(self.f[:, :, None], self.plus)

    @property
    def to_minus(self) -> Tensor:
        return distance(self.f[:, :, None], self.minus)

    def symmetry(self) -> Tensor:
        """Adding what is there and removing what is not change nothing."""
        kept = distance(self.f, self._own(self.plus))
        return mean_over(kept, self.used) + over(self.to_minus, self.others)

    def axioms(self, slip: bool = False) -> Tensor:
        """Closure, invertibility and commutativity."""
        here = self.f[:, :, None]
        plus_minus, minus_plus = self.decouple(self.plus, None), self.couple(self.minus, None)
        closure = mean_over(distance(self._own(plus_minus), self.minus_own), self.used)
        closure = closure + over(distance(minus_plus, self.plus), self.others)
        inverse = mean_over(distance(self._own(minus_plus), self.f), self.used)
        inverse = inverse + over(distance(plus_minus, here), self.others)
        one_way = self.decouple(self._own(self.plus)[:, :, None], None)
        other_way = (self.decouple if slip else self.couple)(self.minus, self.own)
        return closure + inverse + over(distance(one_way, other_way), self.others)

    def triplets(self, margin: float) -> Tensor:
        """The own attribute moves an image more when removed than when added; others the other way round."""
        here = distance(self.f, self._own(self.plus)) - distance(self.f, self.minus_own)
        return mean_over(torch.relu(here + margin), self.used) + over(
            torch.relu(self.to_minus - self.to_plus + margin), self.others
        )


def own_row(x: Tensor, own: Tensor) -> Tensor:
    """Of ``(T, S or 1, N, r)``, the row ``(T, S, 1, r)`` of each image's own attribute ``(T, S)``."""
    x = x.expand(-1, own.shape[1], -1, -1)
    return torch.gather(x, 2, own[..., None, None].expand(-1, -1, 1, x.shape[-1]))


def over(values: Tensor, others: Tensor) -> Tensor:
    """Each task's mean over the (image, other attribute) pairs."""
    weight = others.to(values.dtype)
    return (values * weight).flatten(1).sum(1) / weight.flatten(1).sum(1).clamp_min(1)


@dataclass(frozen=True, kw_only=True)
class SymNetWords(SymNet):
    """`SymNet` with side information: attributes are described by their word vectors, as published."""

    name: ClassVar[str] = "symnet-words"
    needs: ClassVar[frozenset[str]] = SHOWN
    words: ClassVar[bool] = True
