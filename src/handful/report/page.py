"""Self-contained HTML pages: no network, readable on a phone, in print, light and dark."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path

import polars as pl

from handful.data.store import write_atomically


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
            body = f'<div role="img" aria-label="{alt}">{self.content}</div>'
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure>{body}{caption}</figure>"


@dataclass
class Table:
    """A data frame shown as a table."""

    frame: pl.DataFrame
    caption: str = ""

    def html(self) -> str:
        head = "".join(f'<th scope="col">{escape(c)}</th>' for c in self.frame.columns)
        rows = []
        for row in self.frame.rows():
            first, *rest = (_cell(v) for v in row)
            rows.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{v}</td>" for v in rest)}</tr>')
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


@dataclass
class Section:
    """A heading, some sentences, tables and figures."""

    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    raw: str = ""

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower()).strip("-")

    def html(self) -> str:
        words = "".join(f"<p>{escape(s)}</p>" for s in self.sentences)
        figures = "".join(f.html() for f in self.figures)
        return (
            f'<section id="{self.anchor}"><h2>{escape(self.title)}</h2>{words}{self.raw}'
            f'{"".join(t.html() for t in self.tables)}<div class="figures">{figures}</div></section>'
        )


def page(title: str, lead: str, sections: list[Section], foot: str = "") -> str:
    """One HTML text with everything inside."""
    css = (resources.files("handful") / "report" / "page.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}</style></head><body>"
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{links}</nav></header>'
        f"<main>{''.join(s.html() for s in sections)}</main><footer>{escape(foot)}</footer></body></html>\n"
    )


def write_page(path: Path, text: str) -> None:
    write_atomically(path, lambda t: t.write_text(text, encoding="utf-8"))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return escape(str(value))
