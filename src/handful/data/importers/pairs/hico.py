"""HICO: humans interacting with common objects."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from handful.data.importers import Importer, Item, Listing, images_or_refuse
from handful.data.importers.arrays import read_mat
from handful.data.importers.pairs import ImageNames, one_named
from handful.data.sources import Source
from handful.errors import BadInput


@dataclass(frozen=True)
class Hico(Importer):
    """Chao, Wang, He, Wang, Deng: HICO, a benchmark for recognizing human-object interactions, ICCV 2015.

    ``anno.mat`` (list_action with vname and nname; list_train, list_test; anno_train, anno_test of +1, -1, 0 and NaN) and
    the folders of images. Columns ``action`` and ``object``; the authors' halves are the scheme ``hico``.

    Parameters
    ----------
    several
        What becomes of an image with several positive interactions: ``skip`` (the default: its one label would be a
        choice) or ``first`` in the order of the 600.
    none
        Keep the interactions "no_interaction".
    ing
        Name actions by the file's -ing forms ("riding"), as imSitu and most of Visual Genome do.
    """

    several: Literal["skip", "first"] = "skip"
    none: bool = False
    ing: bool = False

    name: ClassVar[str] = "hico"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        images_or_refuse(source)
        file = one_named(source, "anno.mat")
        shown = "list_action.vname_ing" if self.ing else "list_action.vname"
        halves_of = [f"{kind}_{part}" for kind in ("list", "anno") for part in ("train", "test")]
        annotation = _mat(source, file, ["list_action.vname", shown, "list_action.nname", *halves_of])
        try:
            verbs, named, things = (_texts(annotation[k]) for k in ("list_action.vname", shown, "list_action.nname"))
            actions = list(zip(verbs, named, things, strict=True))
            halves = {
                part: (_texts(annotation[f"list_{part}"]), np.asarray(annotation[f"anno_{part}"]))
                for part in ("train", "test")
                if f"list_{part}" in annotation
            }
        except (KeyError, ValueError) as error:
            raise BadInput(f"{source.where(file)} lacks {error}; give HICO's own anno.mat") from error
        for part, (names, marks) in halves.items():
            if marks.size != len(actions) * len(names):
                raise BadInput(
                    f"{source.where(file)}: anno_{part} has shape {marks.shape} for {len(actions)} interactions and "
                    f"{len(names)} images; give HICO's own anno.mat"
                )
        kept = [self.none or verb != "no_interaction" for verb, _, _ in actions]
        images, items = ImageNames(source), []
        bare = several = lost = 0
        for part, (names, marks) in halves.items():
            marks = marks.reshape(len(actions), len(names))
            positive = (marks == 1) & np.asarray(kept)[:, None]
            for column, name in enumerate(names):
                found = np.flatnonzero(positive[:, column])
                if not len(found):
                    bare += 1
                    continue
                if len(found) > 1 and self.several == "skip":
                    several += 1
                    continue
                path = images.find(f"{part}2015/{name}") or images.find(name)
                if path is None:
                    lost += 1
                    continue
                _, action, thing = actions[int(found[0])]
                items.append(Item(path, {"action": action, "object": thing}, {"hico": part}))
        notes = []
        if bare:
            notes.append(f"{bare} images without a positive interaction were left out")
        if several:
            notes.append(f"{several} images with several interactions were left out (several=first keeps them)")
        if lost:
            notes.append(f"{lost} listed images are missing")
        return Listing(items, ("action", "object"), ("hico",), licence="research use", notes=tuple(notes))


def _texts(values: Any) -> list[str]:
    return [str(v) for v in np.asarray(values).reshape(-1)]


def _mat(source: Source, file: str, names: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="handful-hico-") as place:
        copy = Path(place) / "anno.mat"
        copy.write_bytes(source.read(file))
        found = read_mat(copy, names, source.where(file))
    return {name: array for name, array in found.items() if array is not None}
