"""Options: what a thing is made with, checked against its annotations, from Python, a command line or a recipe alike.

Text is read as what the annotation asks for (``"5"``, ``"2-20"``, ``"crop+flip"``, ``"crop,flip"``, ``"true"``). A name that is not an option
and a value that cannot be one are refused in one sentence before anything is made.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

from handful.errors import BadInput, nearest

SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Unfit(ValueError):
    """A value that an annotation does not take; the message says what it takes."""


class Checked(type):
    """Metaclass of what has options: each is checked, and text converted, before the instance is made."""

    def __call__(cls, *given: Any, **options: Any) -> Any:
        names = list(parameters(cls))
        if len(given) > len(names):
            return super().__call__(*given, **options)  # Python's own words for too many
        return super().__call__(**check(cls, {**dict(zip(names, given, strict=False)), **options}))

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(cls.__init__).replace(parameters=list(_signature(cls).values()))  # type: ignore[misc]


@cache
def _signature(cls: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(cls.__init__ if isinstance(cls, type) else cls).parameters  # type: ignore[misc]
    return {name: p for i, (name, p) in enumerate(found.items()) if i or not isinstance(cls, type)}


@cache
def parameters(cls: Callable[..., Any]) -> dict[str, Any]:
    """The options of a class or function, in order, each with its annotation."""
    maker = cls.__init__ if isinstance(cls, type) and not dataclasses.is_dataclass(cls) else cls  # type: ignore[misc]
    hints = typing.get_type_hints(maker, include_extras=True)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: hints.get(name, Any) for name, p in _signature(cls).items() if p.kind not in several}


def title(cls: Any) -> str:
    """What errors call a class: its registered name, else the class's own."""
    return str(getattr(cls, "name", "") or cls.__name__)


def check(cls: Callable[..., Any], options: Mapping[str, Any], where: str = "", *first: Any) -> dict[str, Any]:
    """Options as ``cls`` takes them; its first parameters are what it is made on and are no options."""
    names = list(parameters(cls))
    known = {name: parameters(cls)[name] for name in names[len(first) :]}
    beside = {**dict(zip(names, first, strict=False)), **options}
    where = where or title(cls)
    loose = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in _signature(cls).values())
    out: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known:
            if loose:
                out[key] = value
                continue
            raise BadInput(f"{where} has no option {key!r}; {nearest(key, known)}")
        if value is _signature(cls)[key].default:
            out[key] = value
            continue
        try:
            if isinstance(value, Mapping) and _nested(known[key]):
                value = build(known[key], {**_defaults(cls, key), **value}, f"{where}.{key}")
            out[key] = fitting(known[key], value, beside)
        except Unfit as error:
            raise BadInput(f"{where}: option {key} cannot be {_short(value)}; give {error}") from None
    return out


def build(cls: Callable[..., Any], options: Mapping[str, Any], where: str = "", *first: Any) -> Any:
    """``cls`` made on ``first`` with options that are checked."""
    return cls(*first, **check(cls, options, where, *first))


def _nested(kind: Any) -> bool:
    return isinstance(kind, Checked) and dataclasses.is_dataclass(kind) and not hasattr(kind, "from_options")


def _defaults(cls: Any, key: str) -> dict[str, Any]:
    """A nested option that is given in part keeps the rest of its default."""
    default = _signature(cls)[key].default
    for spec in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if spec.name == key and spec.default_factory is not dataclasses.MISSING:
            default = spec.default_factory()
    return dataclasses.asdict(default) if dataclasses.is_dataclass(default) else {}  # type: ignore[arg-type]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


def unfolded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as nested options: ``schedule.steps`` is ``steps`` of ``schedule``."""
    nested: dict[str, Any] = {}
    for key, value in options.items():
        place = nested
        *folders, leaf = key.split(".")
        for folder in folders:
            place = place.setdefault(folder, {})
        place[leaf] = value
    return nested


PLACED = ("timm", "hf", "open_clip", "onnx", "torch")
"""Networks from elsewhere: what follows the colon says where (``timm:resnet50,size=160``), and is the option ``model``."""


def parse_spec(text: str) -> tuple[str, dict[str, str]]:
    """``name:key=value,key=value`` as a name and its options."""
    name, _, rest = text.partition(":")
    if name.strip() in PLACED and rest and not rest.lstrip().startswith("model="):
        rest = f"model={rest}"
    options: dict[str, str] = {}
    for item in filter(None, (x.strip() for x in rest.split(","))):
        key, equals, value = (x.strip() for x in item.partition("="))
        if not equals:
            raise BadInput(f"{text!r}: {item!r} is not key=value; write name:key=value,key=value")
        if key in options:
            raise BadInput(f"{text!r}: {key!r} is given twice; give it once")
        options[key] = value
    return name.strip(), options


def fitting(kind: Any, value: Any, beside: Mapping[str, Any] | None = None) -> Any:
    """``value`` as the annotation ``kind`` takes it; `Unfit` if it cannot be. ``beside`` are the options it came with."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind](value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value)
    if origin is Annotated:  # what is beside the type reads the value: a network's spec from a module, say
        for read in filter(callable, inside[1:]):
            value = read(value)
        return fitting(inside[0], value, beside)
    if origin is Literal:
        for one in inside:
            if value == one if type(value) is type(one) else isinstance(value, str) and value == str(one):
                return one
        raise Unfit(_either([str(x) or "nothing" for x in inside]))
    if origin in (Union, UnionType):
        return _one_of(inside, value, beside)
    if origin in (tuple, list):
        return _several(origin, inside, value, beside)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise Unfit("a table of names and values")
        return {fitting(inside[0], k): fitting(inside[1], v, beside) for k, v in value.items()}
    if isinstance(value, Mapping) and hasattr(kind, "from_options"):
        return kind.from_options(value, beside or {})
    base = origin or kind
    if isinstance(base, type) and not isinstance(value, base):
        raise Unfit(getattr(base, "wanted", "") or f"a {base.__name__}")
    return value


def _one_of(kinds: Sequence[Any], value: Any, beside: Mapping[str, Any] | None) -> Any:
    if value is None and NoneType in kinds:
        return None
    known = [k for k in kinds if k is not NoneType]
    reasons = []
    for kind in sorted(known, key=lambda k: type(value) is not k):  # 1 is an int before it is a float
        try:
            return fitting(kind, value, beside)
        except Unfit as error:
            reasons.append(str(error))
    raise Unfit(_either(reasons))


def _several(kind: type, inside: Sequence[Any], value: Any, beside: Mapping[str, Any] | None) -> Any:
    if len(inside) == 2 and inside[1] is not Ellipsis and isinstance(value, str):
        value = value.split("-")
    elif isinstance(value, str):
        value = [x for x in (y.strip() for y in value.replace(",", "+").split("+")) if x]
    elif kind is tuple and not isinstance(value, Iterable):
        value = (value,)
    try:
        items = list(value.tolist() if hasattr(value, "tolist") else value)
    except TypeError:
        items = [value]
    if kind is tuple and inside[-1] is not Ellipsis:
        try:
            return tuple(fitting(k, v, beside) for k, v in zip(inside, items, strict=True))
        except ValueError:
            raise Unfit("a range such as 2-20" if len(inside) == 2 else f"{len(inside)} values") from None
    try:
        return kind(fitting(inside[0], v, beside) for v in items)
    except Unfit as error:
        raise Unfit(f"any number of: {error}") from None


def parse_range(text: str, what: str) -> int | tuple[int, int]:
    """``5`` or ``2-20``."""
    try:
        return fitting(int | tuple[int, int], text)
    except Unfit as error:
        raise BadInput(f"{what} must be {error}, not {text!r}") from None


def _either(said: Sequence[str]) -> str:
    said = list(dict.fromkeys(said))
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


def _whole(value: Any) -> int:
    try:
        if not isinstance(value, bool) and isinstance(value, (int, str)):
            return int(value)
    except ValueError:
        pass
    raise Unfit("a whole number")


def _number(value: Any) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, (int, float, str)):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise Unfit("a number")


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in SWITCH:
        raise Unfit("true or false")
    return SWITCH[str(value).lower()]


def _text(value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise Unfit("text")
    return os.fspath(value)


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _switch,
    str: _text,
    Any: lambda value: value,
}


def said(*name: str) -> str:
    """A label as a person would say it."""
    return " ".join(name).replace("_", " ").replace("/", " ")
