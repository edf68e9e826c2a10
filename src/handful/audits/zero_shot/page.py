"""One page for a zero-shot split: what was found, in sentences and figures."""

from __future__ import annotations

import html
from pathlib import Path

import numpy as np

from handful.audits.zero_shot.figures import cumulative_figure, histogram_figure, shares_figure
from handful.audits.zero_shot.split_audit import SplitAudit
from handful.data.store import write_atomically

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1a202c}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:left;border-bottom:1px solid #e2e8f0}"
    "figure{margin:1.5rem 0}figcaption{color:#4a5568}svg{max-width:100%;height:auto}"
)


def sentences(found: SplitAudit) -> list[str]:
    """What the numbers mean, one thought each."""
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


def page(found: SplitAudit) -> str:
    """The page as one HTML text, figures inside."""
    figures = [
        (
            histogram_figure(found.ratio.per_class, "structural ratio r(c) of a test class"),
            "Structural ratio by class.",
        ),
        (
            histogram_figure(found.depth.astype(float), "distance from the root", bins=20),
            "Granularity of the test classes.",
        ),
    ]
    if found.frequency is not None:
        log = found.frequency_unit == "count"
        figures.append(
            (
                cumulative_figure(found.frequency, f"label frequency ({found.frequency_unit})", log=log),
                "How common the labels are.",
            )
        )
    if found.meaning is not None and np.isfinite(found.meaning.score).any():
        scores = found.meaning.score[np.isfinite(found.meaning.score)]
        figures.append(
            (histogram_figure(scores, "s(w, c): a word and its class's neighbours"), "Fit of words and classes.")
        )
    if found.predictions:
        figures.append(
            (shares_figure(found.predictions), "Where the predictions fall; only unrelated ones are surely wrong.")
        )
    title = html.escape(f"Zero-shot split {found.split.label}")
    facts = "".join(
        f"<tr><th>{html.escape(k.replace('_', ' '))}</th><td>{html.escape(_text(v))}</td></tr>"
        for k, v in found.as_dict().items()
        if not isinstance(v, dict)
    )
    body = "".join(f"<p>{html.escape(s)}</p>" for s in sentences(found))
    drawn = "".join(f"<figure>{svg}<figcaption>{html.escape(text)}</figcaption></figure>" for svg, text in figures)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>'
        f"<body><h1>{title}</h1>{body}{drawn}<h2>All numbers</h2><table>{facts}</table></body></html>\n"
    )


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save_page(found: SplitAudit, path: str | Path) -> Path:
    target = Path(path)
    text = page(found)
    write_atomically(target, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return target
