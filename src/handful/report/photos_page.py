"""A page of photos and what a classifier says of them: by answer, the doubtful first, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from handful.data.images import BadImage, decode
from handful.data.sources import open_source
from handful.errors import BadInput
from handful.photos.answers import NONE, Answers
from handful.photos.model import PhotoModel
from handful.photos.named import NamedClasses
from handful.photos.reading import read_photos
from handful.report.page import Section, page, write_page
from handful.report.pictures import jpeg_url

SIDE, MOST, UNSURE = 112, 200, 0.6
Thumbnail = Callable[[str], str]


def answers_page(
    path: str | Path,
    model: PhotoModel | NamedClasses,
    answers: Answers,
    truth: Sequence[str] | None = None,
    lead: str = "",
) -> Path:
    """Write the page: what to look at again, then every class with its photos, the least certain first.

    With ``truth`` (the labels of a held-out folder) the wrong answers come first, with the label they should have.
    """
    said = answers.answers
    best = answers.probabilities.max(1)
    order = np.argsort(best, kind="stable")
    picture = thumbnails(answers.photos)
    sections = []
    if truth is not None:
        wrong = [int(i) for i in np.argsort(-best, kind="stable") if said[i] not in (NONE, truth[i])]
        if wrong:
            words = f"{len(wrong)} photos got another class than their label, the most certain first."
            whys = [f"labelled {truth[i]}; {answers.why(i)}" for i in wrong]
            sections.append(_gallery("Wrong", words, wrong, answers, picture, whys))
    unsure = [int(i) for i in order if said[i] != NONE and best[i] < UNSURE]
    if unsure:
        words = f"{len(unsure)} photos whose class is less than {100 * UNSURE:.0f}% certain."
        sections.append(_gallery("Look again", words, unsure, answers, picture))
    for name in (NONE, *answers.classes):
        own = [int(i) for i in order if said[i] == name]
        if own:
            sections.append(_gallery(name.capitalize() if name == NONE else name, "", own, answers, picture))
    if answers.unreadable:
        rows = "".join(f"<li>{escape(n)} {escape(why)}</li>" for n, why in answers.unreadable)
        sections.append(Section("Unreadable", raw=f"<ul>{rows}</ul>"))
    foot = f"Classifier: {model.about}"
    write_page(Path(path), page("What the photos show", lead or f"{answers.summary}.", sections, foot))
    return Path(path)


def fit_page(path: str | Path, model: PhotoModel, photos: str | Path) -> Path:
    """Write what was found while fitting, with the photos that look mislabelled or are copies of others.

    ``photos`` is the folder or zip that it was fitted to.
    """
    report, picture = model.report, thumbnails_inside(photos)
    lines = "".join(f"<li>{escape(line)}</li>" for line in str(report).splitlines())
    sections = [Section("What to expect", raw=f"<ul>{lines}</ul>")]
    if report.suspects:
        cells = [
            _cell(
                picture(s.photo), s.photo, f"labelled {s.label}; looks like {s.looks_like} ({100 * s.probability:.0f}%)"
            )
            for s in report.suspects
        ]
        words = (
            "Left out, each of these photos was given another class, and its own hardly at all. Are their labels right?"
        )
        sections.append(Section("Look mislabelled", [words], raw=_grid(cells)))
    if report.copies:
        cells = [
            _cell(picture(name), name, f"{c.classes[i]}; {'the same as' if c.exact else 'nearly'} {other}")
            for c in report.copies[: MOST // 2]
            for i, (name, other) in enumerate(((c.first, c.second), (c.second, c.first)))
        ]
        sections.append(
            Section("Copies", ["Photos that show the same; in two classes, one of them is wrong."], raw=_grid(cells))
        )
    lead = f"Expect {report.expected.sentence}."
    write_page(Path(path), page("A classifier from a handful of photos", lead, sections, f"Network: {report.net}."))
    return Path(path)


def thumbnails(photos: Sequence[str]) -> Thumbnail:
    """Pictures by name, from the files themselves; empty for one that is no file."""

    def picture(name: str) -> str:
        if not Path(name).is_file():
            return ""
        read = read_photos(name, SIDE)
        return jpeg_url(Image.fromarray(read.images[0])) if len(read) else ""

    return picture


def thumbnails_inside(place: str | Path) -> Thumbnail:
    """Pictures by their names below a folder or zip; empty where there is none, as in a packed collection."""
    try:
        source = open_source(place)
    except BadInput:
        return lambda name: ""

    def picture(name: str) -> str:
        try:
            return jpeg_url(Image.fromarray(decode(source.read(name), name, SIDE)))
        except (BadImage, BadInput, KeyError, OSError):
            return ""

    return picture


def _gallery(
    title: str, words: str, rows: list[int], answers: Answers, picture: Thumbnail, whys: list[str] | None = None
) -> Section:
    cells = [
        _cell(picture(answers.photos[i]), answers.photos[i], whys[k] if whys else answers.why(i))
        for k, i in enumerate(rows[:MOST])
    ]
    texts = [words] if words else []
    if len(rows) > MOST:
        texts.append(f"The first {MOST} of {len(rows)}.")
    return Section(f"{title} ({len(rows)})", texts, raw=_grid(cells))


def _grid(cells: list[str]) -> str:
    return f'<div class="photos">{"".join(cells)}</div>'


def _cell(url: str, name: str, words: str) -> str:
    shown = f'<img src="{url}" alt="{escape(name, quote=True)}" width="{SIDE}" height="{SIDE}">' if url else ""
    return f'<div class="photo">{shown}<b title="{escape(name, quote=True)}">{escape(Path(name).name)}</b><span>{escape(words)}</span></div>'
