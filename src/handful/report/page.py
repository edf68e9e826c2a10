"""Self-contained HTML pages: no network, readable on a phone, in print, light and dark."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import polars as pl

from handful.files import write_atomically

CSS = Path(__file__).with_name("page.css")
"""The one style sheet of all pages."""


@dataclass
class Figure:
    """An SVG text or an image as a data URL, with words for those who cannot see it."""

    content: str
    alt: str
    caption: str = ""

    def html(self) -> str:
        alt = escape(self.alt, quote=True)
        if self.content.startswith("data:"):
            body = f'<img src="{self.content}" alt="{alt}">'
        else:
            box = re.search(r'viewBox="\S+ \S+ (\S+) (\S+?)"', self.content)
            tall = ' class="tall"' if box and float(box[2]) > float(box[1]) else ""
            body = f'<div role="img" aria-label="{alt}"{tall}>{self._own_ids()}</div>'
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure>{body}{caption}</figure>"

    def _own_ids(self) -> str:
        """The drawing with ids that another one of the same look does not have."""
        mark = re.search(r'id="(f[0-9a-f]{8}-)', self.content)
        own = hashlib.sha256(self.alt.encode()).hexdigest()[:6]
        return self.content.replace(mark[1], f"{mark[1]}{own}-") if mark else self.content


@dataclass
class Table:
    """A data frame shown as a table; ``bold`` are cells (row, column)."""

    frame: pl.DataFrame
    caption: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()

    def html(self) -> str:
        head = "".join(f'<th scope="col">{escape(c)}</th>' for c in self.frame.columns)
        rows = []
        for i, row in enumerate(self.frame.rows()):
            first, *rest = (f"<b>{_cell(v)}</b>" if (i, j) in self.bold else _cell(v) for j, v in enumerate(row))
            rows.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{v}</td>" for v in rest)}</tr>')
        caption = f'<p class="caption">{escape(self.caption)}</p>' if self.caption else ""
        name = f' aria-label="{escape(self.caption, quote=True)}"' if self.caption else ""
        return f'{caption}<div class="scroll"><table{name}><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


@dataclass
class Section:
    """A heading, some sentences, tables and figures, then parts with headings of their own."""

    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    raw: str = ""
    inner: list[Section] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower()).strip("-")

    def html(self, anchor: str | None = None) -> str:
        name = self.anchor if anchor is None else anchor
        inner = "".join(f"<h3>{escape(part.title)}</h3>{part.body()}" for part in self.inner)
        return f'<section id="{name}"><h2>{escape(self.title)}</h2>{self.body()}{inner}</section>'

    def body(self) -> str:
        words = "".join(f"<p>{escape(s)}</p>" for s in self.sentences)
        tables = "".join(t.html() for t in self.tables)
        figures = "".join(f.html() for f in self.figures)
        return f"{words}{self.raw}{tables}" + (f'<div class="figures">{figures}</div>' if figures else "")


def page(title: str, lead: str, sections: list[Section], foot: str = "", links: dict[str, str] | None = None) -> str:
    """One HTML text with everything inside; ``links`` are other pages (words to address) beside those to the sections."""
    css = CSS.read_text(encoding="utf-8")
    anchors = unique([s.anchor for s in sections])
    places = "".join(
        f'<a class="out" href="{escape(where, quote=True)}">{escape(words)}</a>'
        for words, where in (links or {}).items()
    )
    places += "".join(f'<a href="#{a}">{escape(s.title)}</a>' for a, s in zip(anchors, sections, strict=True))
    body = "".join(s.html(a) for a, s in zip(anchors, sections, strict=True))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}</style></head><body>"
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{places}</nav></header>'
        f"<main>{body}</main><footer>{escape(foot)}</footer></body></html>\n"
    )


def unique(names: list[str]) -> list[str]:
    """The names with a number added where one was there before."""
    out: list[str] = []
    for name in names:
        name, at = name or "part", 2
        chosen = name
        while chosen in out:
            chosen, at = f"{name}-{at}", at + 1
        out.append(chosen)
    return out


def write_page(path: Path, text: str) -> None:
    write_atomically(path, lambda t: t.write_text(text, encoding="utf-8"))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return escape(str(value))
