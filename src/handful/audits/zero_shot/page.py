"""One page for a zero-shot split: what was found, in sentences and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from handful.audits.zero_shot.figures import (
    cumulative_figure,
    depth_figure,
    histogram_figure,
    neighbours_figure,
    shares_figure,
)
from handful.audits.zero_shot.split_audit import SplitAudit
from handful.report.page import Figure, Section, Table, write_page
from handful.report.page import page as whole_page


def sentences(found: SplitAudit) -> list[str]:
    """What the numbers mean, one thought each: three on structure, then on words."""
    facts = found.as_dict()
    out = [
        f"The structural ratio is {facts['structural_ratio']:.3f}: a test class is on average {facts['mean_distance_to_train']:.2f} "
        f"steps from its nearest training class and {facts['mean_distance_to_test']:.2f} from the nearest other test class."
    ]
    if found.kin.consistent:
        out.append(
            "The split is structurally consistent: no test class is above or below another, or a training class."
        )
    else:
        out.append(
            f"{facts['relatives_in_test']:.1%} of the test classes have an ancestor or descendant among the test classes and "
            f"{facts['relatives_in_train']:.1%} among the training classes, so right answers can be counted as wrong; such pairs "
            "also inflate R, which compares consistent splits only."
        )
    out.append(
        f"Naming every image after its nearest training class would reach at most {found.trivial:.1%} "
        f"(chance: {facts['chance']:.2%}) without composing anything."
    )
    if found.shared is not None:
        out.append(f"{found.shared.labels:.1%} of the test classes' labels name another concept too.")
    if found.rare is not None:
        out.append(f"{found.rare:.1%} of the test classes have a rare word as label.")
    if found.meaning is not None:
        known = found.meaning.described
        second = float((~found.meaning.primary[known]).mean()) if known.any() else 0.0
        out.append(
            f"{second:.1%} of the described test classes are a secondary meaning of their word; "
            f"{int((~known).sum())} classes have no vector."
        )
    return out


def structure_figures(found: SplitAudit) -> list[Figure]:
    ratio = histogram_figure(found.ratio.per_class, "structural ratio r(c) of a test class")
    depth = histogram_figure(found.depth, "distance from the root")
    return [_figure(ratio, "Structural ratio by class."), _figure(depth, "Granularity by class.")]


def word_figures(found: SplitAudit) -> list[Figure]:
    out = []
    if found.frequency is not None:
        log = found.frequency_unit == "count"
        label = f"label frequency ({found.frequency_unit})"
        svg = cumulative_figure(found.frequency, label, log=log)
        out.append(_figure(svg, "How common the labels are (Figure 13)."))
    if found.meaning is not None and np.isfinite(found.meaning.score).any():
        scores = found.meaning.score[np.isfinite(found.meaning.score)]
        svg = histogram_figure(scores, "s(w, c): a word and its class's neighbours")
        out.append(_figure(svg, "Fit of words and classes (Eq. 7)."))
    if found.neighbours is not None:
        word, first, second = found.neighbours.words
        text = f'The words nearest to "{word}", which is taken to mean a kind of {first}, not of {second} (Figure 4).'
        out.append(_figure(neighbours_figure(found.neighbours), text))
    return out


def population_figures(found: SplitAudit) -> list[Figure]:
    if found.population is None or np.ptp(found.population) == 0:
        return []
    rows = [
        (int(d), int((found.depth == d).sum()), float(found.population[found.depth == d].mean()))
        for d in np.unique(found.depth)
    ]
    return [
        _figure(cumulative_figure(found.population, "images per class", log=True), "Population (Figure 5, left)."),
        _figure(depth_figure(rows), "Population by distance from the root (Figure 15)."),
    ]


def _figure(svg: str, text: str) -> Figure:
    return Figure(svg, text, text)


def numbers(found: SplitAudit) -> pl.DataFrame:
    """Every fact and its value."""
    listed = {k.replace("_", " "): v for k, v in found.as_dict().items() if not isinstance(v, dict)}
    return pl.DataFrame({"fact": list(listed), "value": [_text(v) for v in listed.values()]})


def page(found: SplitAudit) -> str:
    """The page as one HTML text, figures inside."""
    answers = []
    if found.predictions:
        answers = [
            _figure(shares_figure(found.predictions), "Where predictions fall; only unrelated ones are surely wrong.")
        ]
    first, *more = sentences(found)
    sections = [
        Section("Structure", more[:2], figures=structure_figures(found)),
        Section("Words", more[2:], figures=word_figures(found)),
        Section("Images", figures=population_figures(found)),
        Section("Predictions", figures=answers),
    ]
    kept = [s for s in sections if s.sentences or s.figures]
    return whole_page(
        f"Zero-shot split {found.split.label}", first, [*kept, Section("All numbers", tables=[Table(numbers(found))])]
    )


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save_page(found: SplitAudit, path: str | Path) -> Path:
    target = Path(path)
    write_page(target, page(found))
    return target
