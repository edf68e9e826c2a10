"""The results of one challenge, or of two protocols side by side, as static files that can be kept: a page and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from handful.challenge import scores, tables
from handful.challenge.results import LABEL, half
from handful.challenge.rules import Line
from handful.challenge.spec import Challenge
from handful.metrics.base import SHOWN
from handful.report import figures
from handful.report.page import Figure, Section, Table, page, write_page
from handful.runs.run import DAGGER, TRANSDUCTIVE


@dataclass(frozen=True)
class Season:
    """One challenge's phase: its leaderboards by league, and the table of each entry that was kept."""

    challenge: Challenge
    phase: str
    boards: Mapping[str, Sequence[Line]]
    frames: Mapping[str, pl.DataFrame]

    @property
    def name(self) -> str:
        return f"{self.challenge.title} ({self.challenge.protocol.kind})"


def write_site(seasons: Sequence[Season], folder: Path) -> Path:
    """index.html, and the tables behind it as CSV for each season; gives the page."""
    for season in seasons:
        if season.frames:
            tables.write_tables(season.frames, folder / f"{season.challenge.name}-{season.phase}")
    write_page(folder / "index.html", season_page(seasons))
    return folder / "index.html"


def season_page(seasons: Sequence[Season]) -> str:
    """Leaderboards, then the figures of the published analysis (Carrión-Ojeda et al. 2022, Figures 1-3)."""
    first = seasons[0].challenge
    sections = [board_section(season) for season in seasons]
    kept = [season for season in seasons if season.frames]
    if kept:
        sections += [entries_section(kept), shapes_section(kept), difficulty_section(kept)]
    return page(first.title, first.text, sections, "Made by handful challenge export --site.")


def board_section(season: Season) -> Section:
    """The leaderboards of all leagues that have entries."""
    section = Section(f"{season.name}: {season.phase}")
    for league in season.challenge.leagues:
        lines = season.boards.get(league.name, ())
        rows = [
            {
                "rank": str(line.rank or line.why),
                "entrant": line.name + f" {DAGGER}" * bool(line.learner.get("transductive")),
                **{column.heading: column.shown(line) for column in tables.columns_of(season.challenge.ranking)},
            }
            for line in lines
        ]
        if rows:
            section.tables.append(Table(pl.DataFrame(rows), league.title or league.name))
    marked = any(line.learner.get("transductive") for lines in season.boards.values() for line in lines)
    section.sentences = [
        f"Mean {LABEL} over the tasks of the seed that counts: 0 is guessing, 1 is perfect. {SHOWN} intervals over tasks."
        if section.tables
        else "There are no scored entries."
    ]
    if marked:
        section.sentences.append(f"{DAGGER} {TRANSDUCTIVE}, known of the library's learners, declared of others.")
    return section


def entries_section(seasons: Sequence[Season]) -> Section:
    """Figure 1: each entry's mean over all its tasks, protocols side by side."""
    names = list(dict.fromkeys(name for season in seasons for name in season.frames))
    groups = {}
    for season in seasons:
        found = {name: scores.estimate(frame) for name, frame in season.frames.items()}
        missing = (float("nan"), float("nan"))
        groups[season.name] = [(found[n].value, half(found[n])) if n in found else missing for n in names]
    drawn = Figure(figures.side_bars(names, groups, LABEL), "scores of all entries")
    return Section("Entries", [f"Mean over the tasks of all seeds, {SHOWN} intervals over tasks."], figures=[drawn])


def shapes_section(seasons: Sequence[Season]) -> Section:
    """Figure 2: how the number of ways and of shots changes the scores."""
    section = Section("Ways and shots")
    for season in seasons:
        for key in ("ways", "shots"):
            lines = {}
            for name, frame in list(season.frames.items())[:8]:
                each = sorted(scores.by(frame, key).items(), key=lambda item: int(item[0]))
                lines[name] = [(float(n), e.value, e.value - half(e), e.value + half(e)) for n, e in each]
            words = f"{season.name}: scores by {key}"
            section.figures.append(Figure(figures.curves(lines, key, LABEL), words, words))
    return section


def difficulty_section(seasons: Sequence[Season]) -> Section:
    """Figure 3: what the worst entry has, what separates it from the best, what the best one lacks."""
    section = Section("Difficulty of the data sets")
    for season in seasons:
        if len(season.frames) > 1:
            table = tables.difficulties(season.frames)
            section.figures.append(Figure(tables.difficulty_figure(table), f"{season.name}: difficulty", season.name))
            section.tables.append(Table(table, season.name))
    if not section.figures:
        section.sentences.append("Difficulty compares the worst with the best entry; there must be at least two.")
    return section
