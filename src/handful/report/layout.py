"""The sections of a report's page: one for each set of tasks, with its tables, diagram, curves, bars, maps and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
import polars as pl

from handful.data.collection import Collection
from handful.errors import HandfulError
from handful.report import figures
from handful.report.answers import Disputed, answered, confusion, disputed, of_task
from handful.report.bench import Bench, Ranks
from handful.report.diagram import rank_diagram
from handful.report.page import Figure, Section
from handful.report.pictures import class_name, letter, task_picture
from handful.report.sheets import curve
from handful.report.summary import Points, percent, point
from handful.report.tables import Sheet
from handful.runs.again import episode_again, rule_again
from handful.tasks.rule import Rule

MOST_METHODS, MOST_SETS, MOST_CONTEXTS = 8, 30, 24
MOST_CONFUSED, MOST_CLASSES = 4, 25


def bench_section(
    bench: Bench, sheets: Mapping[str, Sheet], ranks: Ranks | None, collection: Collection | None, pictures: int
) -> Section:
    """Everything about one set of tasks; ``sheets`` by kind (scores, pairs, dataset, ...)."""
    identity = bench.identity
    n = len(bench.scores)
    asked = f"{n:,} tasks of {identity['part']}, rule {identity['rule']['rule']}, seed {identity['seed']}"
    if identity.get("repeats", 1) > 1:
        asked += f" to {identity['seed'] + identity['repeats'] - 1}"
    words = [f"{asked}. {'Every method was asked the same tasks. ' if len(bench.labels) > 1 else ''}{verdict(bench)}"]
    section = Section(bench.title, words, [sheets["scores"].table()], interval_bars(bench))
    if "pairs" in sheets:
        section.inner.append(pairs_part(bench, sheets["pairs"], ranks))
    for part in (ways_and_shots(bench), datasets_part(bench, sheets), contexts_part(bench, sheets)):
        if part.figures or part.tables:
            section.inner.append(part)
    if len(bench.labels) > 1 and pictures:
        section.inner.append(tasks_part(bench, collection, pictures))
    return section


def verdict(bench: Bench) -> str:
    """Who is best, and who cannot be told from it."""
    best = bench.labels[bench.best]
    if len(bench.labels) == 1:
        return f"{best}: {bench.column} {bench.estimate(best)}; one method alone has nothing to be compared with."
    ties = [label for label in bench.labels if bench.verdict(label) == "tie"]
    less = "lowest" if bench.lower else "best"
    out = f"{best} has the {less} {bench.column}, {bench.estimate(best)}"
    out += (
        f"; not significantly different from it: {', '.join(ties)}."
        if ties
        else ", significantly better than every other."
    )
    if not bench.can_tell:
        out += f" {len(bench.scores)} tasks are too few to show any difference with this test: ask more tasks."
    return out


def unit(bench: Bench) -> str:
    return f"{bench.column} (%)" if bench.scale == 100 else bench.column


def interval_bars(bench: Bench) -> list[Figure]:
    if len(bench.labels) < 2:
        return []
    order = sorted(bench.labels, key=lambda x: bench.estimate(x).value, reverse=not bench.lower)
    values = {bench.column: [percent(bench.estimate(label)) for label in order]}
    words = f"{bench.column} of {len(order)} methods with 95% intervals, best first"
    return [Figure(figures.side_bars(order, values, unit(bench)), words, f"{capital(words)}.")]


def pairs_part(bench: Bench, sheet: Sheet, ranks: Ranks | None) -> Section:
    words = [
        f"Differences are paired, task by task ({bench.test} test); p is corrected by Holm for {len(bench.pairs)} "
        f"{'pairs' if len(bench.pairs) > 1 else 'pair'}, and below {bench.alpha:g} two methods are called different."
    ]
    part = Section("Pairs of methods", words, [sheet.table()])
    if ranks is not None:
        part.figures.append(ranks_figure(ranks, bench.alpha))
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


def ways_and_shots(bench: Bench) -> Section:
    part = Section("Over ways and shots")
    for key in ("ways", "shots"):
        if key not in bench.tasks.columns or bench.tasks[key].n_unique() < 2:
            continue
        lines = {label: points for label in shown(bench) if len(points := curve(bench, label, key)) > 1}
        if lines:
            values = [float(w) for w in sorted(bench.tasks["ways"].unique().to_list())]
            chance = [(w, 100 / w) for w in values] if key == "ways" and bench.column == "accuracy" else None
            words = f"{bench.column} over {key}, one curve a method"
            part.figures.append(
                Figure(
                    figures.curves(lines, key, unit(bench), chance=chance),
                    words,
                    f"{capital(bench.column)} over {key}; bands: 95% over tasks.",
                )
            )
    return part


def across(benches: list[Bench]) -> list[Figure]:
    """Curves through several sets of tasks that differ in ways or in shots alone."""
    out = []
    for key, other in (("ways", "shots"), ("shots", "ways")):
        groups: dict[tuple[str, ...], list[tuple[float, Bench]]] = {}
        for bench in benches:
            if all(x in bench.tasks.columns and bench.tasks[x].n_unique() == 1 for x in (key, other)):
                same = (
                    bench.identity["part"],
                    bench.identity["rule"]["rule"],
                    bench.column,
                    str(bench.tasks[other][0]),
                )
                groups.setdefault(same, []).append((float(bench.tasks[key][0]), bench))
        for (part, rule, column, fixed), found in groups.items():
            if len({x for x, _ in found}) < 2:
                continue
            lines: dict[str, Points] = {}
            for x, bench in sorted(found, key=lambda f: f[0]):
                for label in shown(bench):
                    lines.setdefault(label, []).append(point(x, bench.estimate(label)))
            lines = {label: points for label, points in lines.items() if len(points) > 1}
            if lines:
                words = f"{column} over {key} at {fixed} {other} ({rule} tasks of {part.partition('@')[0]})"
                out.append(
                    Figure(
                        figures.curves(lines, key, unit(found[0][1])), words, f"{capital(words)}; bands: 95% intervals."
                    )
                )
    return out


def datasets_part(bench: Bench, sheets: Mapping[str, Sheet]) -> Section:
    part = Section("By data set")
    if "dataset" not in sheets:
        return part
    frame = sheets["dataset"].frame
    names = [str(x) for x in frame["dataset"].unique(maintain_order=True).to_list()]
    if len(names) > MOST_SETS:
        part.tables.append(sheets["dataset"].table())
        return part
    groups: dict[str, list[tuple[float, float]]] = {}
    for label in shown(bench):
        rows = frame.filter(pl.col("method") == label)
        by = {
            str(d): (bench.scale * v, bench.scale * (h - low) / 2)
            for d, v, low, h in rows.select("dataset", "value", "low", "high").rows()
        }
        groups[label] = [by.get(name, (float("nan"), 0.0)) for name in names]
    words = f"{bench.column} by data set and method"
    part.figures.append(
        Figure(
            figures.side_bars(names, groups, unit(bench)),
            words,
            f"{capital(words)} with 95% intervals over tasks.{left(bench)}",
        )
    )
    return part


def contexts_part(bench: Bench, sheets: Mapping[str, Sheet]) -> Section:
    part = Section("By context")
    if "context" not in sheets:
        return part
    frame = sheets["context"].frame
    names = sheets["context"].shown[:, 0].to_list()[:MOST_CONTEXTS]
    labels = [label for label in shown(bench) if label in set(frame["method"].to_list())]
    known = {(c, m): v for c, m, v in frame.select("context", "method", "value").rows()}
    values = np.asarray([[100 * known.get((c, m), float("nan")) for m in labels] for c in names])
    total = len(sheets["context"].shown)
    some = f"the worst {len(names)} of {total}" if total > len(names) else "worst first"
    words = f"Accuracy (%) of the queries in each context, by method, {some}"
    part.figures.append(Figure(figures.heat(values, names, labels, "accuracy (%)"), words, words + "."))
    return part


def tasks_part(bench: Bench, collection: Collection | None, most: int) -> Section:
    """The tasks the methods disagree on most: pictured if the collection can be opened, and the first one's confusions."""
    found, meaning = disputed(bench, most)
    part = Section("Where the methods disagree most")
    if not found:
        part.sentences.append("The methods agree on every task.")
        return part
    part.sentences.append(f"Disagreement of a task: {meaning}.")
    rule: Rule | None = None
    try:
        rule = rule_again(bench.first, collection)
        if rule.part.collection.card.kind != "images":
            part.sentences.append("The tasks cannot be pictured: the collection holds features, not images.")
    except (HandfulError, OSError) as error:
        part.sentences.append(f"The tasks cannot be pictured: {error}.".replace("..", "."))
    answers = answered(bench)
    if not answers:
        part.sentences.append("No answers were kept (eval --answers keeps them), so single queries are not marked.")
    part.figures = confusions(bench, answers, found[0], rule)
    if rule is not None and rule.part.collection.card.kind == "images":
        for each in found:
            episode = episode_again(bench.first, rule, each.repeat, each.task)
            mine = {label: of_task(frame, each.repeat, each.task) for label, frame in answers.items()}
            scores = ", ".join(f"{label} {bench.scale * s:.1f}" for label, s in each.scores.items())
            head = f"Task {each.task}" + (f" of repeat {each.repeat}" if bench.identity.get("repeats", 1) > 1 else "")
            part.raw += f"<p><b>{head}</b> (disagreement {each.value:.2f}): {escape(scores)}.</p>"
            part.raw += task_picture(rule.part.collection, episode, mine)
        key = ", ".join(f"{letter(i)} {label}" for i, label in enumerate(answers))
        marks = f" Under a query: {key}; ✓ right, ✗ wrong." if answers else ""
        part.sentences.append(
            f"Left of the line some of the support, right of it the queries that divide the methods most.{marks}"
        )
    return part


def confusions(bench: Bench, answers: Mapping[str, pl.DataFrame], at: Disputed, rule: Rule | None) -> list[Figure]:
    """Confusion of one task, by method; of two methods only where the task has many classes."""
    episode = episode_again(bench.first, rule, at.repeat, at.task) if rule else None
    out: list[Figure] = []
    for label in [x for x in shown(bench) if x in answers]:
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


def shown(bench: Bench) -> list[str]:
    """The methods that figures show: the best ones, in the order given."""
    order = sorted(bench.labels, key=lambda x: bench.estimate(x).value, reverse=not bench.lower)[:MOST_METHODS]
    return [label for label in bench.labels if label in order]


def left(bench: Bench) -> str:
    return (
        f" The best {MOST_METHODS} methods; the exported tables have all." if len(bench.labels) > MOST_METHODS else ""
    )


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
