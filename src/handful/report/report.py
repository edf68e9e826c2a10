"""Report: runs as a page, as tables and as plain facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from handful._version import __version__
from handful.data.collection import Collection
from handful.errors import BadInput, Mismatch, nearest
from handful.metrics.many import TESTS
from handful.report.answers import disputed
from handful.report.comparison import Comparison, Ranks, rank
from handful.report.entries import RunEntry, Source, gather
from handful.report.layout import across, comparison_section, ranks_figure, verdict
from handful.report.page import Section, page, unique, write_page
from handful.report.reading import reading
from handful.report.robustness import strain_figures
from handful.report.sheets import (
    contexts_sheet,
    cut_sheet,
    finite,
    method_facts,
    overview_sheet,
    pair_facts,
    pairs_sheet,
    reported_rows,
    reported_sheet,
    scores_sheet,
    slug,
)
from handful.report.tables import FORMATS, Sheet, markdown

HOW = ("wilcoxon", "nemenyi")
OVER = ("auto", "tasks", "datasets")
FEWEST_SETS = 3


class Report:
    """Runs side by side: means with intervals, ties, paired tests, ranks, figures.

    Runs that were asked the same tasks (equal ``tasks_id``) are compared, pair by pair; others stand in sections of their
    own and are never paired.

    Parameters
    ----------
    runs
        Runs, recipes' results, or folders of either; a mapping's keys are the methods' labels. Runs of one label on the
        same tasks are training seeds of one method.
    metric
        The column to compare; by default the recipe's, else the metric's main one.
    test
        The paired test: ``sign-flip`` (as `Run.compare`), ``t`` or ``wilcoxon``; always corrected by Holm over all pairs.
    groups
        How the bars of the critical-difference diagram are found: ``wilcoxon`` (signed ranks, Holm) or ``nemenyi``.
    over
        What ranks are averaged over: ``tasks``, ``datasets``, or ``auto``: data sets where there are six or more.
    collection
        Where to find the images of the tasks, if not where the runs found them.
    pictures
        How many of the tasks with the largest disagreement are pictured for each set of tasks.
    same_tasks
        Refuse runs that were not all asked the same tasks.
    """

    def __init__(
        self,
        runs: Iterable[Source] | Mapping[str, Source] | Source,
        *,
        title: str = "",
        metric: str | None = None,
        test: str = "sign-flip",
        alpha: float = 0.05,
        groups: str = "wilcoxon",
        over: str = "auto",
        collection: Collection | None = None,
        pictures: int = 3,
        same_tasks: bool = False,
    ):
        for value, known, what in (
            (test, TESTS, "test"),
            (groups, HOW, "way to group"),
            (over, OVER, "thing to rank over"),
        ):
            if value not in known:
                raise BadInput(f"there is no {what} {value!r}; {nearest(value, known)}")
        if not 0 < alpha < 1:
            raise BadInput(f"the level alpha must lie between 0 and 1, not {alpha:g}")
        self.gathered = gather(runs)
        self.alpha, self.groups, self.over, self.collection, self.pictures = alpha, groups, over, collection, pictures
        sets: dict[str, list[RunEntry]] = {}
        for entry in self.gathered.entries:
            sets.setdefault(entry.run.identity["tasks_id"], []).append(entry)
        if same_tasks and len(sets) > 1:
            ids = sorted({e.run.identity["collection"] for e in self.gathered.entries})
            why = f"collections {' and '.join(ids)}" if len(ids) > 1 else f"tasks {' and '.join(sets)}"
            raise Mismatch(
                f"the runs cannot be paired: they are on different {why}; evaluate all with the same collection, rule and seed"
            )
        self.comparisons = [Comparison(entries, metric, test, alpha) for entries in sets.values()]
        for comparison, name in zip(self.comparisons, self._titles(), strict=True):
            comparison.title = name
        self.title = title or (self.gathered.recipes[0]["title"] if self.gathered.recipes else "Methods compared")

    def _titles(self) -> list[str]:
        names = [comparison.title for comparison in self.comparisons]
        return unique(
            [
                f"{name}, seed {b.identity['seed']}, {len(b.scores)} tasks" if names.count(name) > 1 else name
                for name, b in zip(names, self.comparisons, strict=True)
            ]
        )

    @cached_property
    def ranks(self) -> list[Ranks | None]:
        """Ranks of the methods in each set of tasks."""
        return [comparison.ranks(self.over, self.groups) for comparison in self.comparisons]

    @cached_property
    def overall(self) -> Ranks | None:
        """Ranks over the data sets of all collections, of the methods that all of them have."""
        kinds = {(b.column, b.lower) for b in self.comparisons}
        labels = [x for x in self.comparisons[0].labels if all(x in b.labels for b in self.comparisons)]
        if len({b.identity["collection"] for b in self.comparisons}) < 2 or len(kinds) > 1 or len(labels) < 3:
            return None
        blocks: dict[tuple[str, str], list[np.ndarray]] = {}
        for comparison in self.comparisons:
            chosen = [comparison.labels.index(x) for x in labels]
            names, means = comparison.by_dataset
            if not names:
                names, means = [""], np.nanmean(comparison.scores, 0, keepdims=True)
            for name, row in zip(names, means, strict=True):
                blocks.setdefault((comparison.identity["collection"], name), []).append(row[chosen])
        if len(blocks) < FEWEST_SETS:
            return None
        scores = np.stack([np.mean(rows, 0) for rows in blocks.values()])
        return rank(scores, labels, "data sets", self.groups, self.alpha, self.comparisons[0].lower)

    @cached_property
    def sheets(self) -> list[dict[str, Sheet]]:
        """The tables of each set of tasks, by kind."""
        names = unique([slug(comparison.title) for comparison in self.comparisons])
        out = []
        for comparison, name in zip(self.comparisons, names, strict=True):
            found: dict[str, Sheet | None] = {
                "scores": scores_sheet(comparison, name),
                "pairs": pairs_sheet(comparison, name),
            }
            found.update({key: cut_sheet(comparison, name, key) for key in ("dataset", "ways", "shots")})
            found["context"] = contexts_sheet(comparison, name)
            out.append({kind: sheet for kind, sheet in found.items() if sheet is not None})
        return out

    @cached_property
    def reported(self) -> Sheet | None:
        """A recipe's table: reported beside measured."""
        rows = reported_rows(self.gathered.entries)
        if not self.gathered.recipes or not rows:
            return None
        recipes = self.gathered.recipes
        facts = dict(recipes[0])
        for key in ("title", "paper", "table", "reported_on", "collection"):
            facts[key] = "; ".join(dict.fromkeys(r[key] for r in recipes))
        return reported_sheet(rows, facts, "reported")

    @cached_property
    def overview(self) -> Sheet | None:
        """Methods against sets of tasks."""
        return overview_sheet(self.comparisons)

    @property
    def tables(self) -> dict[str, Sheet]:
        """Every table by its name."""
        found = [sheet for sheet in (self.reported, self.overview) if sheet is not None]
        found += [sheet for by in self.sheets for sheet in by.values()]
        return {sheet.name: sheet for sheet in found}

    def write_tables(self, folder: str | Path, formats: Iterable[str] = tuple(FORMATS)) -> list[Path]:
        """Every table as CSV (numbers in full), LaTeX (booktabs) and Markdown."""
        return [path for sheet in self.tables.values() for path in sheet.write(Path(folder), tuple(formats))]

    @property
    def frame(self) -> pl.DataFrame:
        """One row per method and set of tasks."""
        rows = [{"tasks": b.title, **row} for b in self.comparisons for row in method_facts(b)]
        return pl.DataFrame(rows, infer_schema_length=None)

    def as_dict(self) -> dict[str, Any]:
        """The same facts as the tables, plain."""
        sets = []
        for comparison, ranks in zip(self.comparisons, self.ranks, strict=True):
            found, meaning = disputed(comparison, self.pictures)
            identity = {
                k: comparison.identity.get(k)
                for k in ("collection", "part", "rule", "seed", "repeats", "n", "tasks_id")
            }
            sets.append(
                {
                    "title": comparison.title,
                    **identity,
                    "metric": comparison.column,
                    "test": comparison.test,
                    "methods": method_facts(comparison),
                    "pairs": pair_facts(comparison),
                    "ranks": None if ranks is None else ranks.as_dict(),
                    "disagreement": {"means": meaning, "tasks": [vars(d) for d in found]},
                }
            )
        overall = None if self.overall is None else self.overall.as_dict()
        reported = [] if self.reported is None else self.reported.frame.to_dicts()
        facts = {
            "title": self.title,
            "tasks": sets,
            "overall": overall,
            "reported": reported,
            "left_out": self.gathered.left_out,
        }
        return finite(facts)

    def html(self) -> str:
        """The page."""
        alone = len(self.comparisons) == 1 and self.reported is None
        sections = [] if alone else [self._short()]
        for comparison, by, ranks in zip(self.comparisons, self.sheets, self.ranks, strict=True):
            sections.append(comparison_section(comparison, by, ranks, self.collection, self.pictures))
        sections.append(reading(self.comparisons))
        methods = len({label for b in self.comparisons for label in b.labels})
        lead = verdict(self.comparisons[0]) if alone else ""
        lead = (
            lead
            or f"{methods} method{'s' * (methods != 1)} on {len(self.comparisons)} set{'s' * (len(self.comparisons) != 1)} of tasks."
        )
        return page(self.title, lead, sections, f"handful {__version__}")

    def _short(self) -> Section:
        section = Section("In short", [f"{b.title}: {verdict(b)}" for b in self.comparisons])
        if self.reported is not None:
            section.tables.append(self.reported.table())
        if self.overview is not None:
            section.tables.append(self.overview.table())
        section.figures = across(self.comparisons) + strain_figures(self.comparisons)
        if self.overall is not None:
            section.figures.append(ranks_figure(self.overall, self.alpha))
        section.sentences += dict.fromkeys(r["note"] for r in self.gathered.recipes if r["note"])
        section.sentences += [f"Left out: {why}" for why in self.gathered.left_out]
        return section

    def save(self, path: str | Path) -> Path:
        """Write the page: one HTML file with everything inside."""
        path = Path(path)
        if path.is_dir():
            raise BadInput(f"{path} is a folder; name a file for the page, such as {path / 'page.html'}")
        write_page(path, self.html())
        return path

    def __str__(self) -> str:
        lines = [self.title]
        for comparison, by in zip(self.comparisons, self.sheets, strict=True):
            lines += ["", f"{comparison.title}: {verdict(comparison)}", markdown(by["scores"].shown)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(by["scores"].table().html() for by in self.sheets)
