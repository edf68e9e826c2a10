"""Backbones by name."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from handful import registry
from handful.errors import BadInput, nearest
from handful.nets.backbone import Backbone
from handful.nets.compute import Compute

__all__ = ["Backbone", "Compute", "build", "parse_spec"]


def parse_spec(text: str) -> tuple[str, dict[str, str]]:
    """``name:key=value,key=value`` as a name and its options."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise BadInput(f"{text!r}: {item!r} is not key=value; write name:key=value,key=value")
        options[key.strip()] = value.strip()
    return name.strip(), options


def build(spec: str, shape: tuple[int, ...], seed: int = 0) -> Backbone:
    """The backbone of a spec such as ``conv4`` or ``lite0:size=224`` for images of ``shape``, initialised under a seed.

    ``NAME:weights=FILE`` reads a state dict (safetensors, or a torch file with tensors only).
    """
    name, options = parse_spec(spec)
    cls = registry.get("nets", name)
    weights = options.pop("weights", None)
    known = {k: p for k, p in inspect.signature(cls).parameters.items() if k != "shape"}
    arguments: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known:
            raise BadInput(f"the net {name} has no option {key!r}; {nearest(key, [*known, 'weights'])}")
        kind = type(known[key].default)
        try:
            arguments[key] = kind(value)
        except ValueError as error:
            raise BadInput(f"the option {key} of net {name} takes {kind.__name__}, not {value!r}") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = cls(shape, **arguments)
    if weights:
        from handful.nets.weights import read_weights

        read_weights(net, weights)
    return net
