"""A classifier of photos as ONNX graphs: whole, from pixels to probabilities, or the network alone for the app file."""

from __future__ import annotations

import io
import json
import math
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from handful.errors import BadInput, require
from handful.files import write_atomically
from handful.nets.backbone import Backbone
from handful.nets.lite import Lite0
from handful.photos.encoder import Encoder
from handful.photos.model import PhotoModel

OPSET = 17


class Maps(nn.Module):
    """Normalised images to feature maps, or to vectors where a network has no maps."""

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, x: Tensor) -> Tensor:
        return self.backbone.maps(x) if has_maps(self.backbone) else self.backbone(x)


class Whole(nn.Module):
    """Square uint8 images ``(n, h, w, 3)`` at the network's own size to probabilities and refusals."""

    shift: Tensor
    scale: Tensor
    means: Tensor
    inflation: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, model: PhotoModel):
        super().__init__()
        self.backbone = model.encoder.backbone
        c = model.classifier
        for name, value in c.tensors.items():
            self.register_buffer(name, torch.from_numpy(value.copy()).float())
        self.linear, self.temperature, self.threshold = c.head == "linear", c.temperature, c.threshold
        net = self.backbone
        self.register_buffer("shift", torch.tensor(net.mean).view(1, -1, 1, 1))
        self.register_buffer("scale", torch.tensor(net.std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = (images.permute(0, 3, 1, 2).float() / 255 - self.shift) / self.scale
        v = self.backbone(x)
        v = v / v.norm(dim=1, keepdim=True).clamp_min(1e-12)
        far = ((v[:, None] - self.means[None]) ** 2).sum(2) - self.inflation
        scores = v @ self.weight + self.bias if self.linear else -far
        far = far.clamp_min(1e-12)
        strange = far.min(1).values / far.mean(1)
        refused = strange > self.threshold if math.isfinite(self.threshold) else strange < 0
        return torch.softmax(scores / self.temperature, 1), refused


def has_maps(backbone: Backbone) -> bool:
    """Whether the features are the mean of maps over places, so that each place has its share of an answer."""
    return type(backbone).forward is Backbone.forward and type(backbone).maps is not Backbone.maps


def net_side(encoder: Encoder) -> int:
    """The side of the squares that the network itself takes."""
    return encoder.backbone.size or encoder.size


def checked(encoder: Encoder) -> Backbone:
    """The network, if what it does to images before itself is what all backbones do."""
    net = encoder.backbone
    if type(net).normalise not in (Backbone.normalise, Lite0.normalise):
        raise BadInput(
            f"{encoder.net} prepares its images in a way of its own, which no file can take along; use lite2"
        )
    return net


def network(encoder: Encoder) -> bytes:
    """The network alone: normalised images ``x`` to ``features``."""
    net, side = checked(encoder), net_side(encoder)
    return export(Maps(net), torch.zeros(1, 3, side, side), ["x"], ["features"], encoder)


def write_onnx(model: PhotoModel, path: Path) -> Path:
    """The whole classifier as one graph; the names of the classes are in its metadata."""
    import onnx

    checked(model.encoder)
    side = net_side(model.encoder)
    images = torch.zeros(1, side, side, 3, dtype=torch.uint8)
    graph = onnx.load_from_string(export(Whole(model), images, ["images"], ["probabilities", "refused"], model.encoder))
    facts = {
        "classes": json.dumps(model.classes, ensure_ascii=False),
        "size": str(side),
        "prepare": "turn as EXIF says, lay on white, cut out the centred square, resize with an antialiased triangle filter",
        "temperature": repr(model.classifier.temperature),
    }
    onnx.helper.set_model_props(graph, facts)
    data = graph.SerializeToString()
    write_atomically(path, lambda p: Path(p).write_bytes(data))
    return path


def export(module: nn.Module, example: Tensor, inputs: list[str], outputs: list[str], encoder: Encoder) -> bytes:
    """The graph of a module for any number of images."""
    require("onnx", "app")
    stream = io.BytesIO()
    dynamic: dict[str, Any] = {name: {0: "n"} for name in (*inputs, *outputs)}
    device = next((p.device for p in encoder.backbone.parameters()), torch.device("cpu"))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                module.cpu().eval(),
                (example,),
                stream,  # type: ignore[arg-type]  # the exporter of graphs takes streams as well
                input_names=inputs,
                output_names=outputs,
                dynamic_axes=dynamic,
                opset_version=OPSET,
                dynamo=False,
            )
        except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
            reason = str(error).splitlines()[0][:200]
            raise BadInput(f"{encoder.net} cannot be written as ONNX ({reason}); use lite2") from error
        finally:
            encoder.backbone.to(device).eval()
    return stream.getvalue()
