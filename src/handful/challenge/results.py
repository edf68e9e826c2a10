"""The files of a scored run: its Run folder for organisers, scores as JSON and as the kit's text, and a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from handful.audits.drawing import counts
from handful.challenge import scores
from handful.files import write_atomically
from handful.frames import write_frame
from handful.metrics.base import SHOWN, Estimate
from handful.report import figures
from handful.report.page import Figure, Section, Table, page
from handful.runs.run import Run

LABEL = "normalised accuracy"


def write(
    frame: pl.DataFrame,
    folder: Path,
    seconds: float,
    title: str,
    *,
    identity: dict[str, Any] | None = None,
    learner: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write one row per task, scores.json, scores.txt and results.html; give what scores.json holds.

    With ``identity`` the folder is a Run like any other of the library, with a run.json that names data and rule;
    without, only the table is there.
    """
    facts = {**scores.summary(frame, seconds), **({"learner": learner} if learner else {})}
    texts = {
        "scores.json": json.dumps(facts, indent=1) + "\n",
        "scores.txt": scores.scores_text(frame, seconds),
        "results.html": results_page(frame, title),
    }
    if identity is not None:
        more = {"seconds": {"total": seconds}, "transductive": bool((learner or {}).get("transductive"))}
        Run(frame, identity, more).save(folder)
    else:
        write_atomically(folder / "tasks.parquet", lambda t: write_frame(frame, t))
    for name, text in texts.items():
        write_atomically(folder / name, lambda t, text=text: t.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    return facts


def results_page(frame: pl.DataFrame, title: str) -> str:
    """The page, complete in one file."""
    final, each_seed = scores.final_score(frame), scores.repeats(frame)
    counted = scores.counting(frame)
    parts = {key: scores.by(counted, key) for key in ("dataset", "ways", "shots")}
    for key in ("ways", "shots"):
        parts[key] = dict(sorted(parts[key].items(), key=lambda item: int(item[0])))
    sentences = [
        f"Normalised accuracy: 0 is guessing, 1 is perfect. Mean over {final.n} tasks, {SHOWN} interval over tasks; "
        "intervals do not decide ranks."
    ]
    if len(each_seed) > 1:
        values = ", ".join(f"{seed.value:.3f}" for seed in each_seed)
        sentences.append(f"The lowest of {len(each_seed)} seeds counts: {values}. The parts below are of that seed.")
    by_set = [(each.value, half(each)) for each in parts["dataset"].values()]
    drawn = [
        Figure(figures.side_bars(list(parts["dataset"]), {"": by_set}, LABEL), "scores by data set"),
        *(Figure(curve(parts[key], key), f"scores by {key}") for key in ("ways", "shots")),
        # Rounded: a spread that is only the last bits is none.
        Figure(
            counts(counted[scores.SCORE].round(6).to_numpy(), f"{LABEL} of a task", "tasks"), "how the tasks spread"
        ),
    ]
    tables = [Section(f"By {key}", tables=[Table(table(key, values))]) for key, values in parts.items()]
    score = f"{final.value:.3f}" + ("" if final.n < 2 else f" ± {final.half:.3f}")
    return page(title, score, [Section("Score", sentences, figures=drawn), *tables])


def half(each: Estimate) -> float:
    """Half the interval; one task alone has none."""
    return 0.0 if each.n < 2 else each.half


def curve(estimates: dict[str, Estimate], label: str) -> str:
    """Score by ways or shots, with intervals."""
    points = [(float(name), e.value, e.value - half(e), e.value + half(e)) for name, e in estimates.items()]
    return figures.curves({"score": points}, label, LABEL)


def table(title: str, estimates: dict[str, Estimate]) -> pl.DataFrame:
    """Rows of estimates as they are shown."""
    rows = [
        {title: name, "tasks": each.n, "score": each.value, SHOWN: "" if each.n < 2 else f"± {each.half:.3f}"}
        for name, each in estimates.items()
    ]
    return pl.DataFrame(rows)
