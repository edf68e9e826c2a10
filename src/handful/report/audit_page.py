"""The page of an audit: the verdict first, then a card a finding under the question that it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from math import isfinite
from typing import Any

from handful.metrics.base import SHOWN
from handful.report.page import Figure, Section, page

LIGHTS = {"red": "warning", "amber": "note", "green": "fine", "grey": "not judged"}


@dataclass(frozen=True)
class FindingCard:
    """A finding as the page shows it; ``intervals`` are (low, high, what it covers)."""

    question: str
    light: str
    sentence: str
    headline: str
    value: float
    intervals: tuple[tuple[float, float, str], ...]
    threshold: str
    figure: str
    alt: str
    details: Mapping[str, Any]
    anchor: str

    def html(self) -> str:
        figure = Figure(self.figure, self.alt).html() if self.figure else ""
        covers = "".join(
            f"<tr><th scope='row'>{escape(over)}</th><td>{number(low)} to {number(high)}</td></tr>"
            for low, high, over in self.intervals
        )
        facts = f"<p class='number'>{number(self.value)}</p><table class='covers' aria-label='{SHOWN} intervals'>{covers}</table>"
        more = json.dumps(self.details, indent=1, ensure_ascii=False)
        return (
            f'<article class="finding {self.light}" id="{self.anchor}"><p class="light">{LIGHTS[self.light]}</p>'
            f"<h3>{escape(self.question)}</h3><p>{escape(capital(self.sentence))}.</p>"
            f'<div class="beside"><div>{facts}<p class="small">Threshold: {escape(self.threshold)}.</p></div>{figure}</div>'
            f"<details><summary>All numbers</summary><pre>{escape(more)}</pre></details></article>"
        )

    def line(self) -> str:
        """The finding in the verdict's list."""
        return (
            f'<li class="{self.light}"><span class="light">{LIGHTS[self.light]}</span> '
            f'<a href="#{self.anchor}">{escape(self.question)}</a> {escape(self.headline)}.</li>'
        )


def audit_page(
    title: str,
    verdict: str,
    notes: Sequence[str],
    topics: Mapping[str, Sequence[FindingCard]],
    left_out: Mapping[str, str],
    foot: str,
) -> str:
    """One HTML text; ``topics`` are the questions of the page with their findings, ``left_out`` what was not run and why."""
    order = {light: i for i, light in enumerate(LIGHTS)}
    cards = sorted((c for some in topics.values() for c in some), key=lambda c: order[c.light])
    listed = "".join(c.line() for c in cards)
    sections = [
        Section("The verdict", raw=f'<p class="verdict">{escape(verdict)}</p><ul class="verdicts">{listed}</ul>')
    ]
    sections += [Section(topic, raw="".join(c.html() for c in some)) for topic, some in topics.items() if some]
    if left_out:
        rows = "".join(f"<li><b>{escape(name)}</b>: {escape(why)}.</li>" for name, why in left_out.items())
        sections.append(Section("What was not run", raw=f'<ul class="plain">{rows}</ul>'))
    words = [
        *notes,
        f"Intervals are {SHOWN}. One for new tasks from the same classes says what other tasks of these classes would give; one for "
        "new classes also draws classes and images again, and is the one that a claim about the world needs.",
    ]
    sections.append(Section("How it was measured", list(words)))
    lead = "What a score on this collection will really mean."
    css = (resources.files("handful") / "report" / "audit.css").read_text(encoding="utf-8")
    return page(title, lead, sections, foot).replace("</style>", f"{css}</style>", 1)


def number(value: float) -> str:
    """A number as a person reads it: three digits."""
    if value is None or not isfinite(value):
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
