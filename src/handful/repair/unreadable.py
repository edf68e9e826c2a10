"""Images that show nothing: one colour throughout, as failed crops and downloads are."""

from __future__ import annotations

from typing import ClassVar

from handful.data.collection import Collection
from handful.data.store import skipped_files
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look


class UnreadableImages(Repair):
    """Images of one colour are left out; files that packing could not read are named."""

    name: ClassVar[str] = "unreadable"
    what: ClassVar[str] = "images of one colour are left out, files that could not be read are named"
    cost: ClassVar[float] = 0.5

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.kind == "images" else "the collection holds features, not images"

    def find(self, look: Look) -> list[Entry]:
        bad = look.scan.rows[look.scan.constant]
        out = [
            self.entry("drop", f"{look.called(r)} is one colour throughout", "colours in the image", 1.0, [r])
            for r in bad.tolist()
        ]
        for file, reason in skipped_files(look.collection):
            out.append(self.entry("name", f"{file} was not packed: {reason}", "files that were not packed", 1.0))
        return out
