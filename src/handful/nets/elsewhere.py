"""What encoders from other libraries share: their preprocessing travels with them, and they say at once what is missing."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from handful.errors import BadInput, Missing
from handful.nets.backbone import Backbone
from handful.nets.preprocessing import Preprocessing

CARD = "what its makers' card names"
_ONE = threading.Lock()


class Elsewhere(Backbone):
    """A frozen encoder of another library. A subclass gives its `tokens_or_maps` and, where it is no mean of these, its vector."""

    installed, frozen, seen = True, True, CARD
    preprocessing: Preprocessing

    def prepare(self, preprocessing: Preprocessing, module: str) -> None:
        """Take on how images are to come and measure what goes out; features are known by the library's version too."""
        self.preprocessing, self.mean, self.std = preprocessing, preprocessing.mean, preprocessing.std  # type: ignore[misc]
        self.code = f"{module} {getattr(sys.modules.get(module), '__version__', '')} {preprocessing}"
        self.eval()
        try:
            with torch.no_grad():
                x = self.normalise(torch.zeros((1, *self.shape), dtype=torch.uint8))
                self.width, self.map_shape = int(self(x).shape[1]), tuple(self.maps(x).shape[1:])  # type: ignore[assignment]
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadInput(f"{type(self).__name__} gives no features of an image of {self.shape} ({reason})") from error

    @property
    def reads(self) -> int:
        """The side in pixels below which an image would have to be enlarged."""
        sides = self.preprocessing.resize or self.preprocessing.crop or 0
        return max(sides) if isinstance(sides, tuple) else sides

    def normalise(self, images: Tensor) -> Tensor:
        return self.preprocessing(images, self.dtype)


class _Placeholder(type):
    def __getattr__(cls, name: str) -> Any:
        return _placeholder(cls, name)


class _Module(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return _placeholder(self, name)


def _placeholder(owner: Any, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    made = _Placeholder(name, (), {})
    setattr(owner, name, made)
    return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        mine = name.split(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if mine else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


@contextmanager
def _standing_in() -> Iterator[None]:
    """Names of torchvision for as long as a library is imported that asks for them and here never uses them.

    timm and open_clip import torchvision for data sets and transforms; their models need none of it, and a torchvision that
    fits a processor's build of torch is often not to be had.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]


def require_without_torchvision(module: str, extra: str, package: str) -> Any:
    """Import timm or open_clip, with torchvision or without, or say the two lines that install it."""
    from handful.errors import install_hint

    with _ONE:
        try:
            if module in sys.modules or importlib.util.find_spec("torchvision") is not None:
                return importlib.import_module(module)
            if (
                importlib.util.find_spec("transformers") is not None
            ):  # it remembers the answer, which must be the true one
                importlib.import_module("transformers.utils").is_torchvision_available()
            with _standing_in():
                return importlib.import_module(module)
        except ImportError as error:
            raise Missing(
                f"{module} cannot be imported ({error}); {install_hint(extra)} and then: pip install --no-deps {package}"
            ) from error


def grid(tokens: Tensor, before: int) -> Tensor:
    """Patch tokens ``(n, t, d)`` as maps, without those ``before`` them that stand for no place."""
    from handful.nets.given import squared

    return squared(tokens[:, before:])


def drop(module: nn.Module, *names: str) -> None:
    """Take out parts that an image does not pass through."""
    for name in names:
        if isinstance(getattr(module, name, None), (nn.Module, nn.Parameter)):
            setattr(module, name, None)
