"""WebDataset shards: tar files in which the members of one sample share a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from handful.data.importers import Importer, Item, Listing, sample_key, split_in
from handful.data.sources import Source, is_image_name
from handful.errors import BadInput, nearest
from handful.files import WRONG, parse_json

CLASSES = ("cls", "txt")
NAMES = "classnames.txt"


@dataclass(frozen=True)
class WebDataset(Importer):
    """``KEY.jpg`` (or .png, .webp, ...) and beside it its class: ``KEY.cls``, ``KEY.txt`` or a field of ``KEY.json``.

    Shards named by split (``train-000.tar``, ``val/000.tar``) make the scheme ``split``. Numbers of classes become names where
    ``classnames.txt`` lies beside the shards, one per line. Tars are read in place; compressed ones are refused.

    Parameters
    ----------
    label
        The field of the JSON that is the class; its other texts and numbers are kept as columns.
    image
        The ending of the images, if samples hold several, such as ``jpg``.
    """

    label: str = ""
    image: str = ""

    name: ClassVar[str] = "webdataset"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        samples: dict[str, dict[str, str]] = {}
        for name in source.names:
            if ".tar/" in source.where(name).lower():
                key, ending = sample_key(name)
                samples.setdefault(key, {})[ending] = name
        found = {k: m for k, m in samples.items() if any(is_image_name(f"x.{e}") for e in m)}
        if not found:
            raise BadInput(
                f"{source.path} holds no tar with images in it; give a folder of shards such as train-000.tar"
            )
        names = _class_names(source)
        items = []
        for members in found.values():
            image = self._image(source, members)
            columns = self._columns(source, members, image)
            columns["label"] = _named(columns["label"], names, source.where(image))
            shard = image[: image.lower().rindex(".tar/")] if ".tar/" in image.lower() else source.path.stem
            items.append(Item(image, columns, {"split": split_in(shard)}))
        schemes = ("split",) if any(i.splits["split"] for i in items) else ()
        alone = len(samples) - len(found)
        notes = (f"{alone} of {len(samples)} samples hold no image and were left out",) if alone else ()
        return Listing(items, ("label",), schemes, notes=notes)

    def _image(self, source: Source, members: dict[str, str]) -> str:
        images = [e for e in members if is_image_name(f"x.{e}")]
        first = source.where(members[images[0]])
        if self.image and self.image.lower().lstrip(".") not in images:
            raise BadInput(f"the sample of {first} has no image {self.image!r}; {nearest(self.image, images)}")
        if len(images) > 1 and not self.image:
            raise BadInput(f"{first} is one of {len(images)} images of its sample; say which: --set image={images[0]}")
        return members[self.image.lower().lstrip(".") or images[0]]

    def _columns(self, source: Source, members: dict[str, str], image: str) -> dict[str, str]:
        if self.label or ("json" in members and not any(e in members for e in CLASSES)):
            return self._fields(source, members, image)
        for ending in CLASSES:
            if ending in members:
                if text := source.text(members[ending]).strip():
                    return {"label": text}
                raise BadInput(f"{source.where(members[ending])} is empty; write the class into it")
        raise BadInput(f"{source.where(image)} has no class; put one beside it as .cls, .txt or .json")

    def _fields(self, source: Source, members: dict[str, str], image: str) -> dict[str, str]:
        if "json" not in members:
            raise BadInput(f"{source.where(image)} has no .json beside it, of which {self.label} is to be the class")
        where = source.where(members["json"])
        try:
            facts: dict[str, Any] = dict(parse_json(source.text(members["json"])))
        except WRONG as error:
            raise BadInput(f"{where} is not JSON with names and values ({error}); write the shard again") from error
        columns = {k: str(v) for k, v in facts.items() if isinstance(v, str | int | float) and str(v)}
        if not self.label and "label" not in columns:
            known = ", ".join(columns) or "none"
            raise BadInput(f"{where} has the fields {known}; say which is the class: --set label=FIELD")
        if (self.label or "label") not in columns:
            raise BadInput(f"{where} has no {self.label!r} that is text or a number; {nearest(self.label, columns)}")
        columns["label"] = columns[self.label or "label"]
        return columns


def _class_names(source: Source) -> list[str]:
    files = [n for n in source.named(NAMES) if ".tar/" not in n.lower()]
    return [line.strip() for line in source.text(files[0]).splitlines()] if files else []


def _named(text: str, names: list[str], where: str) -> str:
    if not names or not text.isdecimal():
        return text
    if int(text[:9]) >= len(names):
        raise BadInput(f"{where} is of class {text}, and {NAMES} has {len(names)} names; complete it")
    return names[int(text)]
