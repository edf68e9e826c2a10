"""Omniglot: two official zips (or folders) of drawings, with turned drawings as further classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from handful.data.importers import Importer, Item, Listing
from handful.data.sources import Source, open_source
from handful.errors import BadInput, Missing

PLACE = re.compile(r"(?:^|.*/)images_(background|evaluation)/([^/]+)/(character\d+)/[^/]+\.png$")
HALVES = {"background": "train", "evaluation": "test"}
SPLIT_FILES = {"train.txt": "train", "val.txt": "valid", "test.txt": "test"}


@dataclass(frozen=True)
class Omniglot(Importer):
    """Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic program induction, Science 2015.

    Columns ``alphabet``, ``character``, ``rotation`` (rot000, rot090, rot180, rot270, anticlockwise); the class is all
    three. Ink is 255 and paper 0, the other way round than in the files. Two split schemes:

    - ``vinyals`` (Vinyals et al., Matching Networks, NIPS 2016, as published with Prototypical Networks, Snell et al.,
      NIPS 2017): 1028 + 172 + 423 characters, each in four rotations as four classes. It needs the split files
      ``train.txt``, ``val.txt``, ``test.txt`` (lines alphabet/character/rotation) in a folder ``vinyals`` of the source,
      or in ``splits``.
    - ``background``: the authors' own halves, background to train on, evaluation to test on; unturned drawings only, the
      turned ones are in no split of it.

    Parameters
    ----------
    rotations
        4 for every quarter turn, 1 for the drawings as they are.
    splits
        A folder with the Vinyals split files, where the source does not hold them.
    """

    rotations: int = 4
    splits: str = ""

    name: ClassVar[str] = "omniglot"
    size: ClassVar[int] = 28
    grey: ClassVar[bool] = True

    def read(self, source: Source) -> Listing:
        if self.rotations not in (1, 4):
            raise BadInput(f"omniglot: rotations must be 1 or 4, not {self.rotations}")
        places = [(n, m.groups()) for n in source.names if (m := PLACE.match(n))]
        if not places:
            raise BadInput(
                f"{source.path} holds no images_background/ALPHABET/characterNN/*.png nor images_evaluation/...; "
                "give the folder with Omniglot's two official zips"
            )
        of_class, notes = self._vinyals(source), []
        schemes = ("vinyals", "background") if of_class else ("background",)
        if not of_class:
            notes.append("no Vinyals split files (vinyals/train.txt, val.txt, test.txt) in the source: one scheme only")
        turns = [f"rot{90 * k:03d}" for k in range(self.rotations)]
        items, known = [], set()
        for file, (half, alphabet, character) in places:
            for turn, rotation in enumerate(turns):
                key = f"{alphabet}/{character}/{rotation}"
                known.add(key)
                splits = {"background": HALVES[half] if turn == 0 else ""}
                if of_class:
                    splits["vinyals"] = of_class.get(key, "")
                columns = {"alphabet": alphabet, "character": character, "rotation": rotation}
                items.append(Item(file, columns, splits, turn))
        absent = sorted(k for k in of_class if k not in known and (self.rotations == 4 or k.endswith("rot000")))
        if absent:
            raise BadInput(
                f"{source.path}: {len(absent)} classes of the Vinyals split have no drawings, first {absent[0]}"
            )
        labels = ("alphabet", "character", "rotation")
        return Listing(items, labels, schemes, invert=True, licence="MIT", notes=tuple(notes))

    def _vinyals(self, source: Source) -> dict[str, str]:
        place = open_source(Path(self.splits)) if self.splits else source
        files = place.named(*SPLIT_FILES)
        if not self.splits:
            files = [f for f in files if "vinyals" in f.lower().split("/")[:-1]]
        found = {f.rpartition("/")[2]: f for f in files}
        if not found and not self.splits:
            return {}
        if set(found) != set(SPLIT_FILES):
            lacking = ", ".join(sorted(set(SPLIT_FILES) - set(found)))
            raise Missing(f"{place.path}: the Vinyals split lacks {lacking}; put all three files in one folder")
        of_class: dict[str, str] = {}
        for name, split in SPLIT_FILES.items():
            for number, line in enumerate(place.text(found[name]).splitlines(), start=1):
                key = line.strip().strip("/")
                if key and of_class.setdefault(key, split) != split:
                    raise BadInput(f"{place.where(found[name])}, line {number}: {key} is in two splits; keep one")
        return of_class
