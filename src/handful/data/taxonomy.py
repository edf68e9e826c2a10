"""A hierarchy of classes as arrays: WordNet's nouns or any child,parent file, asked without an object a node."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from handful.data import bfs
from handful.data.importers.arrays import read_npz
from handful.errors import BadInput, Missing, nearest
from handful.files import WRONG, write_atomically

FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class Taxonomy:
    """A directed acyclic graph of classes: ids sorted, edges child -> parent, words and glosses beside.

    Methods that take ids accept one id, a sequence of ids, or an integer array of node numbers; those that name nodes
    return node numbers (``ids[numbers]`` are the names), so that results feed the next question without strings.

    Parameters
    ----------
    ids : sorted array of unique strings, one per node.
    child, parent : node numbers of the two ends of every edge.
    words : per node, its synonyms joined by tabs (may be empty).
    glosses : per node, one sentence (may be empty).
    source : where the hierarchy comes from, for results to name it.
    """

    ids: NDArray[np.str_]
    child: NDArray[np.int32]
    parent: NDArray[np.int32]
    source: str
    text: tuple[NDArray[np.uint8], NDArray[np.int64]] = field(
        default_factory=lambda: (np.zeros(0, np.uint8), np.zeros(0, np.int64))
    )

    @classmethod
    def of(
        cls,
        edges: Iterable[tuple[str, str]],
        *,
        words: dict[str, Sequence[str]] | None = None,
        glosses: dict[str, str] | None = None,
        lone: Iterable[str] = (),
        source: str = "given",
    ) -> Taxonomy:
        """Build from (child, parent) pairs; ``lone`` are nodes without an edge. Cycles and repeats are refused."""
        pairs = list(edges)
        names = sorted({n for pair in pairs for n in pair} | set(lone))
        if not names:
            raise BadInput(f"{source}: no class in this hierarchy; give at least one child,parent pair")
        number = {name: i for i, name in enumerate(names)}
        child = np.array([number[c] for c, _ in pairs], dtype=np.int32)
        parent = np.array([number[p] for _, p in pairs], dtype=np.int32)
        known_words, known_glosses = words or {}, glosses or {}
        text = pack(["\t".join(known_words.get(n, ())) + "\n" + known_glosses.get(n, "") for n in names])
        made = cls(ids=np.array(names), child=child, parent=parent, source=source, text=text)
        made.check()
        return made

    def check(self) -> None:
        """Refuse repeated edges and cycles, naming them."""
        key = self.child.astype(np.int64) * len(self.ids) + self.parent
        unique, count = np.unique(key, return_counts=True)
        if (count > 1).any():
            twice = int(unique[count > 1][0])
            c, p = self.ids[twice // len(self.ids)], self.ids[twice % len(self.ids)]
            raise BadInput(f"{self.source}: the edge {c},{p} is given twice; keep one")
        cycle = self._cycle()
        if cycle:
            raise BadInput(f"{self.source}: the hierarchy has a cycle, {' -> '.join(cycle)}; remove one of these edges")

    def _cycle(self) -> list[str]:
        left = np.bincount(self.child, minlength=len(self.ids))
        ready = np.flatnonzero(left == 0)
        gone = np.zeros(len(self.ids), dtype=bool)
        ptr, idx = self.down
        while len(ready):
            gone[ready] = True
            below = bfs.expand(ptr, idx, ready)[1]
            np.subtract.at(left, below, 1)
            ready = np.unique(below[(left[below] == 0) & ~gone[below]])
        if gone.all():
            return []
        # Every node left has a parent that is left: walking up must come back to where it has been.
        path, at = [], int(np.flatnonzero(~gone)[0])
        while at not in path:
            path.append(at)
            above = self.parents(np.array([at]))
            at = int(above[~gone[above]][0])
        return [str(self.ids[i]) for i in path[path.index(at) :]] + [str(self.ids[at])]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Taxonomy({self.source}: {len(self.ids):,} classes, {len(self.child):,} edges)"

    def __contains__(self, name: object) -> bool:
        at = int(np.searchsorted(self.ids, name)) if isinstance(name, str) else len(self.ids)
        return at < len(self.ids) and self.ids[at] == name

    @cached_property
    def up(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """CSR of child -> parents."""
        return bfs.csr(len(self.ids), self.child, self.parent)

    @cached_property
    def down(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """CSR of parent -> children."""
        return bfs.csr(len(self.ids), self.parent, self.child)

    @cached_property
    def around(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """CSR of the undirected graph."""
        return bfs.csr(
            len(self.ids), np.concatenate([self.child, self.parent]), np.concatenate([self.parent, self.child])
        )

    def index(self, names: str | Sequence[str] | NDArray, *, where: str = "classes") -> NDArray[np.int64]:
        """Node numbers of ``names``; names that are not here are refused, the first few by name."""
        if not isinstance(names, str) and len(names) == 0:
            return np.zeros(0, np.int64)
        wanted = np.atleast_1d(np.asarray(names))
        if np.issubdtype(wanted.dtype, np.integer):
            if wanted.min() < 0 or wanted.max() >= len(self.ids):
                raise BadInput(f"{where}: node numbers of {self.source} run from 0 to {len(self.ids) - 1}")
            return wanted.astype(np.int64)
        wanted = wanted.astype(str)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        absent = self.ids[at] != wanted
        if absent.any():
            some = list(dict.fromkeys(wanted[absent].tolist()))
            shown = ", ".join(some[:5]) + (", ..." if len(some) > 5 else "")
            hint = nearest(some[0], self.ids.tolist()) if len(self.ids) < 2000 else "check the ids and the version"
            raise BadInput(f"{where}: {len(some)} not in {self.source} ({shown}); {hint}")
        return at

    def words(self, name: str | int) -> list[str]:
        """Synonyms of one class, the most common first; its id where none is known."""
        line = self._line(name).split("\n", 1)[0]
        return line.split("\t") if line else [str(self.ids[int(self.index(np.atleast_1d(name))[0])])]

    def gloss(self, name: str | int) -> str:
        """The definition of one class, or an empty string."""
        return self._line(name).partition("\n")[2]

    def _line(self, name: str | int) -> str:
        node = int(self.index(np.atleast_1d(name))[0])
        blob, ends = self.text
        if not len(ends):
            return ""
        return blob[int(ends[node - 1]) if node else 0 : int(ends[node])].tobytes().decode("utf-8")

    @cached_property
    def all_words(self) -> list[list[str]]:
        """Synonyms of every class, in node order."""
        return [self.words(i) for i in range(len(self.ids))]

    @cached_property
    def roots(self) -> NDArray[np.int64]:
        """Classes without a parent."""
        return np.flatnonzero(np.diff(self.up[0]) == 0)

    def parents(self, names: str | Sequence[str] | NDArray) -> NDArray[np.int64]:
        """Parents of any of ``names``."""
        return np.unique(bfs.expand(*self.up, self.index(names))[1])

    def children(self, names: str | Sequence[str] | NDArray) -> NDArray[np.int64]:
        """Children of any of ``names``."""
        return np.unique(bfs.expand(*self.down, self.index(names))[1])

    def ancestors(self, names: str | Sequence[str] | NDArray) -> NDArray[np.int64]:
        """Classes strictly above any of ``names``."""
        above = self.parents(names)
        return np.flatnonzero(bfs.levels(*self.up, above) != bfs.UNREACHED)

    def descendants(self, names: str | Sequence[str] | NDArray) -> NDArray[np.int64]:
        """Classes strictly below any of ``names``."""
        below = self.children(names)
        return np.flatnonzero(bfs.levels(*self.down, below) != bfs.UNREACHED)

    @cached_property
    def depth(self) -> NDArray[np.int32]:
        """Steps from the nearest root, of every node."""
        return bfs.levels(*self.down, self.roots)

    def is_ancestor(self, above: Sequence[str] | NDArray, below: Sequence[str] | NDArray) -> NDArray[np.bool_]:
        """Pairwise: is ``above[i]`` strictly above ``below[i]``?"""
        a, b = self.index(above), self.index(below)
        nodes, place = np.unique(b, return_inverse=True)
        owner, node, _ = bfs.reach(*self.up, nodes)
        closure = np.sort(owner * len(self.ids) + node)
        key = place * len(self.ids) + a
        at = np.minimum(np.searchsorted(closure, key), max(len(closure) - 1, 0))
        return closure[at] == key if len(closure) else np.zeros(len(key), dtype=bool)

    def to_nearest(self, sources: Sequence[str] | NDArray) -> NDArray[np.int32]:
        """Length of the shortest undirected path from every node to the nearest source (-1: no path)."""
        return bfs.levels(*self.around, self.index(sources))

    def distances(self, a: Sequence[str] | NDArray, b: Sequence[str] | NDArray) -> NDArray[np.int16]:
        """Lengths (a, b) of the shortest undirected paths (-1: no path)."""
        return bfs.matrix(*self.around, self.index(a), self.index(b))

    def subgraph(self, names: Sequence[str] | NDArray, *, with_ancestors: bool = False) -> Taxonomy:
        """The induced graph on ``names``, or on them and everything above them."""
        nodes = np.unique(self.index(names))
        if with_ancestors:
            nodes = np.union1d(nodes, self.ancestors(nodes))
        new = np.full(len(self.ids), -1, dtype=np.int32)
        new[nodes] = np.arange(len(nodes))
        keep = (new[self.child] >= 0) & (new[self.parent] >= 0)
        text = pack([self._line(int(i)) for i in nodes]) if len(self.text[1]) else self.text
        return Taxonomy(
            ids=self.ids[nodes],
            child=new[self.child[keep]],
            parent=new[self.parent[keep]],
            source=f"{self.source}, {len(nodes):,} classes of it",
            text=text,
        )

    @cached_property
    def id(self) -> str:
        """A hash of ids and edges: two results with different ones speak of different hierarchies."""
        digest = hashlib.sha256("\n".join(self.ids.tolist()).encode())
        order = np.lexsort((self.parent, self.child))
        digest.update(np.stack([self.child[order], self.parent[order]]).astype("<i4").tobytes())
        return digest.hexdigest()[:16]

    def save(self, path: str | Path) -> Path:
        """Write one .npz, whole or not at all."""
        target = Path(path)

        def write(temporary: Path) -> None:
            with open(temporary, "wb") as file:
                np.savez(
                    file,
                    format=np.int64(FORMAT),
                    ids=np.char.encode(self.ids, "utf-8"),
                    child=self.child,
                    parent=self.parent,
                    source=np.array(self.source),
                    blob=self.text[0],
                    ends=self.text[1],
                )

        write_atomically(target, write)
        return target

    @classmethod
    def load(cls, path: str | Path) -> Taxonomy:
        """Read what :meth:`save` wrote."""
        if not Path(path).is_file():
            raise Missing(f"{path} does not exist")
        try:
            stored = read_npz(Path(path), ("format", "ids", "child", "parent", "source", "blob", "ends"))
            if int(stored["format"]) != FORMAT:
                raise BadInput(f"{path} was written by another version; delete it")
            raw = stored["ids"]
            # Ids are ASCII but for a stranger's CSV, and widening bytes is twenty times faster than decoding them.
            letters = raw.view(np.uint8).reshape(len(raw), -1)
            plain = letters.max() < 128
            wide = letters.astype(np.uint32).view(f"U{letters.shape[1]}")[:, 0] if plain else None
            ids = wide if wide is not None else np.char.decode(raw, "utf-8")
            child, parent, (blob, ends) = stored["child"], stored["parent"], (stored["blob"], stored["ends"])
            if not all(len(x) == 0 or 0 <= x.min() <= x.max() < len(ids) for x in (child, parent)):
                raise ValueError("a link leads to no node")
            if len(child) != len(parent) or len(ends) != len(ids) or ends.max() > len(blob):
                raise ValueError("its parts do not fit together")
            return cls(ids=ids, child=child, parent=parent, source=str(stored["source"]), text=(blob, ends))
        except WRONG as error:
            raise BadInput(f"{path} is not a stored taxonomy ({error}); delete it and try again") from error


def pack(lines: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Strings as one block of bytes and where each ends."""
    encoded = [line.encode("utf-8") for line in lines]
    ends = np.cumsum([len(line) for line in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), ends
