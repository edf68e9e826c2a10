"""Pictures of single tasks: support, queries, and which method was right about each."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from html import escape

import numpy as np
import polars as pl
from PIL import Image

from handful.data.collection import Collection
from handful.data.show import thumbnails
from handful.tasks.episode import Episode

SIDE = 56
MOST_CLASSES, MOST_SUPPORT, MOST_QUERIES = 8, 3, 6


def letter(number: int) -> str:
    """A, B, ... Z, A2, B2, ..."""
    return chr(ord("A") + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def class_name(episode: Episode, label: int) -> str:
    if len(episode.shape) == 1:
        return episode.names[0][label]
    return " / ".join(axis[i] for axis, i in zip(episode.names, np.unravel_index(label, episode.shape), strict=True))


def task_picture(collection: Collection, episode: Episode, answers: Mapping[str, pl.DataFrame]) -> str:
    """HTML: a line per class, some support images, then the queries that divide the methods most.

    ``answers`` holds each method's rows of this task (query, truth, predicted), and may be empty.
    """
    said = {label: dict(frame.select("query", "predicted").rows()) for label, frame in answers.items()}
    letters = {label: letter(i) for i, label in enumerate(said)}
    classes = _classes(episode, said)
    body = []
    for c in classes:
        support = episode.support[episode.support_labels == c][:MOST_SUPPORT]
        asked = episode.query[episode.query_labels == c]
        divided = [len({by[int(q)] for by in said.values() if int(q) in by}) for q in asked]
        asked = asked[np.argsort(-np.asarray(divided, dtype=np.int64), kind="stable")][:MOST_QUERIES]
        cells = "".join(_cell(url, "") for url in _urls(collection, support))
        shown = "".join(
            _cell(url, _marks(episode, int(q), c, said, letters))
            for url, q in zip(_urls(collection, asked), asked, strict=True)
        )
        unseen = " (unseen)" if episode.seen is not None and not episode.seen[c] else ""
        body.append(
            f'<div class="class"><div class="name">{escape(class_name(episode, int(c)) + unseen)}</div>'
            f'<div class="images">{cells}<span class="bar"></span>{shown}</div></div>'
        )
    return f'<div class="task">{"".join(body)}</div>'


def _classes(episode: Episode, said: Mapping[str, dict[int, int]]) -> list[int]:
    """The classes to show: all, or those whose queries divide the methods most."""
    classes = np.unique(np.concatenate([episode.support_labels, episode.query_labels]))
    if len(classes) <= MOST_CLASSES:
        return [int(c) for c in classes]
    apart = np.zeros(len(classes))
    for at, c in enumerate(classes):
        for q in episode.query[episode.query_labels == c]:
            apart[at] += len({by[int(q)] for by in said.values() if int(q) in by}) > 1
    return sorted(int(c) for c in classes[np.argsort(-apart, kind="stable")[:MOST_CLASSES]])


def _marks(
    episode: Episode, query: int, truth: int, said: Mapping[str, dict[int, int]], letters: Mapping[str, str]
) -> str:
    out = []
    for label, by in said.items():
        if query in by:
            right = by[query] == truth
            words = f"{label}: {class_name(episode, by[query])}"
            sign = "right" if right else "wrong"
            out.append(
                f'<span class="{sign}" title="{escape(words, quote=True)}">{letters[label]}{"✓" if right else "✗"}</span>'
            )
    return f'<span class="marks">{"".join(out)}</span>' if out else ""


def _cell(url: str, marks: str) -> str:
    return f'<span class="image"><img src="{url}" alt="" width="{SIDE}">{marks}</span>'


def _urls(collection: Collection, rows: np.ndarray) -> list[str]:
    return [jpeg_url(picture) for picture in thumbnails(collection, rows, SIDE)]


def jpeg_url(picture: Image.Image) -> str:
    """Photographs are a third as large so; at this size nothing of them is lost to the eye."""
    out = io.BytesIO()
    picture.save(out, format="JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode("ascii")
