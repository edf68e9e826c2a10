"""The image side of any model of open_clip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from handful.errors import BadInput
from handful.hub import reach_hub
from handful.nets.elsewhere import Elsewhere, grid, require_without_torchvision
from handful.nets.preprocessing import FILTERS, Preprocessing
from handful.nets.weights import read_state


class OpenClip(Elsewhere):
    """``NAME/WEIGHTS``: an architecture and the tag of its weights, or a file of them; or a local folder with
    ``open_clip_config.json``. The vector is the projected image feature; maps are patch tokens where the tower has them.
    """

    seen = "images and texts of the web"

    def __init__(self, shape: tuple[int, ...], model: str = "", pretrained: bool = True):
        super().__init__(shape)
        open_clip = require_without_torchvision("open_clip", "open-clip", "timm open_clip_torch")
        if not model:
            raise BadInput("the net open_clip needs a model; write open_clip:NAME/WEIGHTS or open_clip:FOLDER")
        name, _, tag = model.partition("/")
        file = Path(tag) if Path(tag).is_file() else Path(f"/{tag}") if Path(f"/{tag}").is_file() else None
        options: dict[str, Any] = {}
        if Path(model).is_dir():
            if not any(Path(model).glob("*.safetensors")):
                raise BadInput(
                    f"{model} holds no weights as safetensors; save the model as open_clip_model.safetensors"
                )
            name = f"local-dir:{model}"
        elif name not in open_clip.list_models():
            raise BadInput(
                f"open_clip knows no model {name!r}; write open_clip:NAME/WEIGHTS, such as ViT-B-32/laion2b_s34b_b79k"
            )
        elif pretrained and file is None:
            tags = open_clip.list_pretrained_tags_by_model(name)
            if tag not in tags:
                raise BadInput(
                    f"open_clip has no weights {tag!r} of {name}; its own are {', '.join(tags) or 'none'}, or name a file"
                )
            _at_hand(open_clip, name, tag)
            options = {"pretrained": tag}
        try:
            whole = open_clip.create_model(name, **options)
            if file is not None and pretrained:
                whole.load_state_dict(read_state(file))
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadInput(f"open_clip cannot make {model} ({reason})") from error
        self.net = whole.visual
        self.speaker = whole if hasattr(whole, "encode_text") else None
        self.says = self.speaker is not None
        self.tokenizer = open_clip.get_tokenizer(name) if self.says else None
        if self.says:
            self.sharpness = float(whole.logit_scale.detach().exp())
        facts = open_clip.get_model_preprocess_cfg(whole)
        size = facts["size"]
        high, wide = (size, size) if isinstance(size, int) else tuple(size)
        if facts.get("resize_mode", "shortest") not in ("shortest", "squash"):
            raise BadInput(
                f"{model} pads its images ({facts['resize_mode']}), which is not done here; choose another model"
            )
        resize = (high, wide) if facts.get("resize_mode") == "squash" else min(high, wide)
        filter = int(FILTERS[facts.get("interpolation", "bicubic")])
        self.size = high
        mean, std = tuple(facts["mean"]), tuple(facts["std"])
        self.prepare(Preprocessing(resize, (high, wide), mean, std, filter, rounds=True), "open_clip")

    @torch.no_grad()
    def texts(self, texts: list[str]) -> Tensor:
        if self.speaker is None or self.tokenizer is None:
            return super().texts(texts)
        device = next(self.parameters()).device
        found = [
            self.speaker.encode_text(self.tokenizer(texts[i : i + 64]).to(device)) for i in range(0, len(texts), 64)
        ]
        return torch.cat(found).float() if found else torch.zeros((0, self.width), device=device)

    @property
    def core(self) -> nn.Module:
        return self.net

    def forward(self, x: Tensor) -> Tensor:
        found = self.net(x)
        return found[0] if isinstance(found, tuple) else found

    def maps(self, x: Tensor) -> Tensor:
        if not hasattr(self.net, "forward_intermediates"):
            return self(x)[..., None, None]
        found = self.net.forward_intermediates(x, indices=1, normalize_intermediates=True, intermediates_only=True)
        last = found["image_intermediates"][-1]
        return last if last.ndim == 4 else grid(last, 0)


def _at_hand(open_clip: Any, name: str, tag: str) -> None:
    import huggingface_hub as hub

    place = open_clip.get_pretrained_cfg(name, tag).get("hf_hub", "").strip("/")
    files = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
    if not place or not any(isinstance(hub.try_to_load_from_cache(place, f), str) for f in files):
        reach_hub(f"the model {name}/{tag}")
