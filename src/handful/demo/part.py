"""What one setting of the demo gives: a section of the first page, and its runs for the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from handful.report.entries import RunEntry
from handful.report.page import Section
from handful.report.sheets import slug
from handful.runs import Run


@dataclass
class DemoPart:
    """``runs`` by the title of their tasks, then by method."""

    section: Section
    runs: dict[str, dict[str, Run]] = field(default_factory=dict)

    @property
    def entries(self) -> list[RunEntry]:
        return [RunEntry(label, run, title, named=True) for title, by in self.runs.items() for label, run in by.items()]

    def keep(self, folder: Path) -> None:
        """Save the runs, so that `handful report` can be tried on them."""
        for title, by in self.runs.items():
            for label, run in by.items():
                run.save(folder / slug(title) / slug(label))
