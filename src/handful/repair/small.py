"""Classes that have too few images, after the other repairs, for the protocol."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look


class SmallClasses(Repair):
    """Named, not left out: rules do not draw them, and a training may use them."""

    name: ClassVar[str] = "small"
    what: ClassVar[str] = "classes with fewer images than shots + queries are named"
    confirmed: ClassVar[bool] = False
    cost: ClassVar[float] = 0.1

    def find(self, look: Look) -> list[Entry]:
        current, rows, out = look.current, look.rows, []
        parts = [current.part(s) for s in ("train", "valid", "test") if current.has(s)] or [current.whole]
        for part in parts:
            sizes = part.members.sizes
            for c in np.flatnonzero(sizes < look.shots + look.queries).tolist():
                why = (
                    f"{part.class_names[c]} ({part.split}) has {sizes[c]} images, {look.shots} + {look.queries} are asked for: no "
                    "task has it"
                )
                out.append(self.entry("name", why, "images", int(sizes[c]), rows[part.members[c]]))
        return out
