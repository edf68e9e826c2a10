"""Encoders of images and texts small enough for tests."""

from __future__ import annotations

import json
from pathlib import Path

import torch


def clip_folder(folder: Path) -> Path:
    """A CLIP of random weights and a tokenizer of single letters, as transformers saves them."""
    import transformers

    letters = [chr(c) for c in range(33, 127)]
    words = [*letters, *[f"{c}</w>" for c in letters], "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {w: i for i, w in enumerate(words)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    end = vocabulary["<|endoftext|>"]
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**size, "vocab_size": len(words), "max_position_embeddings": 64, "eos_token_id": end, "pad_token_id": end}
    text["bos_token_id"] = vocabulary["<|startoftext|>"]
    vision = {**size, "image_size": 24, "patch_size": 8}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
        transformers.CLIPModel(config).save_pretrained(folder)
    return folder
