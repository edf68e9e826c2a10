"""The sections of a report's page: one for each set of tasks, with its tables, diagram, curves, bars, maps and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
import polars as pl

from handful.data.collection import Collection
from handful.errors import HandfulError
from handful.metrics.base import SHOWN
from handful.report import figures
from handful.report.answers import Disputed, answered, confusion, disputed, of_task
from handful.report.comparison import Comparison, Ranks
from handful.report.diagram import rank_diagram
from handful.report.page import Figure, Section
from handful.report.pictures import class_name, letter, task_picture
from handful.report.robustness import reliability_part
from handful.report.sheets import curve
from handful.report.summary import Points, percent, point
from handful.report.tables import Sheet
from handful.runs.filled import asked_net, seen_by
from handful.runs.replay import replay_episode, replay_rule
from handful.tasks.rule import Rule

MOST_METHODS, MOST_SETS, MOST_CONTEXTS = 8, 30, 24
MOST_CONFUSED, MOST_CLASSES = 4, 25


def comparison_section(
    comparison: Comparison,
    sheets: Mapping[str, Sheet],
    ranks: Ranks | None,
    collection: Collection | None,
    pictures: int,
) -> Section:
    """Everything about one set of tasks; ``sheets`` by kind (scores, pairs, dataset, ...)."""
    identity = comparison.identity
    n = len(comparison.scores)
    asked = f"{n:,} tasks of {identity['part']}, rule {identity['rule']['rule']}, seed {identity['seed']}"
    if identity.get("repeats", 1) > 1:
        asked += f" to {identity['seed'] + identity['repeats'] - 1}"
    words = [
        f"{asked}. {'Every method was asked the same tasks. ' if len(comparison.labels) > 1 else ''}{verdict(comparison)}"
    ]
    section = Section(comparison.title, words, [sheets["scores"].table()], interval_bars(comparison))
    if "pairs" in sheets:
        section.inner.append(pairs_part(comparison, sheets["pairs"], ranks))
    parts = ways_and_shots(comparison), datasets_part(comparison, sheets), contexts_part(comparison, sheets)
    for part in (*parts, reliability_part(comparison)):
        if part.figures or part.tables:
            section.inner.append(part)
    if len(comparison.labels) > 1 and pictures:
        section.inner.append(tasks_part(comparison, collection, pictures))
    return section


WORDS = {
    "hm": "harmonic mean of unseen and seen accuracy (hm)",
    "unseen": "accuracy on unseen pairs",
    "seen": "accuracy on seen pairs",
    "harmonic1": "harmonic mean of accuracy on seen and unseen classes",
    "top1": "accuracy",
    "unsupervised": "accuracy without labels (unsupervised)",
    "clustering": "clustering accuracy",
    "nmi": "normalised mutual information (nmi)",
    "ari": "adjusted Rand index (ari)",
}
"""Columns whose names are abbreviations, in words."""


def verdict(comparison: Comparison) -> str:
    """Who is best, and who cannot be told from it."""
    best = comparison.labels[comparison.best]
    if len(comparison.labels) == 1:
        return f"{best}: {comparison.column} {comparison.estimate(best)}; one method alone has nothing to be compared with."
    ties = [label for label in comparison.labels if comparison.verdict(label) == "tie"]
    less = "lowest" if comparison.lower else "best"
    column = WORDS.get(comparison.column, comparison.column)
    out = f"{best} has the {less} {column}, {comparison.estimate(best)}"
    out += (
        f"; not significantly different from it: {', '.join(ties)}."
        if ties
        else ", significantly better than every other."
    )
    seen = {label: seen_by(asked_net(comparison.runs[label][0])) for label in comparison.labels}
    scratch = [label for label in comparison.labels if not seen[label]]
    if seen[best] and scratch:
        some = ", ".join(scratch[:3]) + (" and others" if len(scratch) > 3 else "")
        out += f" Its encoder was pretrained on {seen[best]}, which {some} had not seen: the comparison is of encoders, too."
    if not comparison.can_tell:
        out += f" {len(comparison.scores)} tasks are too few to show any difference with this test: ask more tasks."
    return out


def unit(comparison: Comparison) -> str:
    return f"{comparison.column} (%)" if comparison.scale == 100 else comparison.column


def interval_bars(comparison: Comparison) -> list[Figure]:
    if len(comparison.labels) < 2:
        return []
    order = sorted(comparison.labels, key=lambda x: comparison.estimate(x).value, reverse=not comparison.lower)
    values = {comparison.column: [percent(comparison.estimate(label)) for label in order]}
    words = f"{comparison.column} of {len(order)} methods with {SHOWN} intervals, best first"
    return [Figure(figures.side_bars(order, values, unit(comparison)), words, f"{capital(words)}.")]


def pairs_part(comparison: Comparison, sheet: Sheet, ranks: Ranks | None) -> Section:
    words = [
        f"Differences are paired, task by task ({comparison.test} test); p is corrected by Holm for {len(comparison.pairs)} "
        f"{'pairs' if len(comparison.pairs) > 1 else 'pair'}, and below {comparison.alpha:g} two methods are called different."
    ]
    part = Section("Pairs of methods", words, [sheet.table()])
    if ranks is not None:
        part.figures.append(ranks_figure(ranks, comparison.alpha))
    return part


def ranks_figure(ranks: Ranks, alpha: float) -> Figure:
    r = ranks.ranking
    order = np.argsort(r.ranks, kind="stable")
    said = ", ".join(f"{ranks.labels[i]} {r.ranks[i]:.2f}" for i in order)
    how = "Wilcoxon's signed ranks, Holm" if ranks.how == "wilcoxon" else "Nemenyi"
    groups = "; ".join(" and ".join(ranks.labels[i] for i in group) for group in ranks.groups) or "none"
    caption = (
        f"Average rank over {r.n} {ranks.over} (1 is best). Friedman: chi2 = {r.chi2:.2f}, p {_p(r.p)}; Iman-Davenport: "
        f"F = {r.f:.2f}, p {_p(r.f_p)}. A bar joins methods that are not significantly different at {alpha:g} ({how})."
    )
    return Figure(
        rank_diagram(ranks), f"Critical-difference diagram. Average ranks: {said}. Joined: {groups}.", caption
    )


def ways_and_shots(comparison: Comparison) -> Section:
    part = Section("Over ways and shots")
    for key in ("ways", "shots"):
        if key not in comparison.tasks.columns or comparison.tasks[key].n_unique() < 2:
            continue
        lines = {label: points for label in shown(comparison) if len(points := curve(comparison, label, key)) > 1}
        if lines:
            values = [float(w) for w in sorted(comparison.tasks["ways"].unique().to_list())]
            chance = [(w, 100 / w) for w in values] if key == "ways" and comparison.column == "accuracy" else None
            words = f"{comparison.column} over {key}, one curve a method"
            part.figures.append(
                Figure(
                    figures.curves(lines, key, unit(comparison), chance=chance),
                    words,
                    f"{capital(comparison.column)} over {key}; bands: {SHOWN} over tasks.",
                )
            )
    return part


def across(comparisons: list[Comparison]) -> list[Figure]:
    """Curves through several sets of tasks that differ in ways or in shots alone."""
    out = []
    for key, other in (("ways", "shots"), ("shots", "ways")):
        groups: dict[tuple[str, ...], list[tuple[float, Comparison]]] = {}
        for comparison in comparisons:
            if all(x in comparison.tasks.columns and comparison.tasks[x].n_unique() == 1 for x in (key, other)):
                same = (
                    comparison.identity["part"],
                    comparison.identity["rule"]["rule"],
                    comparison.column,
                    str(comparison.tasks[other][0]),
                )
                groups.setdefault(same, []).append((float(comparison.tasks[key][0]), comparison))
        for (part, rule, column, fixed), found in groups.items():
            if len({x for x, _ in found}) < 2:
                continue
            lines: dict[str, Points] = {}
            for x, comparison in sorted(found, key=lambda f: f[0]):
                for label in shown(comparison):
                    lines.setdefault(label, []).append(point(x, comparison.estimate(label)))
            lines = {label: points for label, points in lines.items() if len(points) > 1}
            if lines:
                words = f"{column} over {key} at {fixed} {other} ({rule} tasks of {part.partition('@')[0]})"
                out.append(
                    Figure(
                        figures.curves(lines, key, unit(found[0][1])),
                        words,
                        f"{capital(words)}; bands: {SHOWN} intervals.",
                    )
                )
    return out


def datasets_part(comparison: Comparison, sheets: Mapping[str, Sheet]) -> Section:
    part = Section("By data set")
    if "dataset" not in sheets:
        return part
    frame = sheets["dataset"].frame
    names = [str(x) for x in frame["dataset"].unique(maintain_order=True).to_list()]
    if len(names) > MOST_SETS:
        part.tables.append(sheets["dataset"].table())
        return part
    groups: dict[str, list[tuple[float, float]]] = {}
    for label in shown(comparison):
        rows = frame.filter(pl.col("method") == label)
        by = {
            str(d): (comparison.scale * v, comparison.scale * (h - low) / 2)
            for d, v, low, h in rows.select("dataset", "value", "low", "high").rows()
        }
        groups[label] = [by.get(name, (float("nan"), 0.0)) for name in names]
    words = f"{comparison.column} by data set and method"
    part.figures.append(
        Figure(
            figures.side_bars(names, groups, unit(comparison)),
            words,
            f"{capital(words)} with {SHOWN} intervals over tasks.{left(comparison)}",
        )
    )
    return part


def contexts_part(comparison: Comparison, sheets: Mapping[str, Sheet]) -> Section:
    part = Section("By context")
    if "context" not in sheets:
        return part
    frame = sheets["context"].frame
    names = sheets["context"].shown[:, 0].to_list()[:MOST_CONTEXTS]
    labels = [label for label in shown(comparison) if label in set(frame["method"].to_list())]
    known = {(c, m): v for c, m, v in frame.select("context", "method", "value").rows()}
    values = np.asarray([[100 * known.get((c, m), float("nan")) for m in labels] for c in names])
    total = len(sheets["context"].shown)
    some = f"the worst {len(names)} of {total}" if total > len(names) else "worst first"
    words = f"Accuracy (%) of the queries in each context, by method, {some}"
    part.figures.append(Figure(figures.heat(values, names, labels, "accuracy (%)"), words, words + "."))
    return part


def tasks_part(comparison: Comparison, collection: Collection | None, most: int) -> Section:
    """The tasks the methods disagree on most: pictured if the collection can be opened, and the first one's confusions."""
    found, meaning = disputed(comparison, most)
    part = Section("Where the methods disagree most")
    if not found:
        part.sentences.append("The methods agree on every task.")
        return part
    part.sentences.append(f"Disagreement of a task: {meaning}.")
    rule: Rule | None = None
    try:
        rule = replay_rule(comparison.first, collection)
        if rule.part.collection.card.kind != "images":
            part.sentences.append("The tasks cannot be pictured: the collection holds features, not images.")
    except (HandfulError, OSError) as error:
        part.sentences.append(f"The tasks cannot be pictured: {error}.".replace("..", "."))
    answers = answered(comparison)
    if not answers:
        part.sentences.append("No answers were kept (eval --answers keeps them), so single queries are not marked.")
    part.figures = confusions(comparison, answers, found[0], rule)
    if rule is not None and rule.part.collection.card.kind == "images":
        for each in found:
            episode = replay_episode(comparison.first, rule, each.repeat, each.task)
            mine = {label: of_task(frame, each.repeat, each.task) for label, frame in answers.items()}
            scores = ", ".join(f"{label} {comparison.scale * s:.1f}" for label, s in each.scores.items())
            head = f"Task {each.task}" + (
                f" of repeat {each.repeat}" if comparison.identity.get("repeats", 1) > 1 else ""
            )
            part.raw += f"<p><b>{head}</b> (disagreement {each.value:.2f}): {escape(scores)}.</p>"
            part.raw += task_picture(rule.part.collection, episode, mine)
        key = ", ".join(f"{letter(i)} {label}" for i, label in enumerate(answers))
        marks = f" Under a query: {key}; ✓ right, ✗ wrong." if answers else ""
        part.sentences.append(
            f"Left of the line some of the support, right of it the queries that divide the methods most.{marks}"
        )
    return part


def confusions(
    comparison: Comparison, answers: Mapping[str, pl.DataFrame], at: Disputed, rule: Rule | None
) -> list[Figure]:
    """Confusion of one task, by method; of two methods only where the task has many classes."""
    episode = replay_episode(comparison.first, rule, at.repeat, at.task) if rule else None
    out: list[Figure] = []
    for label in [x for x in shown(comparison) if x in answers]:
        rows = of_task(answers[label], at.repeat, at.task)
        n = episode.n_classes if episode else 1 + max(*rows["truth"].to_list(), *rows["predicted"].to_list())
        if n > MOST_CLASSES or len(out) >= (MOST_CONFUSED if n <= 10 else 2):
            break
        names = without_common([class_name(episode, c) if episode else f"class {c}" for c in range(n)])
        counts = confusion(answers[label], at.repeat, at.task, n)
        words = f"Confusion of {label} in task {at.task}: rows are the truth, columns the answers"
        out.append(Figure(figures.heat(counts, names, names, "queries", blank=0), words, words + "."))
    return out


def without_common(names: list[str]) -> list[str]:
    """The names without the data set that all of them begin with."""
    heads = {name.partition("/")[0] for name in names}
    return [name.partition("/")[2] for name in names] if len(heads) == 1 and all("/" in n for n in names) else names


def shown(comparison: Comparison) -> list[str]:
    """The methods that figures show: the best ones, in the order given."""
    order = sorted(comparison.labels, key=lambda x: comparison.estimate(x).value, reverse=not comparison.lower)[
        :MOST_METHODS
    ]
    return [label for label in comparison.labels if label in order]


def left(comparison: Comparison) -> str:
    return (
        f" The best {MOST_METHODS} methods; the exported tables have all."
        if len(comparison.labels) > MOST_METHODS
        else ""
    )


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
