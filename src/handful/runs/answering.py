"""Tasks and a learner's answers where no run is kept: each image embedded once, then the one loop of methods.answering."""

from __future__ import annotations

from collections.abc import Iterator

from handful.methods.answering import Answered, answers
from handful.methods.contract import Learner
from handful.runs.embedding import embed_needed
from handful.runs.scoring import ScoringJob
from handful.tasks.rule import Rule


def answers_to(learner: Learner, rule: Rule, n: int, seed: int) -> Iterator[Answered]:
    """Each of n tasks with the learner's scores, the same as evaluation has them."""
    job = ScoringJob(learner, rule, (), (seed,), n, False)
    with learner.compute.here():
        if learner.embeds:
            job.features = embed_needed(job, list(range(job.per_repeat)), 1, None)
        yield from answers(learner, rule, n, seed, together=job.together)
