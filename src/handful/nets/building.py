"""Backbones by name, initialised under a seed, or with weights read from a file."""

from __future__ import annotations

import torch
from torch import Tensor

from handful import registry
from handful.nets.backbone import Backbone
from handful.nets.weights import read_state, read_weights
from handful.options import parameters, parse_spec


def build(spec: str, shape: tuple[int, ...], seed: int = 0) -> Backbone:
    """The backbone of a spec such as ``conv4`` or ``lite0:size=224`` for images of ``shape``, initialised under a seed.

    ``NAME:weights=FILE`` reads a state dict (safetensors, or a torch file with tensors only).
    """
    name, options = parse_spec(spec)
    weights = options.pop("weights", None)
    if weights and stemmed(name, options):
        options["stem"] = stem_of(read_state(weights)) or "7x7"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = registry.make("nets", name, options, shape)
    if weights:
        read_weights(net, weights)
    return net


def as_saved(spec: str, state: dict[str, Tensor]) -> str:
    """The spec of the backbone whose weights ``state`` has: residual networks were saved with another stem once."""
    name, options = parse_spec(spec)
    stem = stem_of(state) if stemmed(name, options) else ""
    return f"{spec}{',' if options else ':'}stem={stem}" if stem == "7x7" else spec


def stemmed(name: str, options: dict[str, str]) -> bool:
    """Whether a network has stems to choose from, and none is chosen."""
    return "stem" not in options and "stem" in parameters(registry.get("nets", name))


def stem_of(state: dict[str, Tensor]) -> str:
    """The stem that weights belong to, by its convolution; nothing if they have none."""
    sides = {v.shape[-1] for k, v in state.items() if k.endswith("conv1.weight") and "layer" not in k}
    return f"{max(sides)}x{max(sides)}" if sides & {3, 7} else ""
