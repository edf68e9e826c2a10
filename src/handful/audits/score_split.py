"""The score split: how much of a score is guessing, needs no labels, comes from the context, the nearest class or copies."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from handful.audits.answers import TaskAnswers
from handful.audits.context import Context
from handful.audits.cscc import ENOUGH
from handful.audits.drawing import waterfall
from handful.audits.finding import Diagnosis, Finding, below
from handful.audits.learners import Answering, answering, answers_of
from handful.audits.readers import READERS, seen_side
from handful.audits.shapley import shapley
from handful.audits.tasks import AuditTasks, in_words, tasks_of
from handful.audits.views import View
from handful.errors import HandfulError, Mismatch
from handful.metrics.base import Estimate
from handful.metrics.crossed import task_means

CHANCE, SEEN, REST = "guessing", "already seen", "the remainder"
TRAINING, ASKING = 0.45, 0.3
"""Shares of the diagnosis' time that training a method may take, and asking it."""


@dataclass(frozen=True, eq=False)
class ScoreShares:
    """Shares of a score that add up to it, one entry an answer.

    ``shares`` is ordered: guessing, each source, the remainder; ``missing`` says why a source was left out.
    """

    answers: TaskAnswers
    shares: dict[str, np.ndarray]
    missing: dict[str, str]

    def estimates(self, seed: int = 0) -> dict[str, tuple[Estimate, Estimate]]:
        """Each share for new tasks and for new classes."""
        return {name: self.answers.both(values, seed) for name, values in self.shares.items()}

    def among(self, some: np.ndarray) -> dict[str, float]:
        """Each share of the score on some of the answers alone, which add up to that score."""
        return {name: float(task_means(v[some], self.answers.task[some]).mean()) for name, v in self.shares.items()}


def split_score(
    method: TaskAnswers, sources: dict[str, TaskAnswers], missing: dict[str, str] | None = None
) -> ScoreShares:
    """Split a method's answers among sources of less than it sees, all on the same tasks.

    The worth of a set of sources is the accuracy of a reader who has these alone: every source votes for its answer
    with the log-odds of its own accuracy (none where it cannot tell, or is no better than guessing), the most votes
    win, ties are shared. The worth of none is guessing; a source's share is its mean addition over all orders; the
    remainder is what the method has beyond them all, below zero where they beat it.
    """
    ways, truth = method.ways, method.truth
    for name, found in sources.items():
        if not all(np.array_equal(getattr(found, k), getattr(method, k)) for k in ("task", "image", "truth", "ways")):
            raise Mismatch(f"the answers by {name!r} are to other tasks than the method's; ask both the same")
    weights = {name: log_odds(found) for name, found in sources.items()}

    def worth(some: frozenset[str]) -> np.ndarray:
        told = [sources[s].given for s in sources if s in some and weights[s] > 0]
        if not told:
            return 1 / ways
        given, weight = np.stack(told), np.asarray([weights[s] for s in sources if s in some and weights[s] > 0])
        # Votes for the label that each source names; a label that two sources name is counted once among the winners.
        same = (given[:, None] == given[None]) & (given >= 0)[:, None]
        votes = (same * weight[None, :, None]).sum(1)
        top = (given >= 0) & (votes >= votes.max(0) - 1e-9)
        first = ~(same & np.tri(len(told), k=-1, dtype=bool)[..., None]).any(1)
        winners = (top & first).sum(0)
        right = (top & first & (given == truth)).any(0)
        return np.where(winners > 0, right / np.maximum(winners, 1), 1 / ways)

    shares = shapley(worth, list(sources))
    rest = method.right - worth(frozenset(sources))
    return ScoreShares(method, {CHANCE: 1 / ways, **shares, REST: rest}, dict(missing or {}))


def log_odds(found: TaskAnswers) -> float:
    """How much a source's vote weighs: the log-odds of its accuracy where it tells, less those of guessing there; or nothing."""
    told = found.given >= 0
    if not told.any():
        return 0.0
    right, guess = (float(task_means(v[told], found.task[told]).mean()) for v in (found.right, 1 / found.ways))
    right = min(right, 1 - 1e-6)
    return float(np.log(right * (1 - guess) / ((1 - right) * guess))) if right > guess else 0.0


class ScoreSplit(Diagnosis):
    """One waterfall from guessing to the score of a method, in any setting."""

    name: ClassVar[str] = "score-split"
    question: ClassVar[str] = "What is the score made of?"
    topic: ClassVar[str] = "score"
    cost: ClassVar[float] = 1.2

    def run(self, context: Context) -> list[Finding]:
        with warnings.catch_warnings():
            # What a rule warns of when it leaves classes out is no news to an audit, which says what it drew from.
            warnings.simplefilter("ignore")
            tasks = tasks_of(context)
            shares, who = measured(tasks)
            shares, gain = remembered(shares, who, tasks)
        classes = tasks.setting == "zero-shot"
        # A zero-shot task is a class, so that its tasks' interval is none of its own.
        parts = {k: (e[1], e[1]) if classes else e for k, e in shares.estimates(context.seed).items()}
        if gain is not None:
            # The share is the gain times how many answers it holds for, and no surer than the gain is.
            value, wide = parts[SEEN][0].value, parts[SEEN][0].value / gain.value if gain.value else 0.0
            parts[SEEN] = (Estimate(value, wide * gain.low, wide * gain.high, gain.over, gain.n),) * 2
        total = shares.answers.both(seed=context.seed)[classes]
        rest, over_classes = parts[REST]
        chance = parts[CHANCE][0].value
        added = {name: e.value for name, (e, _) in parts.items() if name not in (CHANCE, REST)}
        words = ", ".join(f"{name} {100 * value:+.1f}" for name, value in added.items())
        sentence = (
            f"{100 * rest.value:.1f} of {100 * total.value:.1f} points remain for the method ({who.said}; {in_words(tasks.rule)}), "
            f"guessing gives {100 * chance:.1f}, {words or 'no other source could be measured'}"
        )
        sides = both_sides(tasks, shares)
        if sides:
            sentence += "; " + ", ".join(f"{100 * s['score']:.1f}% on {name}" for name, s in sides.items())
        if tasks.note:
            sentence += f"; {tasks.note}"
        if shares.missing:
            sentence += "; left out: " + ", ".join(shares.missing)
        share = rest.value / max(total.value - chance, 1e-9)
        light = "grey" if who.short or total.low <= chance else below(share, 0.5, 0.2)
        details: dict[str, Any] = {
            "method": who.said,
            "tasks": len(np.unique(shares.answers.task)),
            "score": total.as_dict(),
            "parts": {name: {"tasks": a.as_dict(), "classes": b.as_dict()} for name, (a, b) in parts.items()},
            **({"sides": sides} if sides else {}),
            "missing": shares.missing,
            "remaining_share": share,
        }
        return [
            Finding(
                self.name, sentence, rest.value, rest.low, rest.high, rest.over,
                "share of the lead over guessing that remains: green from 50%, red below 20%"
                + (f"; not judged after fewer than {ENOUGH} training steps" if who.short else ""), light,
                waterfall({n: e for n, (e, _) in parts.items()}, total, classes=None if classes else {n: e for n, (_, e) in parts.items()}), details, over_classes=None if classes else over_classes,
                alt="Waterfall: " + ", ".join(f"{name} {100 * e.value:+.1f}" for name, (e, _) in parts.items())
                + ("" if classes else ". Dark lines: intervals for new tasks; pale ones: for new classes")
                + f"; together {100 * total.value:.1f}%.",
            )
        ]  # fmt: skip


def measured(tasks: AuditTasks) -> tuple[ScoreShares, Answering]:
    """The split score of the audit's method on its tasks, as many as the time allows, and who answered."""
    context, start, whole = tasks.context, time.monotonic(), tasks.context.seconds
    who = answering(tasks, TRAINING * whole)
    context.seconds = max(whole - (time.monotonic() - start), 0.2 * whole)
    method = answers_of(tasks, who, ASKING)
    n = int(method.task.max()) + 1
    sources: dict[str, TaskAnswers] = {}
    missing: dict[str, str] = {}
    for name, reader in READERS[tasks.setting].items():
        context.seconds = max(whole - (time.monotonic() - start), 0.2 * whole)
        try:
            if isinstance(reader, str):
                missing[name] = reader
            else:
                sources[name] = reader(tasks, n)
        except HandfulError as error:
            missing[name] = str(error)
    n = min([n, *(int(found.task.max()) + 1 for found in sources.values())])
    cut = {name: first(found, n) for name, found in sources.items()}
    return split_score(first(method, n), cut, missing), who


def remembered(shares: ScoreShares, who: Answering, tasks: AuditTasks) -> tuple[ScoreShares, Estimate | None]:
    """The shares with what the encoder's having seen the classes adds taken out of the remainder, and that gain.

    Nothing changes where `encoder-seen` was not asked, or the method learned from the pixels itself.
    """
    kept = tasks.context.kept.get("encoder-seen")
    if kept is None or not isinstance(who.rule.part.collection, View) or tasks.setting == "zero-shot":
        return shares, None
    gain, classes = kept
    own = np.asarray([name in classes for name in tasks.context.collection.whole.class_names])
    moved = np.where(own[shares.answers.classes], gain.value, 0.0)
    rest = shares.shares[REST] - moved
    return ScoreShares(
        shares.answers,
        {**{k: v for k, v in shares.shares.items() if k != REST}, SEEN: moved, REST: rest},
        shares.missing,
    ), gain


def first(found: TaskAnswers, n: int) -> TaskAnswers:
    """The answers to the first n tasks."""
    kept = found.task < n
    return found if kept.all() else TaskAnswers(*(v[kept] for v in vars(found).values()))


def both_sides(tasks: AuditTasks, shares: ScoreShares) -> dict[str, dict[str, Any]]:
    """The shares of what was seen and of what was not, apart: the shares of each add up to its own score."""
    known = seen_side(tasks, int(shares.answers.task.max()) + 1)
    if known is None:
        return {}
    out = {}
    for name, some in (("seen", known), ("unseen", ~known)):
        if some.any():
            score = float(task_means(shares.answers.right[some], shares.answers.task[some]).mean())
            out[f"{name} {'pairs' if tasks.setting == 'pairs' else 'classes'}"] = {
                "score": score,
                "parts": shares.among(some),
            }
    return out
