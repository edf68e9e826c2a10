"""Backbones by name, initialised under a seed, or with weights read from a file."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from handful import registry
from handful.errors import BadInput
from handful.nets.backbone import Backbone
from handful.nets.given import Spec, as_spec, takes_shape
from handful.nets.weights import read_state, read_weights
from handful.options import PLACED, Unfit, parameters, parse_spec


def build(spec: Any, shape: tuple[int, ...], seed: int = 0) -> Backbone:
    """The backbone of a spec such as ``conv4`` or ``lite0:size=224`` for images of ``shape``, initialised under a seed.

    ``NAME:weights=FILE`` reads a state dict (safetensors, or a torch file with tensors only). A torch module, or a function that
    makes one, may be given instead of a spec.
    """
    spec = spec_of(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(spec, Spec):
            return whole(spec.build(tuple(shape)), "given")
        name, options = parse_spec(spec)
        weights = options.get("weights")
        _, options = parse_spec(without_weights(spec))
        if weights and stemmed(name, options):
            options["stem"] = stem_of(read_state(weights)) or "7x7"
        cls = registry.get("nets", name)
        if not takes_shape(cls):
            raise BadInput(
                f"the net {name} cannot be told the images' shape; write its constructor as __init__(self, shape)"
            )
        net = whole(registry.make("nets", name, options, shape), name)
    if weights:
        read_weights(net.core, weights)
    return net


def spec_of(given: Any) -> str:
    """What was given for a net as a spec, or one sentence."""
    try:
        return as_spec(given)
    except Unfit as error:
        raise BadInput(f"a net cannot be {given!r}; give {error}") from None


def whole(net: Any, name: str) -> Backbone:
    """A network that says what methods need to know of it."""
    for key, example in (("width", "128"), ("map_shape", "(channels, height, width)")):
        if not hasattr(net, key):
            raise BadInput(f"the net {name} does not say its {key}; set self.{key} = {example} in its constructor")
    for key in ("normalise", "maps"):
        if not callable(getattr(net, key, None)):
            raise BadInput(f"the net {name} has no {key}(); make its class a subclass of handful.nets.Backbone")
    return net


def without_weights(spec: str) -> str:
    """The spec without the file of its weights, which means nothing on another machine; nothing is fetched in its place."""
    if isinstance(spec, Spec):
        return spec
    name, options = parse_spec(spec)
    if (
        options.pop("weights", None) is not None
        and name in PLACED
        and "pretrained" in parameters(registry.get("nets", name))
    ):
        options["pretrained"] = "0"
    return written(name, options)


def written(name: str, options: dict[str, str]) -> str:
    return ":".join(filter(None, [name, ",".join(f"{k}={v}" for k, v in options.items())]))


def seen(spec: str) -> str:
    """What the weights behind a spec were trained on, in words; nothing if they start from random ones."""
    name, options = parse_spec(spec)
    if options.get("pretrained") == "0":
        return ""
    return "other images" if options.get("weights") else registry.get("nets", name).trained_on(options)


def given_again(saved: Any, net: Any, where: str) -> Any:
    """The net of a saved model, or what is given for it. A model folder may be a stranger's, so no code that it names is run."""
    if net is not None:
        return net
    if own(saved):
        raise BadInput(
            f"{where} was made with a network of your own ({saved}), whose class it does not hold; give it again: "
            "hf.load(FOLDER, net=...), or on the command line predict --net, eval --set net="
        )
    return saved


def own(spec: Any) -> bool:
    """Whether a spec stands for code of the user's own, which no model folder holds."""
    return isinstance(spec, str) and parse_spec(spec)[0] in ("module", "torch")


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
