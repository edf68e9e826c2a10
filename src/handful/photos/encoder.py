"""The frozen embedding a classifier of photos stands on: the best at hand, known again by name and hash."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful import registry
from handful.errors import BadInput, Mismatch, Missing
from handful.nets import build
from handful.nets.building import given_again, spec_of, without_weights
from handful.nets.compute import Compute
from handful.nets.features import embed_images, weights_hash
from handful.nets.weights import load_state
from handful.options import parse_spec

BEST = "lite2:size=260"
SIDE = 224
PLAIN_SIDE = 32
BATCH = 8
"""Every batch is padded to this size, and one photo should not cost as much as sixty."""


class Encoder:
    """Square photos to unit vectors.

    Parameters
    ----------
    net
        A backbone's spec; ``auto`` is EfficientNet-Lite2 at 260 pixels. ``pixels`` looks at 32 x 32 pixels alone.
    state
        Weights to fill it with instead of those the spec names.
    """

    def __init__(self, net: Any = "auto", compute: Compute | None = None, state: dict[str, Tensor] | None = None):
        self.compute = compute or Compute(batch=BATCH)
        net = BEST if isinstance(net, str) and net == "auto" else spec_of(net)
        name, options = parse_spec(net)
        if not registry.get("nets", name).portable:
            raise BadInput(f"a classifier of photos cannot take the net {name} along; use lite2, or a ResNet's weights")
        self.size = PLAIN_SIDE if name == "pixels" else max(SIDE, int(options.get("size", SIDE)))
        with self.compute.here():
            try:
                self.backbone = build(net, (self.size, self.size, 3)).to(self.compute.device).eval()
            except Missing as error:
                raise Missing(f"{error}; or say --net pixels to do without a pretrained network") from error
            if (wants := getattr(self.backbone, "reads", 0)) > self.size:
                self.size, self.backbone.shape = wants, (wants, wants, 3)
            if state is not None:
                load_state(self.backbone, state, "the model's encoder")
        # A file on this machine means nothing on another, so the weights go along instead of their path.
        self.net = str(without_weights(net))
        self.installed = self.backbone.installed and "weights" not in options
        self.carried = "weights" in options or state is not None or name == "module"
        self.hash = weights_hash(self.backbone)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the network: that its weights are random."""
        if self.installed or self.carried or next(self.backbone.parameters(), None) is None:
            return ()
        return (f"{self.net} has random weights: give trained ones ({self.net}:weights=FILE), or leave --net out",)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features ``(n, width)`` of length 1."""
        with self.compute.here():
            x = embed_images(self.backbone, images, self.compute).double().cpu().numpy()
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)

    def state(self) -> dict[str, Tensor]:
        """What has to go along in a model folder."""
        return {} if self.installed else dict(self.backbone.state_dict())

    def facts(self) -> dict[str, Any]:
        return {"net": self.net, "size": self.size, "hash": self.hash, "carried": not self.installed}


def same_encoder(
    facts: dict[str, Any], state: dict[str, Tensor], compute: Compute | None, where: str, net: Any = None
) -> Encoder:
    """The encoder a model was fitted with, or a sentence if this machine has another."""
    encoder = Encoder(given_again(facts["net"], net, where), compute, state if facts["carried"] else None)
    if encoder.hash != facts["hash"] or encoder.size != facts["size"]:
        raise Mismatch(
            f"{where} was fitted with {facts['net']} of weights {facts['hash']}, and here they are {encoder.hash}; "
            "install the version it was fitted with, or fit again"
        )
    return encoder


def as_tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in arrays.items()}
