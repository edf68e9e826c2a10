"""A classifier from names alone: no photo is learned from, an encoder of images and texts says which name is nearest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from handful.errors import BadInput
from handful.nets import Backbone
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.nets.texts import class_vectors, prompts_of, reader, said
from handful.photos.answers import Answers
from handful.photos.encoder import BATCH, SIDE
from handful.photos.reading import read_classes, read_photos
from handful.photos.scoring import HeldOut, held_out

WITH_TEXT = "lite2+minilm"


@dataclass(frozen=True, eq=False)
class NamedClasses:
    """Photos are of the class whose name is nearest; made by `by_names`. It refuses no photo."""

    classes: tuple[str, ...]
    net: Backbone
    spec: str
    vectors: np.ndarray
    compute: Compute

    @property
    def about(self) -> str:
        """One sentence for pages and people."""
        caution = f" ({self.net.caution})" if self.net.caution else ""
        return f"{len(self.classes)} classes by their names alone, by {self.spec}{caution}. No photo was learned from, none is refused."

    def predict(self, photos: Any) -> Answers:
        """Answers for photos, given as to `handful.photos.model.PhotoModel.predict`."""
        read = read_photos(photos, self.side)
        return self._answers(read.names, read.images, read.unreadable)

    def score(
        self, photos: Any, *, layout: str = "auto", options: Mapping[str, Any] | None = None
    ) -> tuple[HeldOut, Answers, list[str]]:
        """How it does on photos in labelled folders; folders of other names are strangers."""
        read, y, classes = read_classes(photos, self.side, layout, options)
        answers = self._answers(read.names, read.images, read.unreadable)
        truth = [classes[k] for k in y]
        return held_out(answers, truth, None), answers, truth

    @property
    def side(self) -> int:
        return self.net.shape[0]

    def _answers(self, names: tuple[str, ...], images: np.ndarray, unreadable: tuple[tuple[str, str], ...]) -> Answers:
        with self.compute.here():
            x = embed_images(self.net, images, self.compute).double().cpu().numpy()
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        probabilities = softmax(self.net.sharpness * x @ self.vectors.T, axis=1)
        return Answers(names, self.classes, probabilities, np.zeros(len(x), dtype=bool), unreadable)


def by_names(
    names: str | Sequence[str], *, net: Any = WITH_TEXT, prompts: str = "photo", compute: Compute | None = None
) -> NamedClasses:
    """A classifier of photos from the names of its classes, without any photo.

    Parameters
    ----------
    names
        Two or more, as a sequence or a text with commas.
    net
        An encoder of images and texts: ``lite2+minilm`` (not CLIP), ``clip:folder=PATH``, ``hf:NAME``, ``open_clip:NAME/WEIGHTS``.
    prompts
        ``photo``, ``ensemble``, ``bare``, or a text with ``{}`` for the name.
    compute
        Device, precision and batch.
    """
    given = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
    classes = tuple(n for n in given if n)
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise BadInput(f'names must be two or more, each once, not {", ".join(given)!r}; write --names "oak,elm,birch"')
    prompts_of(prompts)
    compute = compute or Compute(batch=BATCH)
    with compute.here():
        made = reader(net, (SIDE, SIDE, 3))
        if (side := max(made.size or 0, getattr(made, "reads", 0))) > SIDE:
            made.shape = (side, side, 3)
        made = made.to(compute.device).eval()
        vectors = class_vectors(made, [said(c) for c in classes], prompts).double().cpu().numpy()
    return NamedClasses(classes, made, str(net), vectors, compute)
