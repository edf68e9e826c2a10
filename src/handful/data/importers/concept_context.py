"""Concept/context/image folders: what a thing is, and where or how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from handful.data.importers import Importer, Item, Listing, images_or_refuse
from handful.data.importers.folders import below_root
from handful.data.sources import Source
from handful.errors import BadInput


@dataclass(frozen=True)
class ConceptContext(Importer):
    """CONCEPT/CONTEXT/image, the layout of MetaCoCo (Zhang et al., ICLR 2024) and NICO (He et al., 2021).

    Columns ``concept`` (the class) and ``context`` (the card's context column).

    Parameters
    ----------
    outer
        ``concept`` if the outer folders are concepts, ``context`` if they are contexts (as in DomainNet and PACS).
    """

    outer: str = "concept"

    name: ClassVar[str] = "concept-context"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        if self.outer not in ("concept", "context"):
            raise BadInput(f"concept-context: outer must be 'concept' or 'context', not {self.outer!r}")
        images = images_or_refuse(source)
        inner = "context" if self.outer == "concept" else "concept"
        items = []
        for name, path in zip(images, below_root(images, depth=2), strict=True):
            if len(path) != 3:
                raise BadInput(
                    f"{source.where(name)} does not lie in {self.outer}/{inner}/; every image needs exactly two folders above it"
                )
            items.append(Item(name, {self.outer: path[0], inner: path[1]}))
        return Listing(items, ("concept",), context="context")
