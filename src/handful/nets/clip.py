"""CLIP from a folder of the transformers package: an image encoder as backbone, and the text encoder beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.errors import BadInput, require
from handful.files import WRONG, read_json
from handful.nets.backbone import Backbone

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, eq=False)
class Said:
    """Texts as tokens: numbers, the word vectors ``(n, length, width)`` that stand for them, and where each text ends."""

    ids: Tensor
    embedded: Tensor
    end: Tensor


class Clip(Backbone):
    """Contrastive language-image pre-training (Radford et al., ICML 2021), any checkpoint that transformers reads.

    ``folder`` is a local folder or a name on the hub; needs the extra ``handful[clip]``. The vector is the projected
    image feature. Images are resized so that the shorter side fits and cropped in the centre, with the mean and
    deviation of the folder's ``preprocessor_config.json`` (CLIP's own where there is none).
    """

    frozen, portable, seen = True, False, "images and texts of the web"
    says = True

    def __init__(self, shape: tuple[int, ...], folder: str = ""):
        super().__init__(shape)
        transformers = require("transformers", "clip")
        if not folder:
            raise BadInput("the net clip needs a checkpoint; write clip:folder=PATH")
        try:
            self.net = transformers.CLIPModel.from_pretrained(folder).float()
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).splitlines()[0][:200]
            raise BadInput(f"{folder} is not a CLIP checkpoint that transformers can read ({reason})") from error
        self.size = int(self.net.config.vision_config.image_size)
        self.width = int(self.net.config.projection_dim)
        self.map_shape = (self.width, 1, 1)
        self.sharpness = float(self.net.logit_scale.detach().exp())
        self.mean, self.std = MEAN, STD  # type: ignore[misc]
        if (path := Path(folder) / "preprocessor_config.json").is_file():
            try:
                facts = read_json(path)
                self.mean, self.std = (  # type: ignore[misc]
                    three(facts.get(*x)) for x in (("image_mean", MEAN), ("image_std", STD))
                )
            except (OSError, *WRONG) as error:
                raise BadInput(f"{path} does not hold a mean and a deviation for three channels ({error})") from error

    def normalise(self, images: Tensor) -> Tensor:
        x = images.permute(0, 3, 1, 2).to(self.dtype) / 255
        x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
        side = self.size or 224
        h, w = x.shape[-2:]
        if min(h, w) != side:
            new = (round(h * side / min(h, w)), round(w * side / min(h, w)))
            x = F.interpolate(x, size=new, mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)
        top, left = (x.shape[-2] - side) // 2, (x.shape[-1] - side) // 2
        x = x[..., top : top + side, left : left + side]
        mean, std = (torch.tensor(v, device=x.device, dtype=x.dtype).view(1, 3, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std

    def forward(self, x: Tensor) -> Tensor:
        return _pooled(self.net.get_image_features(pixel_values=x))

    def maps(self, x: Tensor) -> Tensor:
        return self(x)[..., None, None]

    @torch.no_grad()
    def texts(self, texts: list[str]) -> Tensor:
        """Projected features ``(n, width)`` of some texts."""
        device = next(self.parameters()).device
        out = []
        for start in range(0, len(texts), 64):
            tokens = self.tokenizer(texts[start : start + 64], padding=True, truncation=True, return_tensors="pt")
            tokens = {k: v.to(device) for k, v in tokens.items() if k in ("input_ids", "attention_mask")}
            out.append(_pooled(self.net.get_text_features(**tokens)))
        return torch.cat(out).float()

    @torch.no_grad()
    def tokens(self, texts: list[str]) -> Said:
        """Texts as the text tower takes them, for those who put other vectors in the place of words."""
        device = next(self.parameters()).device
        ids = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")["input_ids"].to(device)
        end = (ids == self.tokenizer.eos_token_id).int().argmax(1)
        return Said(ids, self.net.text_model.embeddings.token_embedding(ids), end)

    def read(self, said: Said, embedded: Tensor) -> Tensor:
        """Projected features of texts whose words are these vectors; gradients go through."""
        words = self.net.text_model.embeddings.token_embedding
        hook = words.register_forward_hook(lambda module, given, out: embedded)
        try:
            return _pooled(self.net.get_text_features(input_ids=said.ids))
        finally:
            hook.remove()


def three(values: Any) -> tuple[float, ...]:
    """Three finite numbers, whatever a file says they are."""
    found = tuple(float(v) for v in values)
    if len(found) != 3 or not all(map(math.isfinite, found)):
        raise ValueError(f"not three numbers: {values}")
    return found


def _pooled(output: Any) -> Tensor:
    """Older versions of transformers return the projected features, newer ones an output that holds them."""
    return output if isinstance(output, Tensor) else output.pooler_output
