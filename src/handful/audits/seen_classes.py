"""Which classes has an encoder seen? By identity, by a hierarchy (WordNet), and by the meaning of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import wordnet
from handful.errors import BadInput, HandfulError, Missing
from handful.files import read_text
from handful.nets.lite_minilm import imagenet_classes

WNID = re.compile(r"n\d{8}")
ALIKE = 0.75
"""Cosine of two names' sentence vectors from which they count as one thing."""


def seen_list(spec: str | Path) -> list[str]:
    """The classes an encoder was trained on: ``imagenet`` for the 1,000 of ILSVRC-2012, or a file with a name or wnid in each line.

    Of a CSV the first column counts. Lines that begin with ``#`` are comments.
    """
    if str(spec) == "imagenet":
        return imagenet_classes()
    path = Path(spec)
    if not path.is_file():
        raise Missing(f"{spec} does not exist; give imagenet, or a file with one class seen in each line")
    try:
        lines = read_text(path).splitlines()
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no list of classes: it is not text") from error
    names = [line.split(",")[0].strip().strip('"') for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise BadInput(f"{path} names no class; write one in each line")
    return names


def seen_like(
    names: Sequence[str], seen: Sequence[str], *, tree: Taxonomy | None = None, meaning: bool = True
) -> list[str]:
    """For each class why it counts as seen, in words; an empty string where nothing says so.

    A class was seen if its name or wnid is in the list; if one of its WordNet synsets is, lies below one that is, or has one
    below it (who has seen three hundred birds has seen *bird*); or if its name means nearly the same as one that is (cosine
    of sentence vectors, where a sentence encoder is installed).

    Parameters
    ----------
    names : class names or wnids, as the collection has them.
    seen : the classes seen, by name or wnid.
    tree : the hierarchy to look in; WordNet where it is installed.
    meaning : compare what names mean as well.
    """
    tree = tree or _wordnet()
    listed = {folded(s): s for s in seen}
    why = [f"the same class ({listed[folded(n)]})" if folded(n) in listed else "" for n in names]
    if tree is not None:
        known = _Lemmas(tree)
        nodes = np.unique(np.concatenate([np.zeros(0, np.int64), *(known.of(s) for s in seen)]).astype(np.int64))
        below = set(tree.descendants(nodes).tolist()) if len(nodes) else set()
        above = set(tree.ancestors(nodes).tolist()) if len(nodes) else set()
        direct = set(nodes.tolist())
        for i, name in enumerate(names):
            own = known.of(name).tolist()
            for group, words in (
                (direct, "the same class"),
                (below, "a kind of a seen class"),
                (above, "seen classes are kinds of it"),
            ):
                hit = next((n for n in own if n in group), None)
                if hit is not None and not why[i]:
                    why[i] = f"{words} ({tree.words(hit)[0]})"
    left = [i for i, reason in enumerate(why) if not reason]
    if meaning and left:
        for i, reason in zip(left, _by_meaning([names[i] for i in left], seen, tree), strict=True):
            why[i] = reason
    return why


def folded(name: str) -> str:
    """A name as people mean it: no case, no underscores, no trailing number (``Apple Braeburn 1``)."""
    if WNID.fullmatch(name):
        return name
    return re.sub(r"\s+\d+$", "", re.sub(r"[\s_\-]+", " ", name).strip().lower())


class _Lemmas:
    """From a name to the nodes that bear it; built once for a hierarchy."""

    def __init__(self, tree: Taxonomy):
        self.tree = tree
        self.by: dict[str, list[int]] = {}
        for node, words in enumerate(tree.all_words):
            for word in words:
                self.by.setdefault(folded(word), []).append(node)

    def of(self, name: str) -> np.ndarray:
        """Node numbers; a plural is looked up as its singular, a name with a first comma by what stands before it."""
        if name in self.tree:
            return self.tree.index(name)
        word = folded(name)
        for form in (word, word.partition(",")[0], word.removesuffix("s"), word.removesuffix("es")):
            if form in self.by:
                return np.asarray(self.by[form])
        return np.zeros(0, np.int64)


def _wordnet() -> Taxonomy | None:
    try:
        return wordnet()
    except HandfulError:
        return None


def _by_meaning(names: Sequence[str], seen: Sequence[str], tree: Taxonomy | None) -> list[str]:
    """Names whose sentence vector is nearly that of a seen class; nothing without a sentence encoder."""
    from handful.data.sentences import sentence_vectors

    said = [tree.words(s)[0] if tree is not None and s in tree else folded(s) for s in seen]
    try:
        own, theirs = (
            sentence_vectors([f"a photo of a {n}" for n in some]) for some in ([folded(n) for n in names], said)
        )
    except HandfulError:
        return [""] * len(names)
    cosine = (own / np.linalg.norm(own, axis=1, keepdims=True)) @ (
        theirs / np.linalg.norm(theirs, axis=1, keepdims=True)
    ).T
    best = cosine.argmax(1)
    return [
        f"means nearly the same ({said[j]}, {cosine[i, j]:.2f})" if cosine[i, j] >= ALIKE else ""
        for i, j in enumerate(best)
    ]
