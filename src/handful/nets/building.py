"""Backbones by name, initialised under a seed, or with weights read from a file."""

from __future__ import annotations

import torch

from handful import registry
from handful.nets.backbone import Backbone
from handful.options import parse_spec


def build(spec: str, shape: tuple[int, ...], seed: int = 0) -> Backbone:
    """The backbone of a spec such as ``conv4`` or ``lite0:size=224`` for images of ``shape``, initialised under a seed.

    ``NAME:weights=FILE`` reads a state dict (safetensors, or a torch file with tensors only).
    """
    name, options = parse_spec(spec)
    weights = options.pop("weights", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = registry.make("nets", name, options, shape)
    if weights:
        from handful.nets.weights import read_weights

        read_weights(net, weights)
    return net
