"""Networks of the user's own: any torch module, or a factory of one, where a backbone's name is asked for."""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.nets.backbone import Backbone
from handful.nets.feature_cache import fingerprint
from handful.options import Unfit, parameters


class Spec(str):
    """The name of a network that was given as an object: text wherever a spec is text, and the object beside it.

    Results and model folders hold the text alone: the class and a hash of its weights and code.
    """

    made: Any

    @classmethod
    def of(cls, made: nn.Module | Callable[..., Any]) -> Spec:
        name = getattr(made, "__qualname__", type(made).__qualname__)
        plain = "".join(c if c.isalnum() or c in "_." else "-" for c in name)
        spec = cls(f"module:name={plain},hash={_hash(made)}")
        spec.made = made
        return spec

    def __deepcopy__(self, memo: dict[int, Any]) -> Spec:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (str(self), self.made)

    def build(self, shape: tuple[int, ...]) -> Backbone:
        """A copy of the module, so that training never changes the user's own."""
        if not isinstance(self.made, nn.Module):
            return wrapped(called(self.made, shape), shape)
        if not self.endswith(_hash(self.made)):
            raise Mismatch(f"the {type(self.made).__name__} given as net has changed since; give it again as it is now")
        return wrapped(copy.deepcopy(self.made), shape)


def _again(text: str, made: Any) -> Spec:
    spec = Spec(text)
    spec.made = made
    return spec


def _hash(made: Any) -> str:
    if isinstance(made, nn.Module):
        return fingerprint(made)[:16]
    try:
        code = inspect.getsource(made)
    except (OSError, TypeError):
        code = repr(getattr(made, "__qualname__", type(made).__qualname__))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def as_spec(value: Any) -> str:
    """What is given for a net as a spec: text as it is; a module, or a function or class that makes one, with its name."""
    if isinstance(value, (str, os.PathLike)):
        return value if isinstance(value, str) else os.fspath(value)  # type: ignore[return-value]
    if isinstance(value, nn.Module) or callable(value):
        return Spec.of(value)
    raise Unfit("a net's name such as conv4, a torch module, or a function that makes one")


Net = Annotated[Any, as_spec]
"""The type of an option that names a network."""


def called(factory: Callable[..., Any], shape: tuple[int, ...]) -> nn.Module:
    """What a factory makes; it is told the images' shape if it asks for it."""
    try:
        asks = "shape" in inspect.signature(factory).parameters
    except (TypeError, ValueError):
        asks = False
    name = getattr(factory, "__qualname__", repr(factory))
    try:
        made = factory(shape=shape) if asks else factory()
    except TypeError as error:
        raise BadInput(f"{name} does not make a network when called with shape= or nothing ({error})") from error
    if not isinstance(made, nn.Module):
        raise BadInput(f"{name} made a {type(made).__name__}, not a torch module; return an nn.Module")
    return made


def wrapped(module: nn.Module, shape: tuple[int, ...]) -> Backbone:
    """The module as a backbone for images of ``shape``; one that is a backbone already stays what it is."""
    if not isinstance(module, Backbone):
        return Wrapped(shape, module)
    if tuple(module.shape) != tuple(shape):
        raise Mismatch(f"the {type(module).__name__} given as net was made for images of {module.shape}, not {shape}")
    return module


class Wrapped(Backbone):
    """A module that gives vectors ``(n, d)``, maps ``(n, c, h, w)`` or, as transformers do, tokens ``(n, t, d)``.

    It gets floats ``(n, c, h, w)`` on the scale 0..1, at the images' own size. Attributes ``mean``, ``std`` and ``size`` of the
    module, where it has them, say otherwise. Vectors of maps and tokens are their means over place.
    """

    kept = False

    def __init__(self, shape: tuple[int, ...], net: nn.Module):
        super().__init__(tuple(shape))
        self.net = net
        for key in ("mean", "std"):
            if (value := getattr(net, key, None)) is not None:
                numbers: Any = value.flatten().tolist() if isinstance(value, Tensor) else value
                setattr(self, key, tuple(float(v) for v in (numbers if hasattr(numbers, "__iter__") else (numbers,))))
        size = getattr(net, "size", None)
        self.size = size if isinstance(size, int) and not isinstance(size, bool) else None
        self.measure()

    @property
    def core(self) -> nn.Module:
        return self.net

    def measure(self) -> None:
        """Find the width and the maps' shape by one image through the module."""
        training, name = self.training, type(self.net).__name__
        self.eval()
        try:
            with torch.no_grad():
                found = self.output(self.normalise(torch.zeros((1, *self.shape), dtype=torch.uint8)))
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadInput(f"{name} does not take one image of {self.shape} ({reason})") from error
        finally:
            self.train(training)
        if not isinstance(found, Tensor) or found.ndim not in (2, 3, 4) or len(found) != 1:
            what = f"a tensor of {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise BadInput(
                f"{name} gives {what} for one image, neither a vector (1, d) nor maps (1, c, h, w); return one of these"
            )
        self.map_shape = tuple(as_maps(found).shape[1:])  # type: ignore[assignment]
        self.width = self.map_shape[0]

    def output(self, x: Tensor) -> Any:
        return self.net(x)

    def maps(self, x: Tensor) -> Tensor:
        return as_maps(self.output(x))

    def forward(self, x: Tensor) -> Tensor:
        found = self.output(x)
        return found if found.ndim == 2 else as_maps(found).mean((2, 3))


def as_maps(found: Tensor) -> Tensor:
    """Maps of whatever comes: tokens that do not fill a square are a row of places."""
    if found.ndim == 2:
        return found[:, :, None, None]
    return found if found.ndim == 4 else squared(found)


def squared(tokens: Tensor) -> Tensor:
    """Tokens ``(n, t, d)`` as maps ``(n, d, h, w)``: a square if there are as many as fill one, else one row."""
    n, t, d = tokens.shape
    side = round(t**0.5)
    return tokens.transpose(1, 2).reshape(n, d, *((side, side) if side * side == t else (1, t)))


class Given(Backbone):
    """What stands in a saved model for a module that was given from Python; it has to be given again."""

    def __init__(self, shape: tuple[int, ...], name: str = "", hash: str = ""):
        raise BadInput(
            f"the net was a module given from Python ({name or 'no name'}), which its name cannot make; give the module itself"
        )


def takes_shape(cls: Any) -> bool:
    """Whether a network's class can be told the images' shape."""
    return bool(parameters(cls)) or any(
        p.kind is inspect.Parameter.VAR_POSITIONAL for p in inspect.signature(cls).parameters.values()
    )
