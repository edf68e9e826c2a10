"""One chunk of tasks, from drawn episodes to rows of the table: what a worker does, wherever it is."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from handful import registry
from handful.clock import measuring, timed
from handful.methods.answering import CHUNK, Answered, Scores, Together, answers
from handful.methods.batch import pad
from handful.methods.contract import Learner
from handful.methods.embedded import EmbeddedLearner
from handful.metrics import Metric
from handful.metrics.refusals import Evidence
from handful.metrics.strangers import StrangerScores
from handful.nets.features import release
from handful.runs.embedding import EmbeddedRows
from handful.runs.promises import Promises
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


@dataclass
class ScoringJob:
    """All a worker needs to score any chunk; the same object for every chunk of a run."""

    learner: Learner
    rule: Rule
    metrics: tuple[str, ...]
    seeds: tuple[int, ...]
    n: int
    answers: bool
    features: EmbeddedRows | None = None
    promises: Promises = Promises()

    @property
    def threads(self) -> int:
        return self.learner.compute.threads

    @property
    def gpus(self) -> int:
        return int(torch.device(self.learner.compute.device).type == "cuda")

    @property
    def per_repeat(self) -> int:
        return -(-self.n // CHUNK)

    def for_thread(self) -> ScoringJob | None:
        """The same job for a thread beside others, if the learner has a copy to give."""
        learner = self.learner.twin()
        return None if learner is None else dataclasses.replace(self, learner=learner)

    def place(self, chunk: int) -> tuple[int, int]:
        """The repeat and the first task of a chunk."""
        return chunk // self.per_repeat, chunk % self.per_repeat * CHUNK

    def episodes(self, chunk: int) -> list[Episode]:
        repeat, start = self.place(chunk)
        with timed("draw"):
            return self.rule.draw_block(self.seeds[repeat], start, min(start + CHUNK, self.n))

    @property
    def together(self) -> Together | None:
        """How a chunk is answered at once, where the learner is a head over features that are embedded already."""
        return (lambda episodes: embedded_scores(self, episodes)) if self.learner.embeds else None


@dataclass(frozen=True)
class Scored:
    """Rows of one chunk; what they cost goes beside them, never into the table."""

    chunk: int
    frame: pl.DataFrame
    seconds: dict[str, float]
    peak_memory_mb: float
    process: int


def peak_memory_mb() -> float:
    """The most memory this process has held; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    # Linux counts kilobytes, macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024)


def score_chunk(job: ScoringJob, chunk: int) -> Scored:
    """Rows of one chunk of tasks."""
    with measuring() as clock, job.learner.compute.here():
        repeat, start = job.place(chunk)
        stop, seed = min(start + CHUNK, job.n), job.seeds[repeat]
        found = list(answers(job.learner, job.rule, stop, seed, start=start, together=job.together))
        if job.together is None:
            release(job.rule.part.collection.array)
        with timed("score"):
            frame = rows_of(job, repeat, found)
    return Scored(chunk, frame, dict(clock.seconds), peak_memory_mb(), os.getpid())


def rows_of(job: ScoringJob, repeat: int, found: list[Answered]) -> pl.DataFrame:
    metrics: list[Metric] = [registry.make("metrics", n, job.promises.options(n)) for n in job.metrics]
    rows = []
    for episode, raw, support_scores in found:
        scores = raw if job.promises.temperature == 1 else raw / job.promises.temperature
        if "contexts" in job.metrics:
            episode = with_contexts(job.rule, episode)
        row: dict[str, Any] = {"repeat": repeat, "task": episode.number, **describe(episode)}
        for metric in metrics:
            if isinstance(metric, StrangerScores):
                row.update(metric.row_of(episode, evidence(job, episode, scores)))
            else:
                row.update(metric.row(episode, scores, support_scores))
        if job.answers:
            row.update(answer_columns(episode, scores))
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def evidence(job: ScoringJob, episode: Episode, scores: np.ndarray) -> Evidence:
    """What a score of refusal may look at: the scores, and where a learner embeds, support and queries as vectors."""
    if job.features is None or "labels" not in episode.shows:
        return Evidence(scores)
    both = job.features.of(np.concatenate([episode.support, episode.query])).numpy()
    both = both.reshape(*both.shape[:2], -1).mean(-1) if both.ndim > 2 else both
    return Evidence(scores, both[: len(episode.support)], episode.support_labels, both[len(episode.support) :])


def has_contexts(rule: Rule) -> bool:
    """Whether the queries of a labelled task have contexts to tell apart."""
    card = rule.part.collection.card
    return bool(card.context) and card.context not in card.labels and rule.axes == 1 and "labels" in rule.shows


def with_contexts(rule: Rule, episode: Episode) -> Episode:
    """The episode as the scorer needs it: with its queries' contexts, unless the rule has named them."""
    if "query_contexts" in episode.side or not has_contexts(rule):
        return episode
    column = rule.part.collection.table[str(rule.part.collection.card.context)]
    contexts = column[episode.query].cast(pl.String).fill_null("(none)").to_numpy()
    return dataclasses.replace(episode, side={**episode.side, "query_contexts": contexts})


def embedded_scores(job: ScoringJob, episodes: list[Episode]) -> list[Scores]:
    """Scores of a chunk as one padded tensor expression (or a few, if the method's head is large)."""
    learner: EmbeddedLearner = job.learner  # type: ignore[assignment]
    assert job.features is not None
    device = learner.compute.device
    out: list[Scores] = []
    step = learner.method.together
    for start in range(0, len(episodes), step):
        some = episodes[start : start + step]
        with timed("read"):
            shown = [e.support if "images" in e.shows else e.support[:0] for e in some]
            rows = [x for a, e in zip(shown, some, strict=True) for x in (a, e.query)]
            pieces = job.features.of(np.concatenate(rows)).to(device).split([len(x) for x in rows])
            labels = [e.support_labels if "labels" in e.shows else None for e in some]
            cut = list(zip(pieces[::2], labels, pieces[1::2], strict=True))
            job.features.release()
            batch = pad(
                cut,
                [e.shape for e in some],
                [e.seed for e in some],
                [e.sizes() if "sizes" in e.shows else None for e in some],
                [e.descriptions if "descriptions" in e.shows else None for e in some],
                [e.shown_texts() for e in some],
            )
        with timed("predict"):
            query, support_scores = learner.head(batch)
            q = query.float().cpu().numpy()
            s = None if support_scores is None else support_scores.float().cpu().numpy()
        for i, e in enumerate(some):
            own = None if s is None else s[i, : len(e.support), : e.n_classes]
            out.append((q[i, : len(e.query), : e.n_classes], own))
    return out


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
