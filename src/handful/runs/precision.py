"""``precision="auto"``: bfloat16 where the processor computes in it and a run's scores do not feel it, else float32."""

from __future__ import annotations

import copy
import dataclasses
import platform
from pathlib import Path

import polars as pl
import torch

from handful import registry
from handful.methods.contract import Learner
from handful.methods.embedded import EmbeddedLearner
from handful.progress import note
from handful.runs.embedding import embed_needed
from handful.runs.engine import Inline
from handful.runs.scoring import ScoringJob, score_chunk

TRIED, MOST = 16, 1e-3
"""Tasks that are answered in both precisions, and how far the mean of any of their scores may move."""


def settled(job: ScoringJob, cache: bool) -> tuple[ScoringJob, str]:
    """The job in the precision that is taken, and why; a job that names one is left as it is.

    The first tasks of the run decide, embedded in both precisions: on one machine the same run always decides the same,
    whatever its cores.
    """
    learner = job.learner
    if learner.compute.precision != "auto":
        return job, ""
    if not isinstance(learner, EmbeddedLearner):
        taken, why = "float32", f"{learner.method.name} computes in nothing else"
    elif not has_bfloat16(learner.compute.device):
        taken, why = "float32", "this processor has no bfloat16"
    else:
        moved = most_moved(job, cache)
        taken = "bfloat16" if moved <= MOST else "float32"
        tasks = min(TRIED, job.n)
        why = f"the mean score of the first {tasks} tasks moves by {moved:.1g} in bfloat16, of {MOST:g} allowed"
    note(f"precision auto: {taken}, for {why}")
    return dataclasses.replace(job, learner=in_precision(learner, taken)), why


def in_precision(learner: Learner, precision: str) -> Learner:
    """The same learner, weights and all, for another precision."""
    twin = copy.copy(learner)
    twin.compute = dataclasses.replace(learner.compute, precision=precision)  # type: ignore[arg-type]
    return twin


def most_moved(job: ScoringJob, cache: bool) -> float:
    """The largest difference that bfloat16 makes to the mean of a score over the first tasks."""
    means = []
    for precision in ("float32", "bfloat16"):
        trial = dataclasses.replace(
            job, learner=in_precision(job.learner, precision), seeds=job.seeds[:1], n=min(TRIED, job.n), answers=False
        )
        with trial.learner.compute.here():
            trial.features = embed_needed(trial, [0], Inline(), None, cache)
            means.append(_means(job.metrics, score_chunk(trial, 0).frame))
    moved = [abs(means[1].get(column, float("inf")) - value) for column, value in means[0].items()]
    return max((m for m in moved if m == m), default=float("inf"))


def _means(metrics: tuple[str, ...], frame: pl.DataFrame) -> dict[str, float]:
    made = [registry.make("metrics", name) for name in metrics]
    return {c: m.reduce(frame, c).value for m in made for c in m.columns if c in frame.columns}


def has_bfloat16(device: str) -> bool:
    """Whether the device computes in bfloat16 itself; where it is only imitated it is slower than float32."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if kind != "cpu" or not torch.backends.mkldnn.is_available() or platform.system() != "Linux":
        return False
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return False
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})
