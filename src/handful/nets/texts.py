"""Classes as texts in the space of an encoder's images: prompts, their ensembles, and nets that read both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from handful import registry
from handful.errors import BadInput, nearest
from handful.nets.backbone import Backbone
from handful.nets.building import build
from handful.options import parse_spec, said

PROMPTS: dict[str, tuple[str, ...]] = {
    "bare": ("{}",),
    "photo": ("a photo of a {}.",),
    "ensemble": (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    ),
}
"""By name: one template, or several whose vectors are averaged. ``ensemble`` is the seven that CLIP's authors found by
forward selection on ImageNet and that Tip-Adapter and CoOp use there."""


__all__ = ["READERS", "class_vectors", "prompts_of", "reader", "said"]
READERS = ("lite2+minilm", "clip", "hf", "open_clip")
"""Nets that may have a text side; of the last two it depends on the model."""


def prompts_of(spec: str) -> tuple[str, ...]:
    """The templates of a name, or one that is given: a text with ``{}`` where the class's name goes."""
    if spec in PROMPTS:
        return PROMPTS[spec]
    if spec.count("{}") != 1 or spec.replace("{}", "").count("{") + spec.replace("{}", "").count("}"):
        raise BadInput(
            f"prompts cannot be {spec!r}; {nearest(spec, PROMPTS)}, or give a text with one {{}} for the class's name"
        )
    return (spec,)


def class_vectors(net: Backbone, names: Sequence[str], prompts: str = "photo", raw: bool = False) -> Tensor:
    """Unit (or ``raw``) vectors ``(classes, width)`` of classes by their names, each the ensemble of its prompts.

    A class is encoded apart from the others and its vector kept beside the net, so that none depends on its neighbours.
    """
    kept: dict[tuple[str, str, bool], Tensor] = net.__dict__.setdefault("_said", {})
    out = []
    for name in names:
        if (name, prompts, raw) not in kept:
            kept[name, prompts, raw] = net.named(name, prompts_of(prompts), raw)
        out.append(kept[name, prompts, raw])
    device = next(net.parameters()).device
    return torch.stack(out).to(device) if out else torch.zeros((0, net.width), device=device)


def reader(given: Any, shape: tuple[int, ...]) -> Backbone:
    """A net of images and texts: one that is built, a spec such as ``lite2+minilm``, or the folder (or hub name) of a CLIP."""
    if isinstance(given, Backbone):
        net = given
    else:
        text = str(given)
        name = text if Path(text).exists() else parse_spec(text)[0] if ":" in text else text
        known = name in registry.table("nets")
        net = build(text if known else f"clip:folder={text}", shape)
    if not net.says:
        net.texts([])
    return net
