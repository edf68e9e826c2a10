"""Test classes that are above, below or nearly the same as a training class: a score on them is no score on new classes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.audits.zero_shot.diagnosis import hierarchy
from handful.data.collection import Collection
from handful.data.taxonomy import Taxonomy
from handful.data.taxonomy_csv import from_csv
from handful.errors import BadInput, HandfulError
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look

ORDER = ("train", "valid", "test")
NEAR = 2
"""Steps in the hierarchy within which two classes that share a word are nearly the same."""


def tree_of(look: Look) -> Taxonomy:
    """The named hierarchy, or the collection's own."""
    if look.taxonomy is None:
        return hierarchy(look.collection)
    tree = from_csv(look.taxonomy)
    names = look.collection.whole.class_names
    if lost := [n for n in names if n not in tree]:
        raise BadInput(
            f"{len(lost)} classes of {look.collection.card.name} are not in {look.taxonomy} (first {lost[0]}); add them"
        )
    return tree


def kin(tree: Taxonomy, one: str, others: list[str]) -> tuple[str, str] | None:
    """A class among others that is an ancestor, a descendant or a near synonym of this one, and which of these."""
    if not others:
        return None
    above = set(tree.ids[tree.ancestors(one)].tolist())
    below = set(tree.ids[tree.descendants(one)].tolist())
    for other in others:
        if other in above:
            return other, "below"
        if other in below:
            return other, "above"
    words = {w.lower() for w in tree.words(one)} if len(tree.text[1]) else set()
    same = [o for o in others if words & {w.lower() for w in tree.words(o)}] if words else []
    for other, far in zip(same, tree.distances([one], same)[0].tolist() if same else [], strict=True):
        if 0 <= far <= NEAR:
            return other, "nearly the same as"
    return None


class Relatives(Repair):
    """A test class moves to the split of its relative; a valid one to train."""

    name: ClassVar[str] = "relatives"
    what: ClassVar[str] = "test classes above, below or nearly the same as a training class are moved to it"
    cost: ClassVar[float] = 0.3

    def missing(self, collection: Collection) -> str:
        return lacking(collection)

    def find(self, look: Look) -> list[Entry]:
        tree, current = tree_of(look), look.current
        out: list[Entry] = []
        held = {s: list(current.part(s).class_names) for s in ORDER if current.has(s)}
        rows, whole = look.rows, current.whole
        of_class = {name: rows[whole.members[c]] for c, name in enumerate(whole.class_names)}
        while True:
            found = self._first(tree, held)
            if found is None:
                return out
            name, split, to, other, how = found
            held[split].remove(name)
            held[to].append(name)
            why = f"{name} ({split}) is {how} {other} ({to})"
            measure, far = "steps between the two in " + tree.source, int(tree.distances([name], [other])[0, 0])
            out.append(
                self.entry(
                    "move",
                    why,
                    measure,
                    far,
                    of_class[name],
                    to=to,
                    facts={"class": name, "relative": other, "how": how},
                )
            )

    @staticmethod
    def _first(tree: Taxonomy, held: dict[str, list[str]]) -> tuple[str, str, str, str, str] | None:
        for later in reversed(ORDER):
            for name in held.get(later, []):
                for to in ORDER[: ORDER.index(later)]:
                    if to in held and (found := kin(tree, name, held[to])) is not None:
                        return name, later, to, *found
        return None


def lacking(collection: Collection) -> str:
    """Why a collection's split cannot be asked about a hierarchy; empty if it can."""
    if not (collection.has("train") and collection.has("test")):
        return "it has no train and test split"
    if set(collection.train.class_names) & set(collection.test.class_names):
        return "its test classes are not apart from its training classes"
    try:
        hierarchy(collection)
    except HandfulError as error:
        return str(error)
    return ""


def apart(tree: Taxonomy, names: list[str]) -> np.ndarray:
    """Distances between classes, as floats; no path is refused."""
    found = tree.distances(names, names).astype(np.float64)
    if (found < 0).any():
        raise BadInput(f"some classes have no path to one another in {tree.source}; give them a common root")
    return found
