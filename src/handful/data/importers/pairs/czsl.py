"""MIT-States, UT-Zappos50K and C-GQA as they are distributed for compositional zero-shot work."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from handful.data.importers import Importer, Item, Listing, images_or_refuse
from handful.data.importers.pairs import ImageNames, shallowest
from handful.data.sources import Source
from handful.errors import BadInput, nearest

SETS = {"train": "train", "val": "valid", "valid": "valid", "test": "test"}


@dataclass(frozen=True)
class SplitPairs(Importer):
    """Images, ``SPLIT/{train,val,test}_pairs.txt`` (a line "attribute object" a pair) and ``metadata_SPLIT.t7``.

    The metadata (a torch file: a list of records with image, attr, obj, set) say what each image is; entries without an
    attribute or set ("NA") are left out, as the public loaders do. An image that is recorded again is kept once, and left
    out if its records differ in the pair (``several=first`` keeps its first): a task could show it with one label and ask
    for the other. Without metadata,
    images are taken from folders named "attribute object" or "attribute_object", and their pairs' split from the text
    files; a pair listed in several is then counted to train, since only the metadata know which of its images are held out.

    Columns ``attribute`` and ``object``; the source's own splits are the scheme ``czsl``. Those share primitives between
    train and test: use `RlclAttr` for disjoint ones.

    Parameters
    ----------
    split
        Which of the distributed splits; the only one there is by default.
    several
        What becomes of an image that is recorded with several pairs: ``skip`` (the default) or ``first``.
    beyond
        Keep labelled images whose pair or set the compositional split leaves out, in no split: UT-Zappos50K has 33
        materials, its compositional split 16. Without metadata these are the folders named "attribute_object".
    """

    split: str = ""
    several: Literal["skip", "first"] = "skip"
    beyond: bool = False

    name: ClassVar[str] = "czsl"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False
    licence: ClassVar[str] = "research use, see the data set's terms"

    def read(self, source: Source) -> Listing:
        images_or_refuse(source)
        folder = self._folder(source)
        pairs = read_pairs(source, folder)
        records = self._records(source, folder)
        if records is not None:
            items, notes = self._from_records(source, records, pairs)
        else:
            items, notes = self._from_folders(source, pairs)
        if not items:
            raise BadInput(f"{source.path}: no image belongs to a pair of {folder}; check that images and splits match")
        return Listing(items, ("attribute", "object"), ("czsl",), licence=self.licence, notes=tuple(notes))

    def _folder(self, source: Source) -> str:
        folders = {str(PurePosixPath(n).parent): n for n in source.named("train_pairs.txt")}
        if not folders:
            raise BadInput(f"{source.path} holds no train_pairs.txt; give the folder with the compositional splits")
        if self.split:
            wanted = [f for f in folders if PurePosixPath(f).name == self.split]
            if not wanted:
                raise BadInput(
                    f"{source.path} has no split {self.split!r}; {nearest(self.split, {PurePosixPath(f).name for f in folders})}"
                )
            return wanted[0]
        if len(folders) > 1:
            names = sorted(PurePosixPath(f).name for f in folders)
            raise BadInput(f"{source.path} holds several splits ({', '.join(names)}); name one with split=NAME")
        return next(iter(folders))

    def _records(self, source: Source, folder: str) -> list[dict[str, Any]] | None:
        split = PurePosixPath(folder).name
        found = shallowest(source.named(f"metadata_{split}.t7", f"metadata_{split}.pt", "metadata.t7"))
        if not found:
            return None
        import torch

        where = source.where(found[0])
        try:
            records = torch.load(io.BytesIO(source.read(found[0])), weights_only=True)
        except Exception as error:  # a damaged file ends in whatever its bytes lead the reader to
            raise BadInput(f"{where} is not a torch file of plain values; fetch it again") from error
        if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
            raise BadInput(f"{where} is not a list of records (image, attr, obj, set); fetch it again")
        for i, record in enumerate(records):
            if missing := {"image", "attr", "obj", "set"} - record.keys():
                raise BadInput(f"{where}, record {i} has no {sorted(missing)[0]!r}; fetch the file again")
        return records

    def _from_records(
        self, source: Source, records: list[dict[str, Any]], pairs: dict[tuple[str, str], str]
    ) -> tuple[list[Item], list[str]]:
        images = ImageNames(source)
        found: dict[str, list[Item]] = {}
        unlabelled = foreign = 0
        lost: list[str] = []
        for record in records:
            attribute, thing, part = str(record["attr"]), str(record["obj"]), str(record["set"])
            if "NA" in (attribute, thing) or (part == "NA" and not self.beyond):
                unlabelled += 1
                continue
            outside = (attribute, thing) not in pairs or part not in SETS
            if outside and not self.beyond:
                foreign += 1
                continue
            # UT-Zappos names the original path in _image and the reorganised one in image.
            names = [str(record[key]) for key in ("image", "_image") if key in record]
            file = next((f for f in map(images.find, names) if f), None)
            if file is None:
                lost.append(names[0])
                continue
            item = Item(file, {"attribute": attribute, "object": thing}, {"czsl": "" if outside else SETS[part]})
            found.setdefault(file, []).append(item)
        items = [
            own[0] for own in found.values() if self.several == "first" or all(i.columns == own[0].columns for i in own)
        ]
        notes = []
        if unlabelled:
            notes.append(f"{unlabelled} records without attribute, object or set (NA) were left out")
        if foreign:
            notes.append(f"{foreign} records whose pair is in none of the pair lists were left out")
        if len(found) > len(items):
            notes.append(
                f"{len(found) - len(items)} images that are recorded with several pairs were left out (several=first keeps them)"
            )
        if lost:
            if not found:
                raise BadInput(f"{source.path}: none of the metadata's images is there, first {lost[0]}")
            notes.append(f"{len(lost)} images of the metadata are missing, first {lost[0]}")
        return items, notes

    def _from_folders(self, source: Source, pairs: dict[tuple[str, str], str]) -> tuple[list[Item], list[str]]:
        spelt = {f"{a}{between}{b}": (a, b) for a, b in pairs for between in (" ", "_")}
        any_case = {name.lower(): pair for name, pair in spelt.items()}
        items, other = [], 0
        for file in source.images:
            folder = PurePosixPath(file).parent.name
            pair = spelt.get(folder) or any_case.get(folder.lower())
            words = folder.replace("_", " ").split()
            if pair is None and not (self.beyond and len(words) == 2):
                other += 1
                continue
            pair = pair or (words[0], words[1])
            items.append(Item(file, {"attribute": pair[0], "object": pair[1]}, {"czsl": pairs.get(pair, "")}))
        notes = ["no metadata file: splits are those of the pairs, held-out images of training pairs are in train"]
        if other:
            notes.append(f"{other} images in folders that no pair list names were left out")
        return items, notes


def read_pairs(source: Source, folder: str) -> dict[tuple[str, str], str]:
    """Pairs of the three text files with the split each is in, train before valid before test."""
    pairs: dict[tuple[str, str], str] = {}
    for part, split in SETS.items():
        name = f"{folder}/{part}_pairs.txt".removeprefix("./")
        if name not in source.names:
            if split == "valid":
                continue
            raise BadInput(f"{source.where(name)} is missing; give the whole split folder")
        for number, line in enumerate(source.text(name).splitlines(), start=1):
            words = line.split()
            if not words:
                continue
            if len(words) != 2:
                raise BadInput(f"{source.where(name)}, line {number}: {line!r} is not 'attribute object'; fix the line")
            pairs.setdefault((words[0], words[1]), split)
    return pairs


@dataclass(frozen=True)
class MitStates(SplitPairs):
    """MIT-States (Isola, Lim, Adelson, CVPR 2015): objects in states. See `SplitPairs` for the layout."""

    name: ClassVar[str] = "mit-states"


@dataclass(frozen=True)
class UtZappos(SplitPairs):
    """UT-Zappos50K (Yu & Grauman, CVPR 2014): shoes by material and type. See `SplitPairs` for the layout."""

    name: ClassVar[str] = "ut-zappos"


@dataclass(frozen=True)
class CGqa(SplitPairs):
    """C-GQA (Naeem, Xian, Tombari, Akata, CVPR 2021), from GQA. Its image names carry no labels: the metadata are needed.

    See `SplitPairs` for the layout.
    """

    name: ClassVar[str] = "c-gqa"
