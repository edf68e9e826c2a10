"""Visual Genome: of the many annotations of an image, the pair of the largest box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from handful.data.importers import Importer, Item, Listing, images_or_refuse
from handful.data.importers.pairs import ImageNames, one_named, read_records
from handful.data.sources import Source
from handful.errors import BadInput

KINDS = {"relationship": ("relationships.json", "action"), "attribute": ("attributes.json", "attribute")}


@dataclass(frozen=True)
class VisualGenome(Importer):
    """Krishna et al.: Visual Genome, International Journal of Computer Vision 2017.

    ``relationships.json`` or ``attributes.json`` and the images ``VG_100K/ID.jpg``, ``VG_100K_2/ID.jpg``. RLCL keeps, of
    each image, the label of the largest bounding box only. With ``pairs=relationship`` (its action-object pairs) that is
    (predicate, object) of the relationship whose OBJECT has the largest box; with ``pairs=attribute`` (attribute, object) of
    the object with the largest box among those that have an attribute, its first attribute. Names are lower case; equal
    boxes go to the one listed first; annotations without a name are passed over.

    Parameters
    ----------
    pairs
        ``relationship`` or ``attribute``.
    verbs
        Keep only relationships whose predicate's synset is a verb ("ride.v.02"): "on" and "of" are no actions. Records
        without a synset are then left out.
    several
        What becomes of an image with several different pairs: the one of the ``largest`` box (the default, as RLCL does),
        the ``first`` that is listed, or ``skip``.
    """

    pairs: str = "relationship"
    verbs: bool = True
    several: Literal["largest", "first", "skip"] = "largest"

    name: ClassVar[str] = "visual-genome"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        if self.pairs not in KINDS:
            raise BadInput(f"visual-genome: pairs is {' or '.join(KINDS)}, not {self.pairs!r}")
        images_or_refuse(source)
        file_name, column = KINDS[self.pairs]
        file = one_named(source, file_name)
        images, items = ImageNames(source), []
        bare = lost = several = 0
        for record in read_records(source, file):
            where = f"{source.where(file)}, image {record.get('image_id', record.get('id'))}"
            try:
                found = list(self._labels(record))
                number = record["image_id"] if "image_id" in record else record["id"]
            except KeyError as error:
                raise BadInput(f"{where} lacks {error}; give Visual Genome's own file") from error
            except (TypeError, AttributeError) as error:
                raise BadInput(f"{where} is not as Visual Genome writes it ({error}); fetch the file again") from error
            if not found:
                bare += 1
                continue
            if self.several == "skip" and len({label[1:] for label in found}) > 1:
                several += 1
                continue
            path = images.find(f"{number}.jpg")
            if path is None:
                lost += 1
                continue
            _, first, thing = found[0] if self.several == "first" else max(found, key=lambda f: f[0])
            items.append(Item(path, {column: first, "object": thing}))
        whose = {"largest": "those of the largest box", "first": "the first listed", "skip": "the only ones"}
        notes = [f"labels are {whose[self.several]}: {self.pairs} pairs"]
        if bare:
            notes.append(f"{bare} images without such a pair were left out")
        if several:
            notes.append(f"{several} images with several pairs were left out (several=first keeps them)")
        if lost:
            notes.append(f"{lost} annotated images are missing")
        return Listing(items, (column, "object"), licence="CC BY 4.0", notes=tuple(notes))

    def _labels(self, record: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
        """(area, first primitive, object) of every usable annotation."""
        if self.pairs == "attribute":
            labelled = [(_first(thing.get("attributes")), thing) for thing in record["attributes"]]
        else:
            labelled = [
                (_clean(relation["predicate"]), relation["object"])
                for relation in record["relationships"]
                if not self.verbs or any(".v." in str(s) for s in relation.get("synsets") or ())
            ]
        for first, thing in labelled:
            noun = _first(thing["names"]) if "names" in thing else _clean(thing["name"])
            if first and noun:
                yield thing["w"] * thing["h"], first, noun


def _first(names: list[str] | None) -> str:
    return next(filter(None, map(_clean, names or ())), "")


def _clean(text: str | None) -> str:
    return " ".join(str(text or "").lower().split())
