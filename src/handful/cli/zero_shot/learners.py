"""From a method's name to a learner of descriptions, for `handful eval` and `handful zero-shot analyse`."""

from __future__ import annotations

import sys
from typing import Any


def fitted(method: str, source: Any, semantics: str, scheme: str | None, settings: dict[str, Any], compute: Any) -> Any:
    """A learner from a model folder, or trained on the collection with its options chosen on validation classes."""
    from handful.methods import Learner
    from handful.runs.learners import chosen, learner_of

    found = chosen(method, settings, compute)
    if isinstance(found, Learner):
        return found
    train, valid = lessons(found, source, semantics, scheme)
    return learner_of(found, train=train, valid=valid, shape=source.card.shape, compute=compute)


def lessons(found: Any, source: Any, semantics: Any, scheme: str | None) -> tuple[Any, Any]:
    """The training classes, and the validation classes if there are any to choose options on."""
    from handful.tasks.zero_shot import ZeroShot

    train = ZeroShot(source.part("train", scheme), semantics)
    valid = ZeroShot(source.part("valid", scheme), semantics) if has_split(source, "valid", scheme) else None
    if valid is None and getattr(found, "grid", None):
        print("no validation classes: the method's default options are used", file=sys.stderr)
    return train, valid


def has_split(source: Any, split: str, scheme: str | None) -> bool:
    used = scheme or (source.card.schemes[0] if source.card.schemes else "")
    return bool(used) and bool((source.table[used] == split).any())
