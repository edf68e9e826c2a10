"""A class of the user's own in a file: ``torch:file.py:Class``, with ``weights=FILE`` beside it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from torch import nn

from handful.errors import BadInput
from handful.files import file_digest
from handful.nets.given import Wrapped, called


class TorchFile(Wrapped):
    """Any ``nn.Module`` of a Python file; it is told the images' shape if its constructor asks for ``shape``.

    It gets images as a module given from Python does, and its weights with ``weights=FILE`` (safetensors, or a state dict of
    tensors only). The file is run, so name only code that you trust; a model folder never runs the one it names.
    """

    kept = True

    def __init__(self, shape: tuple[int, ...], model: str = ""):
        place, _, name = model.rpartition(":")
        made = called(load_class(place, name), tuple(shape))
        super().__init__(shape, made)
        self.code = file_digest(
            Path(place)
        )  # features and their cache are known by the whole file, not by the class alone


def load_class(place: str, name: str) -> Any:
    """A class by its file and name."""
    path = Path(place)
    if not place or not name:
        raise BadInput("the net torch needs a file and a class in it; write torch:file.py:Class")
    if not path.is_file():
        raise BadInput(f"{place} is not a file; write torch:file.py:Class with a Python file that defines {name}")
    known = f"handful_net_{file_digest(path)[:16]}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, path)
        if spec is None or spec.loader is None:
            raise BadInput(f"{place} is not a Python file; write torch:file.py:Class")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # the user's own code fails as it likes
            del sys.modules[known]
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadInput(f"{place} cannot be run ({type(error).__name__}: {reason})") from error
    found = getattr(sys.modules[known], name, None)
    if not callable(found):
        classes = [k for k, v in vars(sys.modules[known]).items() if isinstance(v, type) and issubclass(v, nn.Module)]
        raise BadInput(f"{place} defines no {name}; it has {', '.join(classes) or 'no torch module'}")
    return found
