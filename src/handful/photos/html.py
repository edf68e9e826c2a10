"""Reports and answers where a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def lines(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(t)}</li>" for t in texts) + "</ul>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    top = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
