"""The page of a certificate: what was done, every diagnosis before and after, the panel's scores and ranks, how to repeat it."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import polars as pl

from handful.report.figures import COLOURS, STYLE, as_svg
from handful.report.page import Figure, Section, Table, page

LIGHTS = {"red": "warning", "amber": "note", "green": "fine", "grey": "not judged"}


def certificate_page(facts: dict[str, Any]) -> str:
    """One HTML text."""
    source, repaired = facts["source"], facts["repaired"]
    lead = f"{repaired['images']:,} of {source['images']:,} images of {source['id']}, as {repaired['id']}."
    sections = [done_section(facts), audits_section(facts["audits"])]
    if "methods" in facts["panel"]:
        sections.append(panel_section(facts["panel"]))
    sections.append(repeat_section(facts))
    return page(f"Certificate of {source['id'].partition('@')[0]}", lead, sections, f"handful {facts['version']}.")


def said(found: dict[str, Any] | None) -> str:
    """One finding's number, interval and light."""
    if found is None or found.get("value") is None:
        return "not measured"
    span = "" if found.get("low") is None else f" [{found['low']:.3g}, {found['high']:.3g}]"
    return f"{found['value']:.3g}{span} {found['light']}"


def before_and_after(audits: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each finding of either audit."""
    sides = {k: {f["name"]: f for f in audits[k]["findings"]} for k in ("before", "after")}
    names = [*sides["before"], *(n for n in sides["after"] if n not in sides["before"])]
    return [{"name": n, "before": sides["before"].get(n), "after": sides["after"].get(n)} for n in names]


def done_section(facts: dict[str, Any]) -> Section:
    rows = [
        {"repair": kind, "found": one["found"], "done": one["done"], "images": one["images"]}
        for kind, one in facts["removed"].items()
    ]
    words = ["Nothing was deleted: what was done is a mask, a split and weights over the same images."]
    rule = facts["repaired"].get("rule")
    if rule:
        words.append(
            "Tasks are drawn by the rule "
            + rule["rule"]
            + ", "
            + ", ".join(f"{k} {v}" for k, v in rule.items() if k != "rule")
            + "."
        )
    words += facts["plan"]["notes"]
    inner = []
    for kind, one in facts["removed"].items():
        first = [
            f"{'Done' if f['done'] else 'Listed'}: {f['why']} ({f['measure']}: {f['evidence']:g})."
            for f in one["first"][:8]
        ]
        inner.append(Section(kind, first))
    tables = [Table(pl.DataFrame(rows), "Repairs that were found, and those of them that were done")] if rows else []
    if not rows:
        words.append("No fault was found: the repaired collection is the collection itself.")
    words += [f"{kind} was not asked: {why}." for kind, why in facts["plan"]["left_out"].items()]
    return Section("What was done", words, tables, inner=inner)


def audits_section(audits: dict[str, Any]) -> Section:
    rows = []
    for row in before_and_after(audits):
        cells = {"diagnosis": row["name"]}
        for side in ("before", "after"):
            f = row[side]
            cells[side] = "" if f is None else interval(f)
            cells[f"{side}: light"] = "" if f is None else LIGHTS[f["light"]]
        rows.append(cells)
    words = ["Both audits had the same minutes, the same seed and the same net. " + audits["after"]["verdict"]]
    return Section(
        "Every diagnosis, before and after",
        words,
        [Table(pl.DataFrame(rows), "Value and 95% interval")] if rows else [],
    )


def interval(f: dict[str, Any]) -> str:
    if f.get("value") is None:
        return "none"
    return f"{f['value']:.3g}" + ("" if f.get("low") is None else f" [{f['low']:.3g}, {f['high']:.3g}]")


def panel_section(found: dict[str, Any]) -> Section:
    rows = [
        {
            "method": name,
            "before (%)": percent(one["before"]),
            "rank before": f"{one['rank_before']:g}",
            "after (%)": percent(one["after"]),
            "rank after": f"{one['rank_after']:g}",
        }
        for name, one in found["methods"].items()
    ]
    t, sides = found["tau"], found["sides"]
    words = [
        f"Eight methods on the same frozen features, {sides['before']['tasks']} tasks on either side. {order_of(t)}",
    ]
    drawing = Figure(
        slopes(found),
        "Lines from each method's accuracy before to after: "
        + ", ".join(f"{r['method']} {r['before (%)']} to {r['after (%)']}" for r in rows)
        + ".",
    )
    return Section(
        "How eight methods move",
        words,
        [Table(pl.DataFrame(rows), "Accuracy with 95% intervals over tasks")],
        [drawing],
    )


def order_of(t: dict[str, Any]) -> str:
    """What Kendall's tau says of the methods' order."""
    if t["value"] is None:
        return "All of them score alike, so that they have no order to keep."
    return (
        f"Kendall's tau of their order before and after is {t['value']:.2f} (95% interval {t['low']:.2f} to {t['high']:.2f}, over "
        "tasks): 1 is the same order, 0 none."
    )


def percent(e: dict[str, Any]) -> str:
    half = (e["high"] - e["low"]) / 2 if e.get("low") is not None else float("nan")
    return f"{100 * e['value']:.1f} ± {100 * half:.1f}"


def slopes(found: dict[str, Any]) -> str:
    """A line for each method, from its score before to its score after."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(5.2, 3.4))
        order = sorted(found["methods"].items(), key=lambda i: i[1]["after"]["value"])
        at = [100 * one["after"]["value"] for _, one in order]
        gap = max((max(at) - min(at)) / 14, 0.3)
        places: list[float] = []
        for y in at:
            places.append(max(y, places[-1] + gap) if places else y)
        for i, ((name, one), place) in enumerate(zip(order, places, strict=True)):
            ends = [100 * one["before"]["value"], 100 * one["after"]["value"]]
            axis.plot([0, 1], ends, "-o", ms=4, lw=1.4, color=COLOURS[i % len(COLOURS)])
            axis.annotate(
                name, (1, ends[1]), xytext=(1.06, place), fontsize=8, va="center", color="#333", annotation_clip=False
            )
        axis.set_xlim(-0.1, 1.9)
        axis.set_xticks([0, 1], ["before", "after"])
        axis.set_ylabel("accuracy (%)")
        return as_svg(figure)


def repeat_section(facts: dict[str, Any]) -> Section:
    words = [
        "handful verify-certificate FOLDER repeats the repair, the panel and both audits, and says what differs.",
        f"Command: {facts['command'] or 'made from Python'}.",
        f"Collection: {facts['source']['id']}, sha256 {facts['source']['hash']}.",
        f"Repaired: {facts['repaired']['id']}, sha256 {facts['repaired']['hash']}.",
        f"Plan: sha256 {facts['plan']['sha256']}.",
        "Asked: " + ", ".join(f"{k} {v}" for k, v in facts["asked"].items()) + ".",
    ]
    return Section("How to repeat it", words)
