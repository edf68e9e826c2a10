"""Contact sheets: a collection, or one task with its answers, as a picture."""

from __future__ import annotations

import base64
import functools
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from handful.errors import BadInput

if TYPE_CHECKING:
    from handful.data.collection import Collection, Part

PAPER, TEXT, FAINT = (255, 255, 255), (32, 34, 38), (130, 134, 140)
RIGHT, WRONG = (22, 140, 70), (204, 32, 44)
CELL = 64
GAP = 6
LINE = 15

Marks = list[tuple[str, tuple[int, int, int]]] | None
"""A word and a colour for each image of a group."""
Lines = list[tuple[str, list[tuple[np.ndarray, Marks]]]]
"""A name, and groups of image numbers with their marks."""


@functools.lru_cache(maxsize=4)
def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)


def _fitted(text: str, width: int, size: int = 11) -> str:
    """The text, shortened until it fits."""
    font = _font(size)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"


def thumbnails(collection: Collection, rows: np.ndarray, side: int = CELL) -> list[Image.Image]:
    """Pictures of the given images, none larger than ``side``; small ones are enlarged by a whole number."""
    if collection.card.kind != "images":
        raise BadInput(f"{collection.card.name} holds features, not images, and cannot be shown; pack its images")
    out = []
    for pixels in collection.read(np.asarray(rows, dtype=np.int64)):
        picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).convert("RGB")
        largest = max(picture.size)
        if largest * 2 <= side:
            zoom = side // largest
            picture = picture.resize((picture.width * zoom, picture.height * zoom), Image.Resampling.NEAREST)
        elif largest > side:
            size = (max(1, picture.width * side // largest), max(1, picture.height * side // largest))
            picture = picture.resize(size, Image.Resampling.BILINEAR)
        out.append(picture)
    return out


def _names(collection: Collection, rows: np.ndarray, columns: Sequence[str]) -> list[str]:
    table = collection.table.select(columns)[np.asarray(rows, dtype=np.int64)]
    return [" / ".join("" if v is None else str(v) for v in values) for values in table.rows()]


def sheet(
    collection: Collection,
    rows: Sequence[int] | np.ndarray | None = None,
    columns: int = 12,
    *,
    captions: Sequence[str] | None = None,
    side: int = CELL,
) -> Image.Image:
    """A contact sheet of some images with their labels.

    Parameters
    ----------
    rows
        Image numbers; by default 96 spread evenly over the collection.
    columns
        Images side by side.
    captions
        Columns of the table to write under each image; by default the label columns.
    """
    if columns < 1:
        raise BadInput(f"columns must be at least 1, not {columns}")
    if rows is None:
        rows = np.unique(np.linspace(0, max(len(collection) - 1, 0), 96).astype(np.int64)) if len(collection) else []
    numbers = np.asarray(rows, dtype=np.int64)
    if not len(numbers):
        raise BadInput(f"{collection.card.name}: no images to show; give some image numbers")
    if numbers.min() < 0 or numbers.max() >= len(collection):
        raise BadInput(f"{collection.card.name} has images 0 to {len(collection) - 1}, not {int(numbers.max())}")
    pictures = thumbnails(collection, numbers, side)
    words = _names(collection, numbers, captions or collection.card.labels)
    width, height = (max(p.size[axis] for p in pictures) for axis in (0, 1))
    columns = min(columns, len(numbers))
    lines = -(-len(numbers) // columns)
    page = Image.new("RGB", (GAP + columns * (width + GAP), GAP + lines * (height + LINE + GAP)), PAPER)
    pen = ImageDraw.Draw(page)
    for i, (picture, text) in enumerate(zip(pictures, words, strict=True)):
        x, y = GAP + (i % columns) * (width + GAP), GAP + (i // columns) * (height + LINE + GAP)
        page.paste(picture, (x, y))
        pen.text((x, y + height + 1), _fitted(text, width), TEXT, _font(11))
    return page


def class_sheet(part: Part, classes: int = 12, each: int = 10, *, side: int = CELL) -> Image.Image:
    """Some classes of a part, evenly spread, one per line with its first images."""
    members = part.members
    chosen = np.unique(np.linspace(0, part.n_classes - 1, min(classes, part.n_classes)).astype(np.int64))
    lines: Lines = [(part.class_names[c], [(members[int(c)][:each], None)]) for c in chosen]
    return _lines(part.collection, lines, ("",), side)


def episode_sheet(
    collection: Collection, episode: Any, predictions: np.ndarray | None = None, *, most: int = 10, side: int = CELL
) -> Image.Image:
    """One task: a line per class, its support on the left, its queries on the right.

    Parameters
    ----------
    episode
        An `Episode` of this collection.
    predictions
        The class number answered for each query: right ones are framed in green, wrong ones in red with the class that
        was answered. Scores (n_query, n_classes) are taken too.
    most
        At most this many queries per class are shown.
    """
    guesses = None if predictions is None else np.asarray(predictions)
    if guesses is not None and guesses.ndim == 2:
        guesses = guesses.argmax(axis=1)
    if guesses is not None and len(guesses) != len(episode.query):
        raise BadInput(f"{len(guesses)} predictions for {len(episode.query)} queries; give one per query")
    names = [_class_name(episode, c) for c in range(episode.n_classes)]
    brief = [name.rsplit("/", 1)[-1].strip() for name in names]  # all that there is room for below an image
    if len(set(brief)) < len(brief):
        brief = names
    lines: Lines = []
    for c, name in enumerate(names):
        support = episode.support[episode.support_labels == c][:most]
        asked = np.flatnonzero(episode.query_labels == c)[:most]
        marks: Marks = (
            None if guesses is None else [("", RIGHT) if g == c else (brief[g], WRONG) for g in guesses[asked]]
        )
        if len(support) or len(asked):
            lines.append((name, [(support, None), (episode.query[asked], marks)]))
    return _lines(collection, lines, ("support", "query"), side)


def _class_name(episode: Any, c: int) -> str:
    places = np.unravel_index(c, episode.shape)
    name = " / ".join(axis[int(i)] for axis, i in zip(episode.names, places, strict=True))
    unseen = episode.seen is not None and not episode.seen[c]
    return f"{name} (unseen)" if unseen else name


def _two_lines(text: str, width: int, size: int) -> list[str]:
    """A text broken between words where one line has no room for it."""
    words, first = text.split(), ""
    while words and _font(size).getlength(f"{first} {words[0]}".strip()) <= width:
        first = f"{first} {words.pop(0)}".strip()
    return [_fitted(part, width, size) for part in (first, " ".join(words)) if part]


def _lines(collection: Collection, lines: Lines, headings: tuple[str, ...], side: int) -> Image.Image:
    """Lines of groups of images; a class's name stands above its line."""
    rows = [numbers for _, groups in lines for numbers, _ in groups]
    pictures = iter(thumbnails(collection, np.concatenate(rows) if rows else np.empty(0, dtype=np.int64), side))
    n_groups = len(headings)
    counts = [max([len(groups[g][0]) for _, groups in lines] or [0]) for g in range(n_groups)]
    marked = any(marks is not None for _, groups in lines for _, marks in groups)
    step, height = side + GAP, LINE + side + GAP + (2 * LINE if marked else 0)
    starts = [GAP + sum(counts[:g]) * step + g * 3 * GAP for g in range(n_groups)]
    top = GAP + (LINE + 2 if any(headings) else 0)
    width = max(GAP + sum(counts) * step + (n_groups - 1) * 3 * GAP, 160)
    page = Image.new("RGB", (width, top + max(len(lines), 1) * height), PAPER)
    pen = ImageDraw.Draw(page)
    for start, heading in zip(starts, headings, strict=True):
        pen.text((start, GAP - 2), heading, FAINT, _font(12))
    for at, (name, groups) in enumerate(lines):
        y = top + at * height
        pen.text((GAP, y), _fitted(name, width - 2 * GAP), TEXT, _font(11))
        for start, (numbers, marks) in zip(starts, groups, strict=True):
            for i in range(len(numbers)):
                picture, x = next(pictures), start + i * step
                page.paste(picture, (x, y + LINE))
                if marks is not None:
                    said, colour = marks[i]
                    box = (x - 2, y + LINE - 2, x + picture.width + 1, y + LINE + picture.height + 1)
                    pen.rectangle(box, outline=colour, width=2)
                    for k, part in enumerate(_two_lines(said, side, 10)):
                        pen.text((x, y + (1 + k) * LINE + side + 2), part, colour, _font(10))
    # Beside the pictures only: names run across it.
    for start in starts[1:]:
        for at in range(len(lines)):
            y, x = top + at * height + LINE, start - 2 * GAP
            pen.line((x, y, x, y + side), fill=(210, 212, 216))
    return page


def png(picture: Image.Image) -> bytes:
    """A picture as the bytes of a PNG file."""
    out = io.BytesIO()
    picture.save(out, format="PNG", optimize=True)
    return out.getvalue()


def data_url(picture: Image.Image) -> str:
    """A picture as a string that an HTML page can hold."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode("ascii")


def collection_html(collection: Collection) -> str:
    """What a notebook shows of a collection: its card in one line, its splits, and a few images."""
    card = collection.card
    facts = [
        f"{len(collection):,} {card.kind} of {'×'.join(map(str, card.shape))}",
        f"label: {' × '.join(card.labels)}",
    ]
    if card.schemes:
        counts = dict(collection.table[card.schemes[0]].drop_nulls().value_counts().rows())
        facts.append(", ".join(f"{split} {counts[split]:,}" for split in sorted(counts) if split))
    text = f"<b>{html.escape(collection.id)}</b><br>{html.escape(' · '.join(facts))}"
    if card.kind == "images" and len(collection):
        rows = np.unique(np.linspace(0, len(collection) - 1, 24).astype(np.int64))
        picture = data_url(sheet(collection, rows, columns=12))
        text += f'<br><img src="{picture}" alt="{len(rows)} images of {html.escape(card.name)} with their labels">'
    return text
