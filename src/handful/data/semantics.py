"""What a zero-shot learner may know of classes: one vector each, and perhaps the hierarchy that they hang in."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from handful.data.collection import Collection
from handful.data.importers.arrays import read_npz
from handful.data.sentences import encoder_name, read_texts, sentence_vectors
from handful.data.taxonomy import Taxonomy
from handful.data.taxonomy_csv import from_csv
from handful.data.wordnet import wordnet
from handful.data.words import Descriptions, WordVectors
from handful.errors import BadInput, Missing
from handful.files import WRONG, read_rows, write_atomically


@dataclass(frozen=True, eq=False, repr=False)
class Semantics:
    """Descriptions of classes, and optionally a hierarchy whose nodes are described too.

    ``nodes`` has one row per node of ``taxonomy``: inner nodes are described where a vector is known and zero elsewhere
    (graph methods then learn from their neighbours); classes must all be described.
    """

    descriptions: Descriptions
    taxonomy: Taxonomy | None = None
    nodes: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.taxonomy is None:
            return
        self.taxonomy.index(self.descriptions.names, where=f"{self.descriptions.source}, classes")
        if self.nodes is None or self.nodes.shape != (len(self.taxonomy), self.dim):
            raise BadInput(f"{self.descriptions.source}: the hierarchy needs one row of {self.dim} numbers a node")

    @classmethod
    def of(
        cls, names: Sequence[str], matrix: NDArray, taxonomy: Taxonomy | None = None, source: str = "given"
    ) -> Semantics:
        """From a matrix with a row per class; inner nodes of the taxonomy are left undescribed."""
        described = Descriptions(tuple(names), np.asarray(matrix, dtype=np.float32), source)
        if taxonomy is None:
            return cls(described)
        nodes = np.zeros((len(taxonomy), described.matrix.shape[1]), dtype=np.float32)
        nodes[taxonomy.index(described.names, where=source)] = described.matrix
        return cls(described, taxonomy, nodes)

    @classmethod
    def of_words(
        cls, taxonomy: Taxonomy, vectors: WordVectors, classes: Sequence[str], *, glosses: bool = False
    ) -> Semantics:
        """Word vectors of the classes' synonyms (or of their glosses), in the graph of the classes and all above them."""
        graph = taxonomy.subgraph(list(classes), with_ancestors=True)

        def describe(node: int) -> NDArray[np.float32] | None:
            return gloss_vector(graph.gloss(node), vectors) if glosses else vectors.vector(graph.words(node))

        found = [describe(i) for i in range(len(graph))]
        own = graph.index(classes)
        missing = [f"{graph.ids[i]} ({graph.words(int(i))[0]})" for i in own if found[i] is None]
        if missing:
            shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            raise BadInput(
                f"{vectors.source}: no vector for {len(missing)} of {len(own)} classes ({shown}); leave them out or give "
                "vectors that cover them"
            )
        nodes = np.stack([np.zeros(vectors.dim, np.float32) if v is None else v for v in found])
        source = f"{'glosses' if glosses else 'words'} of {taxonomy.source} by {vectors.source}"
        return cls(Descriptions(tuple(classes), nodes[own], source), graph, nodes)

    @classmethod
    def of_sentences(cls, taxonomy: Taxonomy, classes: Sequence[str], model: str = "") -> Semantics:
        """Sentence vectors of "synonyms: definition", in the graph of the classes and all above them."""
        graph = taxonomy.subgraph(list(classes), with_ancestors=True)
        texts = [f"{', '.join(graph.words(i))}: {definition(graph.gloss(i))}" for i in range(len(graph))]
        nodes = sentence_vectors(texts, model)
        source = f"sentences of {taxonomy.source} by {encoder_name(model)}"
        return cls(Descriptions(tuple(classes), nodes[graph.index(classes)], source), graph, nodes)

    @property
    def dim(self) -> int:
        return self.descriptions.matrix.shape[1]

    @cached_property
    def id(self) -> str:
        digest = hashlib.sha256("\n".join(self.descriptions.names).encode())
        digest.update(np.ascontiguousarray(self.descriptions.matrix, dtype="<f4").tobytes())
        if self.taxonomy is not None and self.nodes is not None:
            digest.update(self.taxonomy.id.encode() + np.ascontiguousarray(self.nodes, dtype="<f4").tobytes())
        return digest.hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.descriptions.source}#{self.id}"

    __repr__ = __str__

    def shown(self, classes: Sequence[str]) -> tuple[NDArray, ...]:
        """What a support carries for these candidates: their vectors, and with a hierarchy their node numbers."""
        matrix = self.descriptions.of(classes)
        if self.taxonomy is None:
            return (matrix,)
        return matrix, self.taxonomy.index(classes)[:, None]

    def save(self, path: str | Path) -> Path:
        """Names and matrix as .npz, readable by :func:`read_descriptions`."""
        target = Path(path)
        names, matrix = np.array(self.descriptions.names), self.descriptions.matrix

        def write(temporary: Path) -> None:
            with open(temporary, "wb") as file:
                np.savez(file, names=names, matrix=matrix)

        write_atomically(target, write)
        return target


def definition(gloss: str) -> str:
    """A gloss without its examples in quotes."""
    return gloss.split(';  "')[0].split('; "')[0]


def gloss_vector(gloss: str, vectors: WordVectors) -> NDArray[np.float32] | None:
    """Mean vector of a definition's words of four letters or more, each once; examples in quotes are not read."""
    text = definition(gloss).lower()
    words = dict.fromkeys(w for w in "".join(c if c.isalnum() else " " for c in text).split() if len(w) > 3)
    rows = [row for row in (vectors.row(w) for w in words) if row is not None]
    return vectors.matrix[rows].mean(axis=0) if rows else None


def read_descriptions(path: str | Path) -> Descriptions:
    """Descriptions from .npz (``names``, ``matrix``) or .csv (a name, then numbers, one class a row)."""
    file = Path(path)
    if not file.is_file():
        raise Missing(f"{file} does not exist; give .npz (names, matrix) or .csv (name, numbers) descriptions")
    if file.suffix == ".npz":
        try:
            stored = read_npz(file, ("names", "matrix"))
            named = tuple(stored["names"].reshape(-1).astype(str).tolist())
            return Descriptions(named, stored["matrix"].astype(np.float32), file.name)
        except (BadInput, *WRONG) as error:
            raise BadInput(
                f"{file} holds no arrays 'names' and 'matrix' that can be read; save them with numpy.savez"
            ) from error
    names: list[str] = []
    rows: list[list[float]] = []
    try:
        table = read_rows(file)
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text; give .npz (names, matrix) or .csv (name, numbers)") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read ({error}); give .npz (names, matrix) or .csv (name, numbers)") from error
    for number, row in enumerate(table, start=1):
        try:
            values = [float(cell) for cell in row[1:]]
        except ValueError as error:
            if number == 1:
                continue
            raise BadInput(f"{file}, row {number}: {error}; expected a name and numbers") from error
        if rows and row and len(values) != len(rows[0]):
            raise BadInput(f"{file}, row {number}: {len(values)} numbers where row 1 has {len(rows[0])}")
        if row:
            names.append(row[0].strip())
            rows.append(values)
    if not rows or not rows[0]:
        raise BadInput(f"{file} holds no description; give a name and numbers a row")
    return Descriptions(tuple(names), np.array(rows, dtype=np.float32), file.name)


def factor_semantics(collection: Collection) -> Semantics:
    """Attributes from the label columns themselves: one place for every value, one class a tuple of values.

    With two columns or more (shape and colour) unseen classes are new compositions of seen values; one column says
    nothing of a class that was not seen, and is refused.
    """
    if len(collection.card.labels) < 2:
        raise BadInput(
            f"{collection.card.name} has one label column, which does not describe unseen classes; "
            "say semantics=FILE, semantics=wordnet:VECTORS or semantics=stored"
        )
    part = collection.whole
    values: list[tuple[str, ...]] = part._classes[1]
    columns = [sorted({v[i] for v in values}) for i in range(len(values[0]))]
    matrix = [[float(v[i] == known) for i, axis in enumerate(columns) for known in axis] for v in values]
    edges = [(name, f"{v[0]}/*") for name, v in zip(part.class_names, values, strict=True)]
    tops = sorted({top for _, top in edges})
    taxonomy = Taxonomy.of([*edges, *((top, "*") for top in tops)], source=f"label columns of {collection.card.name}")
    return Semantics.of(part.class_names, np.array(matrix), taxonomy, source=f"label columns of {collection.card.name}")


def open_semantics(spec: str, collection: Collection) -> Semantics:
    """The semantics that ``spec`` names, for all classes of a collection.

    ``factors``: one-hot of the label columns. ``wordnet:FILE``: classes are WordNet ids, described by the word vectors
    of FILE; ``glosses:FILE`` the same by their definitions. ``sentences``: vectors of WordNet's definitions by the
    sentence encoder that is installed, ``sentences:FOLDER`` by another; ``sentences@TEXTS.csv`` (rows class,text) of given
    descriptions, for classes that need not be WordNet's. Else a file of descriptions (.npz, .csv), with a hierarchy
    of child,parent rows after a plus: ``attributes.npz+classes.csv`` or ``attributes.npz+wordnet``. ``stored`` is the
    ``descriptions.npz`` (and ``taxonomy.csv``) inside a packed collection.
    """
    return _open(spec, _Key(collection))


class _Key:
    """A collection as a cache key: by what it holds."""

    def __init__(self, collection: Collection):
        self.collection = collection

    def __hash__(self) -> int:
        return hash(self.collection.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.collection.id == self.collection.id


@lru_cache(maxsize=8)
def _open(spec: str, key: _Key) -> Semantics:
    collection = key.collection
    kind, _, file = spec.partition(":")
    if spec == "factors":
        return factor_semantics(collection)
    if kind in ("wordnet", "glosses") and file:
        classes = collection.whole.class_names
        return Semantics.of_words(wordnet(), WordVectors.open(file), classes, glosses=kind == "glosses")
    if kind.partition("@")[0] == "sentences":
        model, _, texts = spec.removeprefix("sentences").removeprefix(":").partition("@")
        if not texts:
            return Semantics.of_sentences(wordnet(), collection.whole.class_names, model)
        told = read_texts(texts)
        source = f"sentences of {Path(texts).name} by {encoder_name(model)}"
        return Semantics.of(list(told), sentence_vectors(list(told.values()), model), source=source)
    if spec == "stored":
        folder = collection.path
        if folder is None or not (folder / "descriptions.npz").is_file():
            raise Missing(
                f"{collection.card.name} carries no descriptions.npz; say semantics=FILE or semantics=wordnet:VECTORS"
            )
        hierarchy = folder / "taxonomy.csv"
        spec = f"{folder / 'descriptions.npz'}" + (f"+{hierarchy}" if hierarchy.is_file() else "")
    described, _, tree = spec.partition("+")
    found = read_descriptions(described)
    if not tree:
        return Semantics(found)
    taxonomy = wordnet() if tree == "wordnet" else from_csv(tree)
    graph = taxonomy.subgraph(list(found.names), with_ancestors=True) if tree == "wordnet" else taxonomy
    return Semantics.of(found.names, found.matrix, graph, source=found.source)
