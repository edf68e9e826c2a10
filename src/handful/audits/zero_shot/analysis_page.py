"""The page of an analysis: every figure of the paper's sections 4 and 5 for the methods that were asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from handful.audits.zero_shot.analysis import Analysis
from handful.audits.zero_shot.figures import (
    against_figure,
    factors_figure,
    growing_figure,
    kinds_figure,
    shares_figure,
)
from handful.audits.zero_shot.page import numbers, population_figures, sentences, structure_figures, word_figures
from handful.metrics.base import SHOWN, Estimate
from handful.report.page import Figure, Section, Table, page, write_page


def analysis_page(found: Analysis) -> str:
    """The page as one HTML text, figures inside."""
    n = len(found.split.split.test)
    best = max(found.accuracy, key=lambda m: found.accuracy[m]["top1"].value)
    top1 = found.accuracy[best]["top1"]
    lead = (
        f"Of {n} test classes, {best} names {top1} % of the images rightly; a supervised probe on the same features and "
        f"classes reaches {100 * found.top.value:.1f} %, so it does {found.top.relative(top1.value):.0%} of what can be done."
    )
    sections = [
        Section("Accuracy", tables=[Table(accuracy_table(found), f"{SHOWN} intervals over classes.")]),
        Section("Structure", sentences(found.split)[:3], figures=structure_figures(found.split)),
        *_answers(found),
        Section("Words", sentences(found.split)[3:], figures=[*word_figures(found.split), *_word_accuracy(found)]),
        Section("Images", _images(found), figures=[*population_figures(found.split), *_population_accuracy(found)]),
        *_factors(found),
        *_growing(found),
    ]
    if found.left_out:
        why = pl.DataFrame({"what": list(found.left_out), "why": list(found.left_out.values())})
        sections.append(Section("Not here", [f"{w}: {y}." for w, y in why.rows()]))
    sections.append(Section("All numbers of the split", tables=[Table(numbers(found.split))]))
    return page(f"Zero-shot analysis of {found.split.split.label}", lead, [s for s in sections if _full(s)])


def _full(section: Section) -> bool:
    return bool(section.sentences or section.tables or section.figures)


def save_analysis_page(found: Analysis, path: str | Path) -> Path:
    target = Path(path)
    write_page(target, analysis_page(found))
    return target


def accuracy_table(found: Analysis) -> pl.DataFrame:
    """One row per method, the ceiling last."""
    titles = {
        "top1": "ZSL @1",
        "top5": "ZSL @5",
        "harmonic1": "GZSL @1",
        "seen1": "seen @1",
        "unseen1": "unseen @1",
        "harmonic5": "GZSL @5",
    }
    rows = []
    for method, values in found.accuracy.items():
        row = {"method": method, **{t: _cell(values[k]) for k, t in titles.items() if k in values}}
        rows.append({**row, "of the ceiling": f"{found.top.relative(values['top1'].value):.0%}"})
    rows.append({"method": "supervised ceiling", "ZSL @1": f"{100 * found.top.value:.1f}"})
    return pl.DataFrame(rows, infer_schema_length=None)


def _cell(value: Estimate) -> str:
    return f"{100 * value.value:.1f} ± {100 * value.half:.1f}"


def _answers(found: Analysis) -> list[Section]:
    rows = [
        {
            "method, setting": name,
            "true %": f"{100 * s.true:.1f}",
            "ancestor %": f"{100 * s.ancestor:.1f}",
            "descendant %": f"{100 * s.descendant:.1f}",
            "unrelated %": f"{100 * s.unrelated:.1f}",
            "rightly named, % from": f"{100 * s.lower:.1f}",
            "to": f"{100 * s.upper:.1f}",
            "FN / TP": f"{s.fn_per_tp:.2f}",
        }
        for name, s in found.answers.items()
    ]
    text = (
        "An answer can be the true class, one above it (right, though scored wrong), one below it (perhaps right) or "
        "unrelated; only the last is surely an error. Images of test classes; GZSL offers the training classes too."
    )
    caption = "Where answers fall (the paper's Figures 2, 11, 12)."
    return [_shown("Answers", text, rows, Figure(shares_figure(found.answers), caption, caption))]


def _shown(title: str, text: str, rows: list[dict[str, str]], figure: Figure) -> Section:
    return Section(title, [text], tables=[Table(pl.DataFrame(rows))], figures=[figure])


def _word_accuracy(found: Analysis) -> list[Figure]:
    out = []
    if "frequency" in found.against:
        caption = (
            f"Accuracy of test sets of {found.group} classes against how common their labels are (Figure 3, left)."
        )
        label = f"mean label frequency ({found.split.frequency_unit})"
        log = found.split.frequency_unit == "count"
        out.append(Figure(against_figure(found.against["frequency"], label, log=log), caption, caption))
    if found.meaning:
        caption = (
            f"Accuracy of test sets of {found.meaning_size} classes that are the primary or a secondary meaning of their "
            "word (Figure 3, right); the sets of a kind overlap."
        )
        out.append(Figure(kinds_figure(found.meaning, "meaning"), caption, caption))
    return out


def _images(found: Analysis) -> list[str]:
    out = [
        f"A supervised probe on these features, trained on images of the very test classes, is right on "
        f"{100 * found.top.value:.1f} % of the others."
    ]
    if found.selection is not None:
        out.append(
            f"Sample-wise selection: in {found.selection.rounds} rounds of probes on classes that do not overlap, "
            f"{found.selection.good.mean():.1%} of the images were named rightly at least once; the others are ambiguous."
        )
    return out


def _population_accuracy(found: Analysis) -> list[Figure]:
    if "population" not in found.against:
        return []
    caption = f"Accuracy of test sets of {found.group} classes against how many images they have (Figure 5, right)."
    return [Figure(against_figure(found.against["population"], "mean images per class"), caption, caption)]


def _factors(found: Analysis) -> list[Section]:
    if not found.factors:
        return []
    rows = [
        {
            "method, setting": name,
            "reported %": f"{100 * f.reported:.1f}",
            **{f"{k} %": f"{100 * v:+.1f}" for k, v in f.impact.items()},
            "error left %": f"{100 * f.remaining_error:.1f}",
        }
        for name, f in found.factors.items()
    ]
    text = (
        "Eight accuracies, with and without ambiguous images (visual), classes of rare words or secondary meanings "
        f"({(~found.good_classes).mean():.0%} of the test classes; semantic), and relatives counted as wrong (structural). A "
        "factor's number is its mean improvement over the settings of the others; factors interact, so they need not "
        "add up, and the figure draws them in proportion."
    )
    caption = "What the reported error is made of (Figures 6, 16, 17)."
    return [_shown("Factors", text, rows, Figure(factors_figure(found.factors), caption, caption))]


def _growing(found: Analysis) -> list[Section]:
    if found.growing is None:
        return []
    levels = found.growing
    ratio = levels.filter(pl.col("method") == found.methods[0])["ratio"].to_numpy()
    lines = {m: tuple(levels.filter(pl.col("method") == m).select("top1", "half").to_numpy().T) for m in found.methods}
    top = levels.filter(pl.col("method") == "ceiling")["top1"].to_numpy()
    wide = []
    for name in ["ceiling", *found.methods] if len(top) else list(found.methods):
        some = levels.filter(pl.col("method") == name)
        cells = {
            f"R = {r:.2f}": f"{100 * v:.1f} ± {100 * h:.1f}" for r, v, h in some.select("ratio", "top1", "half").rows()
        }
        wide.append({"method": name, **cells})
    caption = f"Accuracy of test sets of {found.group} classes against their structural ratio (Figure 9)."
    svg = growing_figure(ratio, lines, ceiling=top if len(top) else None, chance=1 / found.group)  # type: ignore[arg-type]
    drop = {m: float(np.corrcoef(ratio, lines[m][0])[0, 1]) for m in found.methods} if len(ratio) > 2 else {}
    text = "; ".join(f"{m} {r:+.2f}" for m, r in drop.items())
    return [
        Section(
            "Structural ratio",
            [f"Correlation of accuracy and R over the levels: {text}."] if text else [],
            tables=[Table(pl.DataFrame(wide), f"Top-1 %, {SHOWN} intervals over the classes of a level.")],
            figures=[Figure(svg, caption, caption)],
        )
    ]
