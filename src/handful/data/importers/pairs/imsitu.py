"""imSitu: situations, an activity and the things that take part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from handful.data.importers import Importer, Item, Listing, images_or_refuse
from handful.data.importers.pairs import ImageNames, one_named, read_object, shallowest
from handful.data.sources import Source
from handful.errors import BadInput

DOERS = {
    "ailing": "",
    "auctioning": "seller",
    "boating": "boaters",
    "commuting": "traveler",
    "congregating": "individuals",
    "educating": "teacher",
    "gathering": "gatherers",
    "hauling": "carrier",
    "leaking": "substance",
    "meeting": "party1",
    "piggybacking": "rider",
    "swarming": "agenttype",
}
"""The doer of verbs without an agent role, where it is not named after the verb: the subjects of the authors' own sentences
(my89/imSitu, 343a4a7, simple_sentence_realization). Who ails does nothing: the published pairs have him as the object."""
PARTS = {"train.json": "train", "dev.json": "valid", "test.json": "test"}


@dataclass(frozen=True)
class ImSitu(Importer):
    """Yatskar, Zettlemoyer, Farhadi: Situation recognition, CVPR 2016.

    ``train.json``, ``dev.json``, ``test.json`` (image -> verb and three annotators' frames), ``imsitu_space.json`` (verbs
    with the order of their roles, nouns with their glosses) and the images. A pair is (verb, object): the object fills the
    verb's first role that is neither the doer nor the place, by the noun that most annotators gave (the first annotator's on a
    tie), named by its first gloss. The authors' splits are the scheme ``imsitu``.

    Parameters
    ----------
    skip
        Roles that are never the object. Nor is the doer of the 26 verbs without an agent role: one named after the verb
        (teaching: teacher) or listed in ``DOERS`` (auctioning: seller), else their first role.
    several
        Which noun, where the annotators gave several: the one of ``most`` annotators (the default), the ``first``
        annotator's, or ``skip``: the image is left out.
    """

    skip: str = "agent,agents,place"
    several: Literal["most", "first", "skip"] = "most"

    name: ClassVar[str] = "imsitu"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        images_or_refuse(source)
        space_file = one_named(source, "imsitu_space.json")
        space = read_object(source, space_file)
        if not all(isinstance(space.get(key), dict) for key in ("nouns", "verbs")):
            raise BadInput(f"{source.where(space_file)} has no nouns and verbs; give imSitu's own file")
        skipped = {role.strip() for role in self.skip.split(",")}
        images, items = ImageNames(source), []
        bare = lost = 0
        parts = [(n, split) for file, split in PARTS.items() for n in shallowest(source.named(file))[:1]]
        if not parts:
            raise BadInput(f"{source.path} holds none of {', '.join(PARTS)}; give imSitu's annotation files")
        for file, split in parts:
            for image, facts in read_object(source, file).items():
                thing = self._object(facts, space, skipped, f"{source.where(file)}, {image}")
                if not thing:
                    bare += 1
                    continue
                path = images.find(image)
                if path is None:
                    lost += 1
                    continue
                items.append(Item(path, {"action": facts["verb"], "object": thing}, {"imsitu": split}))
        notes = []
        if bare:
            differ = ", or several" if self.several == "skip" else ""
            notes.append(f"{bare} images whose verb has no object role, or no noun in it{differ}, were left out")
        if lost:
            notes.append(f"{lost} annotated images are missing")
        return Listing(items, ("action", "object"), ("imsitu",), licence="research use", notes=tuple(notes))

    def _object(self, facts: Any, space: Any, skipped: set[str], where: str) -> str:
        try:
            order = space["verbs"][facts["verb"]]["order"]
            # A verb without an agent has a doer of another name: the teacher, the seller; else it is the first role.
            doers = [r for r in order if r in skipped - {"place"} or _does(r, facts["verb"])]
            doers = doers or ([] if facts["verb"] in DOERS else order[:1])
            role = next((r for r in order if r not in skipped and r not in doers), None)
            nouns = [frame[role] for frame in facts["frames"] if frame.get(role)] if role else []
            if not nouns:
                return ""
            if self.several == "skip" and len(set(nouns)) > 1:
                return ""
            most = Counter(nouns).most_common(1)[0][1]
            noun = nouns[0] if self.several == "first" else next(n for n in nouns if nouns.count(n) == most)
            return str(space["nouns"][noun]["gloss"][0])
        except KeyError as error:
            raise BadInput(
                f"{where}: {error} is not in imsitu_space.json nor in the record; use files of one release"
            ) from error
        except (TypeError, AttributeError, IndexError) as error:
            raise BadInput(f"{where}: not as imSitu writes it ({error}); fetch the file again") from error


def _does(role: str, verb: str) -> bool:
    """Whether a role is the verb's doer, mostly by its name: teaching, teacher; selling, seller; skating, skater."""
    stem = verb.removesuffix("ing")
    return role == DOERS.get(verb) or role in (f"{stem}er", f"{stem}or", f"{stem}r")
