"""Class folders: CLASS/image, or SPLIT/CLASS/image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from handful.data.importers import SPLIT_NAMES, Importer, Item, Listing, common_root, images_or_refuse
from handful.data.sources import Source
from handful.errors import BadInput


@dataclass(frozen=True)
class Folders(Importer):
    """One folder a class, its name the class; deeper folders belong to the class above them.

    If the outer folders are named train, val (or valid, validation) and test, they become the scheme ``split``.
    Folders that wrap everything (``birds.zip`` with all in ``birds/``) are passed over.
    """

    name: ClassVar[str] = "folders"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        images = images_or_refuse(source)
        paths = [(n, p) for n, p in zip(images, below_root(images), strict=True)]
        tops = {p[0].lower() for _, p in paths if len(p) > 1}
        split = bool(tops) and tops <= set(SPLIT_NAMES) and all(len(p) > 2 for _, p in paths)
        items = []
        for name, path in paths:
            if len(path) < 2:
                raise BadInput(
                    f"{source.where(name)} is in no class folder; put each image in a folder named as its class"
                )
            if split:
                items.append(Item(name, {"label": path[1]}, {"split": SPLIT_NAMES[path[0].lower()]}))
            else:
                items.append(Item(name, {"label": path[0]}))
        return Listing(items, ("label",), ("split",) if split else ())


def below_root(images: Sequence[str], depth: int = 1) -> list[list[str]]:
    """The parts of each path below the folders that wrap everything, keeping at least ``depth`` folders above images."""
    root = common_root(images)
    while root and any(n.removeprefix(root).count("/") < depth for n in images):
        root = root[:-1].rpartition("/")[0] + "/" if "/" in root[:-1] else ""
    return [n.removeprefix(root).split("/") for n in images]
