"""The settings of the demo, in order."""

from __future__ import annotations

from collections.abc import Callable

from handful.report.demo.clustering import clustering
from handful.report.demo.context import context
from handful.report.demo.few_shot import few_shot
from handful.report.demo.pairs import pairs
from handful.report.demo.zero_shot import zero_shot
from handful.report.page import Section

SECTIONS: dict[str, Callable[[int, int], Section]] = {
    "few-shot, any way and any shot": few_shot,
    "under spurious correlation": context,
    "without labels": clustering,
    "pairs never seen together": pairs,
    "from descriptions alone": zero_shot,
}


def run_section(options: tuple[int, int], name: str) -> tuple[str, Section]:
    """One section by name, as a worker process calls it."""
    return name, SECTIONS[name](*options)
