"""Vision models of transformers: ViT, DINOv2, ConvNeXt and the like, and CLIP, SigLIP and their kin, which read too."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from handful.errors import BadInput, require
from handful.hub import reach_hub
from handful.nets.elsewhere import CARD, Elsewhere, drop, grid
from handful.nets.preprocessing import of_transformers

WEB = "images and texts of the web"
WORDS = {
    "clip": WEB,
    "siglip": WEB,
    "align": WEB,
    "dinov2": "images chosen from the web",
    "dinov3": "images chosen from the web",
}
WRONG = (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, ImportError)


class Hf(Elsewhere):
    """A model that ``transformers.AutoModel`` reads: a local folder, else a name on the hub.

    Vectors are the projected image features of a model of images and texts; otherwise the pooled output, or the class token
    where the pooling layer belongs to another task. Maps are the last feature maps or the patch tokens. No code of the
    checkpoint is run.
    """

    def __init__(self, shape: tuple[int, ...], model: str = ""):
        super().__init__(shape)
        transformers = require("transformers", "hf")
        if not model:
            raise BadInput("the net hf needs a model; write hf:FOLDER or hf:NAME, such as hf:facebook/dinov2-small")
        here = Path(model).is_dir()
        facts = self._read(transformers.AutoConfig.from_pretrained, model, here)
        self.net = self._read(transformers.AutoModel.from_pretrained, model, here).float()
        self.joint = hasattr(self.net, "get_image_features")
        self.tokenizer: Any = self._tokenizer(transformers, model) if self.joint else None
        self.says = self.tokenizer is not None and hasattr(self.net, "get_text_features")
        if self.says:
            scale = getattr(self.net, "logit_scale", None)
            self.sharpness = self.sharpness if scale is None else float(scale.detach().exp())
        else:
            drop(self.net, "text_model", "text_projection", "logit_scale", "logit_bias")
        pooler = getattr(self.net, "pooler", None)
        if hasattr(pooler, "dense"):  # BERT's pooling, which image checkpoints leave random
            self.net.pooler = None
        # What the processor says is read, not the processor used: its class may need torchvision.
        read = transformers.image_processing_base.ImageProcessingMixin.get_image_processor_dict
        told, _ = self._read(lambda m, **k: read(m, **k), model, here)
        vision = getattr(facts, "vision_config", facts)
        sides = getattr(vision, "image_size", None)
        self.size = sides if isinstance(sides, int) else None
        self.prepare(of_transformers(_full(transformers, told), model), "transformers")

    @staticmethod
    def _read(read: Any, model: str, here: bool) -> Any:
        """From this machine, else from the hub."""
        log = logging.getLogger("transformers")
        level, log_level = log.level, logging.ERROR
        try:
            log.setLevel(log_level)
            try:
                return read(model, local_files_only=True)
            except WRONG as error:
                if here:
                    raise BadInput(
                        f"{model} is not an image model that transformers can read ({_first(error)})"
                    ) from error
            reach_hub(f"the model {model}")
            try:
                return read(model)
            except WRONG as error:
                raise BadInput(f"transformers cannot read {model} ({_first(error)})") from error
        finally:
            log.setLevel(level)

    @staticmethod
    def _tokenizer(transformers: Any, model: str) -> Any:
        """What turns texts into numbers; None where the checkpoint brings none, and only its image side is used."""
        try:
            found = transformers.AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        except WRONG:
            return None
        return found if len(found) > 10 else None  # without its files a tokenizer knows its special tokens alone

    @torch.no_grad()
    def texts(self, texts: list[str]) -> Tensor:
        if not self.says:
            return super().texts(texts)
        device, facts = next(self.parameters()).device, self.net.config.text_config
        # SigLIP was trained on texts filled up to their full length.
        fill = "max_length" if "siglip" in self.net.config.model_type else True
        out = []
        for start in range(0, len(texts), 64):
            tokens = self.tokenizer(
                texts[start : start + 64],
                padding=fill,
                truncation=True,
                max_length=facts.max_position_embeddings,
                return_tensors="pt",
            )
            tokens = {
                k: v.to(device)
                for k, v in tokens.items()
                if k in ("input_ids", "attention_mask") and not (fill is not True and k != "input_ids")
            }
            found = self.net.get_text_features(**tokens)
            out.append(found if isinstance(found, Tensor) else found.pooler_output)
        return torch.cat(out).float() if out else torch.zeros((0, self.width), device=device)

    @property
    def core(self) -> nn.Module:
        return self.net

    @classmethod
    def trained_on(cls, options: Mapping[str, str]) -> str:
        name = options.get("model", "").lower()
        return next((said for word, said in WORDS.items() if word in name), CARD)

    def forward(self, x: Tensor) -> Tensor:
        if self.joint:
            found = self.net.get_image_features(pixel_values=x)
            return found if isinstance(found, Tensor) else found.pooler_output
        out = self.net(pixel_values=x)
        pooled = getattr(out, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        last = out.last_hidden_state
        if last.ndim == 4:
            return last.mean((2, 3))
        return last[:, 0] if self._before(x, last) else last.mean(1)

    def maps(self, x: Tensor) -> Tensor:
        last = (self.net.vision_model if self.joint else self.net)(pixel_values=x).last_hidden_state
        return last if last.ndim == 4 else grid(last, self._before(x, last))

    def _before(self, x: Tensor, tokens: Tensor) -> int:
        """Class and register tokens ahead of the patches' ones."""
        facts = getattr(self.net.config, "vision_config", self.net.config)
        patch = getattr(facts, "patch_size", None)
        if not isinstance(patch, int):
            return 0
        places = (x.shape[-2] // patch) * (x.shape[-1] // patch)
        return max(0, tokens.shape[1] - places)


def _full(transformers: Any, told: dict[str, Any]) -> dict[str, Any]:
    """What a file leaves out is its processor's default."""
    name = str(told.get("image_processor_type") or told.get("feature_extractor_type") or "").removesuffix("Fast")
    name = name.replace("FeatureExtractor", "ImageProcessor")
    if not name.isidentifier() or not name.endswith("ImageProcessor"):
        return told
    with torch.random.fork_rng(devices=[]):
        level = transformers.utils.logging.get_verbosity()
        transformers.utils.logging.set_verbosity_error()
        try:
            made = getattr(transformers, name)(**{k: v for k, v in told.items() if not k.endswith("_type")})
            return made.to_dict()
        except WRONG:
            return told
        finally:
            transformers.utils.logging.set_verbosity(level)


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
