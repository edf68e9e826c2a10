"""Reading published weights, trusting nothing: safetensors, or torch files that hold tensors only."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch


def read_state(path: str | Path) -> dict[str, Tensor]:
    """A state dict from a file; never unpickles anything but tensors."""
    path = Path(path)
    if not path.is_file():
        raise BadInput(f"{path} is not a file; name a .safetensors or .pth file of weights")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if zipfile.is_zipfile(path):  # torch never compresses, so whatever grows on reading was not written by it
            with zipfile.ZipFile(path) as stored:
                if sum(each.file_size for each in stored.infolist()) > path.stat().st_size:
                    raise ValueError("it is compressed")
        with warnings.catch_warnings():  # a file that torch can read is as good whichever protocol it was written with
            warnings.filterwarnings("ignore", "Detected pickle protocol")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file fails anywhere inside the readers, with whatever error is near
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(f"{path} is not a file of plain tensors ({reason}); save the weights as safetensors") from error
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise BadInput(f"{path} does not hold a state dict; save the model's state_dict() as safetensors")
    return state


def load_state(module: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load a state dict that must fit exactly; otherwise name the first three differences."""
    own = module.state_dict()
    wrong = [f"{k} is missing" for k in own if k not in state]
    wrong += [f"{k} is not known" for k in state if k not in own]
    wrong += [
        f"{k} is {tuple(state[k].shape)}, not {tuple(own[k].shape)}"
        for k in own
        if k in state and state[k].shape != own[k].shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise Mismatch(
            f"{where} does not fit {type(module).__name__}: {'; '.join(wrong[:3])}{more}; use the backbone it was saved from"
        )
    module.load_state_dict(state)


def read_weights(module: nn.Module, path: str | Path) -> None:
    """Fill a backbone from a file in the format of its own names (torchvision's for the residual networks).

    A classifier's last layer (``fc.*``) is left out, the prefix of parallel training taken off, and batch norm's counters,
    which older files lack, are not asked for; anything else that differs is refused.
    """
    state = {k.removeprefix("module."): v for k, v in read_state(path).items()}
    own = module.state_dict()
    state = {k: v for k, v in state.items() if k in own or not k.startswith(("fc.", "classifier.", "head."))}
    for key in own:
        if key.endswith("num_batches_tracked") and key not in state:
            state[key] = own[key]
    load_state(module, state, str(path))
