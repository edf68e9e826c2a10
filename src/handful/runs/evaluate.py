"""evaluate: one learner, one rule, many tasks; resumable, in fixed chunks, each image embedded once."""

from __future__ import annotations

import hashlib
import resource
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from handful import registry
from handful._version import __version__
from handful.errors import BadInput
from handful.methods.batch import pad
from handful.methods.contract import Learner, agree
from handful.methods.embedded import EmbeddedLearner
from handful.metrics import Metric
from handful.nets.features import embed_rows
from handful.progress import bar
from handful.runs.engine import engine
from handful.runs.run import Run
from handful.runs.store import RunFolder, digest, stack
from handful.tasks.episode import Episode, Query
from handful.tasks.rule import Rule

CHUNK = 64


@dataclass
class Job:
    """All a worker needs to score any chunk; the same object for every chunk of a run."""

    learner: Learner
    rule: Rule
    metrics: tuple[str, ...]
    seeds: tuple[int, ...]
    n: int
    answers: bool
    features: Features | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def per_repeat(self) -> int:
        return -(-self.n // CHUNK)

    def episodes(self, chunk: int) -> tuple[int, list[Episode]]:
        repeat, start = chunk // self.per_repeat, chunk % self.per_repeat * CHUNK
        return repeat, self.rule.draw_block(self.seeds[repeat], start, min(start + CHUNK, self.n))


@dataclass
class Features:
    """Embedded images of a run: sorted image numbers, and one row of a (mapped) array for each."""

    rows: np.ndarray
    path: Path | None
    array: np.ndarray | None

    def of(self, rows: np.ndarray) -> torch.Tensor:
        if self.array is None:
            self.array = np.load(self.path, mmap_mode="r", allow_pickle=False)  # type: ignore[arg-type]
        return torch.from_numpy(np.asarray(self.array[np.searchsorted(self.rows, rows)]))

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "path": self.path, "array": None if self.path else self.array}


def evaluate(
    learner: Learner,
    rule: Rule,
    n: int = 600,
    seed: int = 0,
    *,
    repeats: int = 1,
    metrics: tuple[str, ...] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    answers: bool = False,
) -> Run:
    """Score a learner on n tasks of a rule.

    Parameters
    ----------
    n, seed, repeats
        Tasks for each drawing seed; seeds ``seed .. seed + repeats - 1``.
    out
        A folder for the results. A run that was killed goes on from there and ends with the same table.
    workers
        Worker processes of one thread each; never changes a number.
    answers
        Keep every answer (task, query, truth, predicted class, its probability).
    """
    if n < 1 or repeats < 1:
        raise BadInput(f"n and repeats must be at least 1, not {n} and {repeats}")
    agree(learner.method, rule)
    rule.check()
    names = tuple(metrics or rule.metrics)
    if metrics is None and has_contexts(rule) and "contexts" not in names:
        names += ("contexts",)
    seeds = tuple(range(seed, seed + repeats))
    job = Job(learner, rule, names, seeds, n, answers)
    identity = identify(job, seed)
    folder = RunFolder(Path(out), identity) if out is not None else None
    if folder and (finished := folder.finished()) is not None:
        return Run.open(folder.path) if len(finished) else Run(finished, identity)
    parts = folder.done() if folder else {}
    todo = [c for c in range(job.per_repeat * repeats) if c not in parts]
    started = time.monotonic()
    with learner.compute.here(), tempfile.TemporaryDirectory(prefix="handful-") as scratch:
        if isinstance(learner, EmbeddedLearner):
            job.features = embed_needed(job, todo, workers, Path(scratch))
        seconds: dict[str, float] = defaultdict(float, job.seconds)
        with bar(f"evaluating {learner.method.name}", n * repeats, n * repeats - len(todo) * CHUNK) as advance:
            for chunk, frame, spent in engine(workers).map(score_chunk, job, todo):
                parts[chunk] = frame
                for key, value in spent.items():
                    seconds[key] += value
                if folder:
                    folder.add(chunk, frame)
                advance(CHUNK)
    table = stack(parts[c] for c in sorted(parts))
    asked = table.select(pl.col("^answer_.*$")) if answers else None
    kept = explode_answers(table) if asked is not None else None
    table = table.drop([c for c in table.columns if c.startswith("answer_")])
    facts = {
        "seconds": {**seconds, "total": time.monotonic() - started},
        "workers": workers,
        "threads": learner.compute.threads,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "torch": torch.__version__,
    }
    run = Run(table, identity, facts, kept, folder.path if folder else None)
    if folder:
        folder.finish(table, kept, {**facts, "summary": run.summary().to_dicts()})
    return run


def has_contexts(rule: Rule) -> bool:
    """Whether the queries of a labelled task have contexts to tell apart."""
    card = rule.part.collection.card
    return bool(card.context) and card.context not in card.labels and rule.axes == 1 and "labels" in rule.shows


def add_contexts(rule: Rule, episode: Episode) -> None:
    """Tell the scorer the queries' contexts, unless the rule has told it."""
    if "query_contexts" not in episode.side and has_contexts(rule):
        column = rule.part.collection.table[str(rule.part.collection.card.context)]
        episode.side["query_contexts"] = column[episode.query].cast(pl.String).fill_null("(none)").to_numpy()


def identify(job: Job, seed: int) -> dict[str, Any]:
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
        "device": learner.compute.device,
        "precision": learner.compute.precision,
        "answers": job.answers,
        "version": __version__,
    }


def embed_needed(job: Job, todo: list[int], workers: int, scratch: Path) -> Features | None:
    """Embed every image that the missing chunks need, once, in blocks that any worker can take."""
    start = time.monotonic()
    learner: EmbeddedLearner = job.learner  # type: ignore[assignment]
    needed = [np.zeros(0, dtype=np.int64)]
    for chunk in todo:
        for episode in job.episodes(chunk)[1]:
            needed += [episode.support, episode.query]
    rows = np.unique(np.concatenate(needed))
    job.seconds["draw"] += time.monotonic() - start
    if not len(rows):
        return None
    start = time.monotonic()
    block = learner.compute.batch * 8
    blocks = [(s, rows[s : s + block]) for s in range(0, len(rows), block)]
    array: np.ndarray | None = None
    path = scratch / "features.npy" if workers > 1 else None
    with bar("embedding images", len(rows)) as advance:
        for at, features in engine(workers if len(blocks) > 1 else 1).map(embed_block, job, blocks):
            if array is None:
                shape = (len(rows), *features.shape[1:])
                array = (
                    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
                    if path
                    else np.empty(shape, dtype=np.float32)
                )
            array[at : at + len(features)] = features
            advance(len(features))
    if isinstance(array, np.memmap):
        array.flush()
    job.seconds["embed"] += time.monotonic() - start
    return Features(rows, path, array)


def embed_block(job: Job, item: tuple[int, np.ndarray]) -> tuple[int, np.ndarray]:
    learner: EmbeddedLearner = job.learner  # type: ignore[assignment]
    return item[0], embed_rows(
        learner.backbone, job.rule.part.collection, item[1], learner.compute, learner.method.maps
    )


def score_chunk(job: Job, chunk: int) -> tuple[int, pl.DataFrame, dict[str, float]]:
    """Rows of one chunk of tasks."""
    spent: dict[str, float] = defaultdict(float)
    start = time.monotonic()
    repeat, episodes = job.episodes(chunk)
    spent["draw"] += time.monotonic() - start
    start = time.monotonic()
    if isinstance(job.learner, EmbeddedLearner):
        answers = embedded_scores(job, episodes)
    else:
        answers = [one_by_one(job, episode) for episode in episodes]
    spent["learn"] += time.monotonic() - start
    start = time.monotonic()
    metrics: list[Metric] = [registry.get("metrics", name)() for name in job.metrics]
    rows = []
    for episode, (scores, support_scores) in zip(episodes, answers, strict=True):
        if "contexts" in job.metrics:
            add_contexts(job.rule, episode)
        row: dict[str, Any] = {"repeat": repeat, "task": episode.number, **describe(episode)}
        for metric in metrics:
            row.update(metric.row(episode, scores, support_scores))
        if job.answers:
            row.update(answer_columns(episode, scores))
        rows.append(row)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    spent["score"] += time.monotonic() - start
    return chunk, frame, dict(spent)


def embedded_scores(job: Job, episodes: list[Episode]) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Scores of a chunk as one padded tensor expression (or a few, if the method's head is large)."""
    learner: EmbeddedLearner = job.learner  # type: ignore[assignment]
    assert job.features is not None
    device = learner.compute.device
    out: list[tuple[np.ndarray, np.ndarray | None]] = []
    step = learner.method.together
    for start in range(0, len(episodes), step):
        some = episodes[start : start + step]
        cut = []
        for e in some:
            shown = "images" in e.shows
            support = job.features.of(e.support if shown else e.support[:0]).to(device)
            labels = e.support_labels if "labels" in e.shows else None
            cut.append((support, labels, job.features.of(e.query).to(device)))
        batch = pad(
            cut,
            [e.shape for e in some],
            [e.seed for e in some],
            [e.sizes() if "sizes" in e.shows else None for e in some],
            [e.descriptions if "descriptions" in e.shows else None for e in some],
        )
        query, support_scores = learner.head(batch)
        q = query.float().cpu().numpy()
        s = None if support_scores is None else support_scores.float().cpu().numpy()
        for i, e in enumerate(some):
            own = None if s is None else s[i, : len(e.support), : e.n_classes]
            out.append((q[i, : len(e.query), : e.n_classes], own))
    return out


def one_by_one(job: Job, episode: Episode) -> tuple[np.ndarray, np.ndarray | None]:
    """Any learner of the contract, one task at a time."""
    predictor = job.learner.fit(job.rule.support(episode))
    scores = predictor.predict(Query(job.rule.part.collection.read(episode.query)))
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(episode.query), episode.n_classes):
        raise BadInput(
            f"{job.learner.method.name} answered with shape {scores.shape} to {len(episode.query)} queries over "
            f"{episode.n_classes} classes; predict must give (n_query, n_classes)"
        )
    if np.isnan(scores).any():
        raise BadInput(f"{job.learner.method.name} answered NaN in task {episode.number}; check its training")
    own = None if "labels" in episode.shows or "images" not in episode.shows else predictor.support_scores()
    return scores, own


def describe(episode: Episode) -> dict[str, Any]:
    """The columns by which tables are cut."""
    out: dict[str, Any] = {
        "ways": episode.shape[0] if len(episode.shape) == 1 else episode.n_classes,
        "shots": episode.shots,
        "queries": len(episode.query),
    }
    for key, value in episode.side.items():
        if isinstance(value, (str, int, float, bool)):
            out[key] = value
    return out


def answer_columns(episode: Episode, scores: np.ndarray) -> dict[str, Any]:
    top = scores.max(1, keepdims=True)
    probability = 1 / np.exp(scores - top).sum(1)
    return {
        "answer_query": episode.query.tolist(),
        "answer_truth": episode.query_labels.tolist(),
        "answer_predicted": scores.argmax(1).tolist(),
        "answer_probability": probability.astype(np.float64).tolist(),
    }


def explode_answers(table: pl.DataFrame) -> pl.DataFrame:
    columns = ["answer_query", "answer_truth", "answer_predicted", "answer_probability"]
    frame = table.select("repeat", "task", *columns).explode(columns)
    return frame.rename({c: c.removeprefix("answer_") for c in columns})
