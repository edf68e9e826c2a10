"""Are class names good descriptions? How common their words are, and whether a word means this class first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from handful.data.taxonomy import Taxonomy
from handful.data.words import WordVectors
from handful.errors import BadInput, Missing, require
from handful.files import read_rows


def read_counts(path: str | Path, what: str = "class") -> dict[str, float]:
    """Rows ``name,count`` by name; a header whose second word is ``count`` is skipped, repeats are summed."""
    file = Path(path)
    counts: dict[str, float] = {}
    try:
        rows = read_rows(file)
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist; give rows {what},count") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} is not a text file of rows {what},count ({error})") from error
    for number, row in enumerate(rows, start=1):
        cells = [c.strip() for c in row]
        if not any(cells) or (number == 1 and [c.lower() for c in cells[1:]] == ["count"]):
            continue
        try:
            name, count = cells[0], float(cells[1])
        except (IndexError, ValueError) as error:
            raise BadInput(f"{file}, row {number}: expected {what},count, found {','.join(row)[:80]!r}") from error
        if not 0 <= count < float("inf"):
            raise BadInput(f"{file}, row {number}: the count of {name} is {cells[1]}; give zero or more")
        counts[name] = counts.get(name, 0.0) + count
    if not counts:
        raise BadInput(f"{file} holds no count; give rows {what},count")
    return counts


@dataclass(frozen=True)
class Frequency:
    """How often words occur: counts of a file, or Zipf values of ``wordfreq`` (the log10 of uses in a billion words).

    The paper's threshold of 500 occurrences in Wikipedia (about a billion words then) is near Zipf 2.7.
    """

    unit: str
    threshold: float
    counts: dict[str, float] | None = None

    @classmethod
    def wordfreq(cls, threshold: float = 2.7) -> Frequency:
        require("wordfreq", "words")
        return cls(unit="zipf", threshold=threshold)

    @classmethod
    def read(cls, path: str | Path, threshold: float = 500.0) -> Frequency:
        """Counts from rows ``word,count`` (a header ``word,count`` is skipped)."""
        counts: dict[str, float] = {}
        for word, count in read_counts(path, "word").items():
            counts[word.lower()] = counts.get(word.lower(), 0.0) + count
        return cls(unit="count", threshold=threshold, counts=counts)

    def of(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Frequency of each word or phrase; 0 for one never seen."""
        if self.counts is None:
            zipf = require("wordfreq", "words").zipf_frequency
            return np.array([zipf(word.replace("_", " "), "en") for word in words])
        return np.array(
            [self.counts.get(word.lower(), self.counts.get(word.lower().replace(" ", "_"), 0)) for word in words]
        )

    def common(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        return values >= self.threshold


def labels_of(taxonomy: Taxonomy, classes: Sequence[str] | NDArray, vectors: WordVectors | None = None) -> list[str]:
    """The word that stands for each class: the first of its synonyms that has a vector, else the first."""
    out = []
    for name in classes:
        words = taxonomy.words(name)
        out.append(next((w for w in words if vectors is not None and vectors.vector(w) is not None), words[0]))
    return out


@dataclass(frozen=True)
class SharedLabels:
    """Polysemy by counting: shares of labels that name another concept too."""

    labels: float
    """Share of the classes' labels (with multiplicity) that some other concept of the taxonomy carries."""
    classes: float
    """Share of the classes that carry a label of another class of the list."""


def shared_labels(
    taxonomy: Taxonomy, classes: Sequence[str], *, phrases: bool = False, elsewhere: Collection[str] = ()
) -> SharedLabels:
    """Shares of shared labels; single-word labels only, unless ``phrases``.

    ``elsewhere`` are words of concepts outside the taxonomy: with WordNet's verbs, adjectives and adverbs
    (:func:`handful.data.wordnet.other_words`) half of ImageNet's labels are shared, as the paper says; among nouns 46%.
    """
    chosen = set(taxonomy.index(classes).tolist())
    owners: dict[str, list[int]] = defaultdict(list)
    for node, words in enumerate(taxonomy.all_words):
        for word in dict.fromkeys(w.lower() for w in words):
            if phrases or " " not in word:
                owners[word].append(node)
    labels = [len(nodes) > 1 or w in elsewhere for w, nodes in owners.items() for node in nodes if node in chosen]
    if not labels:
        raise BadInput("none of these classes has a single-word label; count phrases too")
    clash = {n for nodes in owners.values() if len(chosen.intersection(nodes)) > 1 for n in nodes if n in chosen}
    return SharedLabels(labels=float(np.mean(labels)), classes=len(clash) / len(chosen))


@dataclass(frozen=True, eq=False)
class Meanings:
    """Per class, its word and whether the word means this class first; ``score`` is s(w, c) of Eq. 7-8.

    ``described`` is False where the class's words have no vector, so that nothing can be said.
    """

    classes: NDArray[np.str_]
    words: tuple[str, ...]
    score: NDArray[np.float64]
    rivals: NDArray[np.int64]
    primary: NDArray[np.bool_]
    described: NDArray[np.bool_]


def meanings(
    taxonomy: Taxonomy, vectors: WordVectors, classes: Sequence[str], *, among: Sequence[str] | None = None
) -> Meanings:
    """Primary and secondary meaning of class words (Eq. 6-8).

    A word belongs to the one class, of all in ``among`` (default: ``classes``) that carry it, whose parents' and
    children's mean vector has the highest cosine with the word's own. A class whose word belongs to another is a
    secondary meaning; a class with no described neighbour loses to any that has one.
    """
    pool = np.unique(taxonomy.index(classes if among is None else [*classes, *among]))
    nodes = taxonomy.index(classes)
    own = dict(zip(pool.tolist(), labels_of(taxonomy, pool, vectors), strict=True))
    carriers: dict[str, list[int]] = defaultdict(list)
    for node in pool.tolist():
        for word in dict.fromkeys(w.lower() for w in taxonomy.words(node)):
            carriers[word].append(node)
    scores: dict[tuple[str, int], float] = {}

    def score(word: str, node: int) -> float:
        key = (word, node)
        if key not in scores:
            scores[key] = similarity(taxonomy, vectors, word, node)
        return scores[key]

    words = [own[n].lower() for n in nodes.tolist()]
    described = np.array([vectors.vector(own[n]) is not None for n in nodes.tolist()], dtype=bool)
    mine = np.array([score(w, n) if ok else -np.inf for w, n, ok in zip(words, nodes.tolist(), described, strict=True)])
    rivals = np.array([len(carriers[w]) - 1 for w in words])
    primary = np.zeros(len(nodes), dtype=bool)
    for i, (word, node) in enumerate(zip(words, nodes.tolist(), strict=True)):
        if described[i]:
            # The lowest id wins an exact tie, so that a word never has two primary meanings.
            best = max(carriers[word], key=lambda c: (score(word, c), -c))
            primary[i] = best == node
    return Meanings(taxonomy.ids[nodes], tuple(own[n] for n in nodes.tolist()), mine, rivals, primary, described)


def similarity(taxonomy: Taxonomy, vectors: WordVectors, word: str, node: int) -> float:
    """s(w, c) of Eq. 7: the cosine of a word's vector with the mean one of a class's parents and children."""
    around = np.union1d(taxonomy.parents(np.array([node])), taxonomy.children(np.array([node])))
    near = [vectors.vector(label) for label in labels_of(taxonomy, around, vectors)]
    found = [v for v in near if v is not None]
    w = vectors.vector(word)
    if w is None or not found:
        return -np.inf
    mean = np.mean(found, axis=0)
    norm = float(np.linalg.norm(w) * np.linalg.norm(mean))
    return float(w @ mean) / norm if norm else -np.inf
