"""Methods: learners behind one contract, found by name."""

from __future__ import annotations

from typing import Any

from handful import registry
from handful.methods.contract import Learner, Method, Predictor, load, make

__all__ = ["Learner", "Method", "Predictor", "load", "make"]


def __getattr__(name: str) -> Any:
    for target in registry.table("methods").values():
        module, _, attribute = target.partition(":")
        if attribute == name:
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'handful.methods' has no method {name!r}")
