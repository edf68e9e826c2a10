"""What a repair is: it looks at a collection and proposes entries of a plan; it changes nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from handful.data.collection import Collection

if TYPE_CHECKING:
    from handful.repair.look import Look

Action = Literal["drop", "move", "weigh", "draw", "name"]
ACTIONS: tuple[str, ...] = get_args(Action)
"""Leave images out; move them to another split; draw them less often; draw tasks by a rule; only say so."""


@dataclass(frozen=True)
class Entry:
    """One finding of a repair, and what is to be done about it.

    Parameters
    ----------
    kind
        The repair that proposes it.
    action
        What is done: see `ACTIONS`.
    why
        One sentence.
    measure, evidence
        What was measured, and the number.
    rows
        Images of the collection that it is done to.
    confirm
        Whether it is done; an entry that is not confirmed is only listed.
    to
        The split that images are moved to.
    weight
        How often an image is drawn, where 1 is as often as any.
    rule
        The rule that tasks are drawn by, as ``registry.make`` takes it.
    facts
        What else a page shows (a suggested class, the other image of a pair).
    """

    kind: str
    action: Action
    why: str
    measure: str
    evidence: float
    rows: tuple[int, ...] = ()
    confirm: bool = True
    to: str = ""
    weight: float = 1.0
    rule: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


class Repair:
    """Base of the repairs: one file each, registered by name.

    ``confirmed`` says whether what it finds is done unless the plan says otherwise; ``cost`` is its share of the time. ``missing`` says in
    words what the collection lacks (empty: it can run).
    """

    name: ClassVar[str] = ""
    what: ClassVar[str] = ""
    confirmed: ClassVar[bool] = True
    cost: ClassVar[float] = 1.0

    def missing(self, collection: Collection) -> str:
        return ""

    def find(self, look: Look) -> list[Entry]:
        raise NotImplementedError

    def entry(
        self,
        action: Action,
        why: str,
        measure: str,
        evidence: float,
        rows: Sequence[int] | np.ndarray = (),
        **more: Any,
    ) -> Entry:
        """An entry of this kind, confirmed as the kind is by default."""
        more.setdefault("confirm", self.confirmed and action != "name")
        numbers = tuple(int(r) for r in rows)
        return Entry(self.name, action, why, measure, round(float(evidence), 4), numbers, **more)
