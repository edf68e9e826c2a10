"""Any image model of timm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from handful.errors import BadInput
from handful.hub import reach_hub
from handful.nets.elsewhere import CARD, Elsewhere, grid, require_without_torchvision
from handful.nets.preprocessing import FILTERS, Preprocessing

SETS = {
    "in1k": "ImageNet-1k",
    "in21k": "ImageNet-21k",
    "in22k": "ImageNet-22k",
    "in12k": "ImageNet-12k",
    "laion2b": "images and texts of the web (LAION-2B)",
    "laion400m": "images and texts of the web (LAION-400M)",
    "openai": "images and texts of the web (CLIP's)",
    "webli": "images and texts of the web (WebLI)",
    "lvd142m": "images chosen from the web (LVD-142M)",
    "lvd1689m": "images chosen from the web (LVD-1689M)",
    "inat21": "iNaturalist 2021",
}


class Timm(Elsewhere):
    """A model by the name ``timm.create_model`` knows, or a local folder that timm saved (``config.json`` and safetensors).

    Without its classifier: vectors are pooled as the model pools, maps are its last ones, or its patch tokens. ``size`` in
    pixels instead of what it was trained at; ``pretrained=0`` leaves the weights random.
    """

    def __init__(self, shape: tuple[int, ...], model: str = "", size: int = 0, pretrained: bool = True):
        super().__init__(shape)
        timm = require_without_torchvision("timm", "timm", "timm")
        if not model:
            raise BadInput("the net timm needs a model's name; write timm:NAME, such as timm:resnet50")
        folder = Path(model)
        if folder.is_dir():
            if pretrained and not any(folder.glob("*.safetensors")):
                raise BadInput(f"{model} holds no weights as safetensors; save the model with timm's save_for_hf")
            name = f"local-dir:{folder}"
        else:
            name = model
            if not timm.is_model(model) and not model.startswith("hf-hub:"):
                near = timm.list_models(f"*{model.split('.')[0][:12]}*")[:3]
                raise BadInput(
                    f"timm knows no model {model!r}{'; did you mean ' + ' or '.join(near) + '?' if near else ''}"
                )
            if pretrained:
                _at_hand(timm, model)
        try:
            self.net = timm.create_model(name, pretrained=pretrained, num_classes=0)
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, AssertionError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadInput(f"timm cannot make {model} ({reason})") from error
        facts = timm.data.resolve_model_data_config(self.net)
        if size and hasattr(self.net, "set_input_size"):
            self.net.set_input_size(img_size=(size, size))
        high, wide = (size, size) if size else facts["input_size"][1:]
        share, squash = facts["crop_pct"], facts["crop_mode"] == "squash"
        sides = math.floor(high / share), math.floor(wide / share)
        filter = int(FILTERS.get(facts["interpolation"], FILTERS["bicubic"]))
        resize = sides if squash or high != wide else sides[0]
        self.size = high
        self.prepare(Preprocessing(resize, (high, wide), facts["mean"], facts["std"], filter, rounds=True), "timm")

    @property
    def core(self) -> nn.Module:
        return self.net

    @classmethod
    def trained_on(cls, options: Mapping[str, str]) -> str:
        parts = options.get("model", "").partition(".")[2].replace("-", "_").split("_")
        return " and ".join(dict.fromkeys(SETS[p] for p in parts if p in SETS)) or CARD

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def maps(self, x: Tensor) -> Tensor:
        found = self.net.forward_features(x)
        if found.ndim == 3:
            return grid(found, getattr(self.net, "num_prefix_tokens", 0))
        last = found.shape[-1] == self.net.num_features and found.shape[1] != self.net.num_features
        return found.permute(0, 3, 1, 2) if last else found


def _at_hand(timm: object, model: str) -> None:
    """Refuse a model with published weights that are neither here nor in reach, or with none."""
    import huggingface_hub as hub

    try:
        facts = timm.get_pretrained_cfg(model) if not model.startswith("hf-hub:") else None  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise BadInput(f"timm knows the model, but not these weights of it ({error})") from error
    if facts is not None and not facts.has_weights:
        raise BadInput(f"timm has no trained weights of {model}; give a file: timm:{model},weights=FILE")
    place = model.removeprefix("hf-hub:") if facts is None else facts.hf_hub_id
    files = ("model.safetensors", "open_clip_model.safetensors", "pytorch_model.bin", "open_clip_pytorch_model.bin")
    if not place or not any(isinstance(hub.try_to_load_from_cache(place, f), str) for f in files):
        reach_hub(f"the model {model}")
