"""evaluate: one learner, one rule, many tasks; resumable, in fixed chunks, each image embedded once, on any engine."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch

from handful import registry
from handful._version import __version__
from handful.clock import measuring
from handful.errors import BadInput
from handful.methods.answering import CHUNK
from handful.methods.answering import answers as answers_of
from handful.nets.compute import Compute
from handful.progress import bar
from handful.runs.embedding import embed_needed
from handful.runs.engine import Engine, make_engine
from handful.runs.learners import Asked, Spec, answering, on_valid
from handful.runs.precision import settled
from handful.runs.promises import Promises, Wanted, chosen
from handful.runs.run import Run
from handful.runs.scoring import (
    ScoringJob,
    evidence,
    explode_answers,
    has_contexts,
    peak_memory_mb,
    score_chunk,
)
from handful.runs.store import RunFolder, digest, stack


def evaluate(
    learner: Spec,
    rule: Asked,
    n: int = 600,
    seed: int = 0,
    *,
    repeats: int = 1,
    metrics: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str | Engine | None = None,
    address: str | None = None,
    cache: bool = True,
    answers: bool = False,
    compute: Compute | None = None,
    temperature: float | str = 1.0,
    promise: float | None = None,
    conformal: float | None = None,
) -> Run:
    """Score a learner on n tasks of a rule.

    Parameters
    ----------
    learner
        A learner, a model folder, a method or a method's name; a method that trains is trained on the train split first.
    rule
        A rule; of a part, a collection (or what `handful.open` takes) the usual 5-way 5-shot tasks, of its test split.
    metrics
        One name or several; the rule's own by default.
    n
        Number of tasks for each drawing seed.
    seed
        The first drawing seed.
    repeats
        Number of drawing seeds, counted up from ``seed``.
    out
        A folder for the results. A run that was killed goes on from there and ends with the same table.
    workers
        Chunks of tasks at a time, as processes; every core of this machine by default. Never changes a number.
    engine
        Where the work runs: ``cores`` (by default: threads on every core, processes where they pay), ``inline``,
        ``processes``, ``ray``, or an engine. Never changes a number.
    address
        Of a Ray cluster.
    cache
        Keep the features of a frozen backbone over a packed collection, and use those that are kept.
    answers
        Keep every answer (task, query, truth, predicted class, its probability).
    compute
        Device, precision and threads of a learner that is loaded or trained here.
    temperature
        What scores are divided by before they are probabilities; ``auto`` learns it on tasks of the validation classes.
    promise
        With `Strangers`: at most this share of strangers is to be accepted; the thresholds are chosen on validation classes.
    conformal
        Sets of classes that miss the truth at most this often; their threshold is chosen on validation classes.
    """
    wanted = Wanted(temperature, promise, conformal)
    if n < 1 or repeats < 1:
        raise BadInput(f"the number of tasks and of repeats must be at least 1, not {n} and {repeats}")
    learner, rule = answering(learner, rule, compute)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics or rule.metrics)
    for name in names:
        registry.get("metrics", name)
    extra = ("calibration",) * (wanted.temperature != 1.0) + ("conformal",) * (conformal is not None)
    names += tuple(name for name in extra if name not in names)
    if metrics is None and has_contexts(rule) and "contexts" not in names:
        names += ("contexts",)
    job = ScoringJob(learner, rule, names, tuple(range(seed, seed + repeats)), n, answers)
    job, why = settled(job, cache)
    if wanted.learns or wanted.temperature != 1.0:
        job.promises = kept_promises(job, wanted, seed)
    identity = identify(job, seed)
    folder = RunFolder(Path(out), identity) if out is not None else None
    if folder and (finished := folder.finished()) is not None:
        return Run.open(folder.path) if len(finished) else Run(finished, identity)
    where = make_engine(engine, workers, address)
    try:
        table, facts = work(job, folder, where, cache)
        facts |= {"precision": f"auto: {job.learner.compute.precision}, for {why}"} if why else {}
    finally:
        if where is not engine:
            where.close()
    kept = explode_answers(table) if answers else None
    table = table.drop([c for c in table.columns if c.startswith("answer_")])
    run = Run(table, identity, facts, kept, folder.path if folder else None)
    if folder:
        folder.finish(table, kept, {**facts, "summary": run.summary().to_dicts()})
    return run


def kept_promises(job: ScoringJob, wanted: Wanted, seed: int) -> Promises:
    """What is asked for, learned on tasks like the rule's of the validation split."""
    if not wanted.learns:
        return Promises(temperature=float(wanted.temperature))
    if (rule := on_valid(job.rule)) is None:
        name = job.rule.part.collection.card.name
        raise BadInput(f"{name} has no valid split to choose on; make one with: handful data split")
    trial = dataclasses.replace(job, rule=rule, n=wanted.tasks, seeds=(seed,))
    with job.learner.compute.here():
        if job.learner.embeds:
            trial.features = embed_needed(trial, list(range(trial.per_repeat)), 1, None)
        found = answers_of(job.learner, rule, wanted.tasks, seed, together=trial.together)
        return chosen(wanted, ((e.query_labels, evidence(trial, e, scores)) for e, scores, _ in found))


def work(job: ScoringJob, folder: RunFolder | None, where: Engine, cache: bool) -> tuple[pl.DataFrame, dict[str, Any]]:
    """All chunks that are missing, and what they cost."""
    learner, total = job.learner, job.n * len(job.seeds)
    parts = folder.done() if folder else {}
    todo = [c for c in range(job.per_repeat * len(job.seeds)) if c not in parts]
    started, largest = time.monotonic(), 0.0
    with (
        measuring() as clock,
        learner.compute.here(),
        tempfile.TemporaryDirectory(prefix="handful-") as scratch,
    ):
        if learner.embeds:
            job.features = embed_needed(job, todo, where, Path(scratch), cache)
        with bar(f"evaluating {learner.method.name}", total, total - len(todo) * CHUNK) as advance:
            for scored in where.map(score_chunk, job, todo):
                parts[scored.chunk] = scored.frame
                if not where.here:
                    clock.add(scored.seconds)
                if not where.here or scored.process != os.getpid():
                    largest = max(largest, scored.peak_memory_mb)
                if folder:
                    folder.add(scored.chunk, scored.frame)
                advance(CHUNK)
    facts = {
        "seconds": {**clock.seconds, "total": time.monotonic() - started},
        "transductive": learner.method.transductive,
        "engine": where.name,
        "workers": where.workers,
        "threads": learner.compute.threads,
        "peak_memory_mb": peak_memory_mb(),
        **({"peak_memory_workers_mb": largest} if largest else {}),
        "torch": torch.__version__,
        **({} if job.rule.part.is_split else {"rows": job.rule.part.packed_rows}),
        "source": job.rule.part.collection.place,
    }
    return stack(parts[c] for c in sorted(parts)), facts


def identify(job: ScoringJob, seed: int) -> dict[str, Any]:
    """What makes two runs the same run."""
    learner, rule = job.learner, job.rule
    weights = hashlib.sha256()
    for name, tensor in sorted(learner.state().items()):
        weights.update(name.encode())
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return {
        "collection": rule.part.collection.id,
        "part": rule.part.id,
        "rule": rule.parameters,
        "tasks_id": digest([rule.tasks_id(seed), job.n, len(job.seeds)]),
        "seed": seed,
        "repeats": len(job.seeds),
        "n": job.n,
        "metrics": list(job.metrics),
        "method": learner.method.name,
        "options": learner.method.options(),
        "weights": weights.hexdigest()[:16],
        **({"code": code} if (code := getattr(getattr(learner, "backbone", None), "code", "")) else {}),
        "device": learner.compute.device,
        "precision": learner.compute.precision,
        "answers": job.answers,
        **({"promises": job.promises.as_dict()} if job.promises != Promises() else {}),
        "version": __version__,
    }
