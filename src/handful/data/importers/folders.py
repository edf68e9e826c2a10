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
    """One folder for each class, its name the class.

    If the outer folders are named train, val (or valid, validation) and test, they become the scheme ``split``.
    Folders that wrap everything (``birds.zip`` with all in ``birds/``) are passed over.

    Parameters
    ----------
    level
        Which folders are the classes where folders lie in folders: 1 for the outermost, 2 for those inside them, and so on;
        images deeper than that belong to the class above them. Needed only there.
    """

    level: int = 0

    name: ClassVar[str] = "folders"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        images = images_or_refuse(source)
        paths = [(n, p) for n, p in zip(images, below_root(images), strict=True)]
        tops = {p[0].lower() for _, p in paths if len(p) > 1}
        split = bool(tops) and tops <= set(SPLIT_NAMES) and all(len(p) > 2 for _, p in paths)
        below = [p[1:] if split else p for _, p in paths]
        level = self._level(source, images, below)
        items = []
        for (name, path), own in zip(paths, below, strict=True):
            if len(own) <= level:
                which = "no class folder" if level == 1 else f"no folder of level {level}"
                raise BadInput(f"{source.where(name)} is in {which}; put each image in a folder named as its class")
            items.append(
                Item(name, {"label": own[level - 1]}, {"split": SPLIT_NAMES[path[0].lower()]} if split else {})
            )
        return Listing(items, ("label",), ("split",) if split else ())

    def _level(self, source: Source, images: Sequence[str], below: Sequence[list[str]]) -> int:
        """How deep the class folders lie; where that can be read in two ways, the person is asked."""
        deepest = max(len(p) for p in below) - 1
        if self.level < 0 or self.level > max(deepest, 1):
            raise BadInput(f"{source.path} has folders {deepest} deep; level={self.level} is none of them")
        if self.level or deepest < 2:
            return self.level or 1
        at = next(i for i, p in enumerate(below) if len(p) > 2)
        found = {k: sorted({p[k - 1] for p in below if len(p) > k}) for k in (1, 2)}
        ways = " or ".join(
            f"level={k} ({', '.join(names[:2])}{', ...' * (len(names) > 2)}: {len(names)} classes)"
            for k, names in found.items()
        )
        raise BadInput(
            f"{source.where(images[at])} lies in a folder in a folder; say which are the classes: --set {ways}"
        )


def below_root(images: Sequence[str], depth: int = 1) -> list[list[str]]:
    """The parts of each path below the folders that wrap everything, keeping at least ``depth`` folders above images."""
    root = common_root(images)
    while root and any(n.removeprefix(root).count("/") < depth for n in images):
        root = root[:-1].rpartition("/")[0] + "/" if "/" in root[:-1] else ""
    return [n.removeprefix(root).split("/") for n in images]
