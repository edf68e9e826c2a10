"""Contexts that tell the class: tasks are drawn so that they do not."""

from __future__ import annotations

import dataclasses
import warnings
from typing import ClassVar

import numpy as np

from handful.audits.context_gap import context_votes, guessed
from handful.data.collection import Collection, Part
from handful.errors import Infeasible
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look
from handful.tasks.balanced import Balanced
from handful.tasks.nway import NWay

BOUND = 0.1
"""Of the way from guessing to perfect that a reader of contexts alone may get in the usual tasks."""
TASKS = 200


def information(rule: NWay, contexts: np.ndarray, n: int, seed: int) -> float:
    """Mutual information, in bits, of class and context within the support of a task: the mean over n tasks."""
    found = []
    for e in rule.draw_block(seed, 0, n):
        _, own = np.unique(contexts[e.support], return_inverse=True)
        joint = np.zeros((e.n_classes, int(own.max()) + 1))
        np.add.at(joint, (e.support_labels, own.reshape(-1)), 1 / len(e.support))
        product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        kept = joint > 0
        found.append(float((joint[kept] * np.log2(joint[kept] / product[kept])).sum()))
    return float(np.mean(found))


class BalancedContexts(Repair):
    """The rule ``balanced``, with as many contexts in a task as leave as many classes as one context would.

    Each split is asked with n-way tasks of the protocol; where a reader of contexts alone gets further than a tenth of the way from guessing
    to perfect, the rule is proposed, under which class and context share no information within a task. Classes that no such
    task can have are named.
    """

    name: ClassVar[str] = "contexts"
    what: ClassVar[str] = "tasks are drawn so that the context tells nothing of the class"
    cost: ClassVar[float] = 0.5

    def missing(self, collection: Collection) -> str:
        context = collection.card.context
        return "" if context and context not in collection.card.labels else "the collection has no column of contexts"

    def find(self, look: Look) -> list[Entry]:
        current = look.current
        codes = current.whole.codes((str(current.card.context),))[0]
        parts = [current.part(s) for s in ("train", "valid", "test") if current.has(s)] or [current.whole]
        told = {p.split: found for p in parts if (found := lead(p, codes, look)) is not None}
        if not told or max(v for v, _ in told.values()) <= BOUND:
            return []
        worst = max(told, key=lambda s: told[s][0])
        rule, lost = largest(parts, look)
        after, served = 0.0, []
        for part in parts:
            try:
                after = max(after, information(rule.on(part), codes, TASKS, look.seed))  # type: ignore[arg-type]
                served.append(part.split)
            except Infeasible:
                look.said.append(
                    f"No balanced task can be drawn from {part.split}: its classes share too few contexts."
                )
        why = (
            f"told the contexts alone one gets {told[worst][0]:.0%} of the way from guessing to perfect in {worst} (mutual information "
            f"{told[worst][1]:.2f} bits within a task); under this rule it is {after:.2f} bits in {' and '.join(served)}"
        )
        options = {"rule": rule.name, **{k: getattr(rule, k) for k in ("ways", "shots", "queries", "contexts")}}
        entry = self.entry("draw", why, "of the way from guessing to perfect", told[worst][0], rule=options)
        return [
            dataclasses.replace(entry, facts={"bits_before": round(told[worst][1], 4), "bits_after": round(after, 4)}),
            *(
                self.entry("name", f"{name}: no task of the balanced rule has it", "classes left out", 1.0)
                for name in lost
            ),
        ]


def lead(part: Part, codes: np.ndarray, look: Look) -> tuple[float, float] | None:
    """How far a reader of contexts gets in the usual tasks of a part, and the information within them; None if there are no tasks."""
    rule = usual(part, look)
    if rule is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = context_votes(rule, codes, TASKS, look.seed)
        bits = information(rule, codes, TASKS, look.seed)
    mean = float(found.both(guessed(found), look.seed)[0].value)
    return (mean - found.chance) / (1 - found.chance), bits


def usual(part: Part, look: Look) -> NWay | None:
    """N-way tasks of the protocol, or of as many ways and queries as the part can serve."""
    for ways in range(min(look.ways, part.n_classes), 1, -1):
        for queries in sorted({look.queries, min(look.queries, 5), 1}, reverse=True):
            rule = NWay(part, ways, look.shots, queries)
            if len(rule.eligible()) >= ways:
                return rule
    return None


def largest(parts: list[Part], look: Look) -> tuple[Balanced, list[str]]:
    """The balanced rule that serves most parts and of those keeps most classes of the last; then that of most queries, ways and contexts.

    Beside it, the classes of the last part that it leaves out.
    """
    part = parts[-1]
    best: tuple[tuple[int, ...], Balanced] | None = None
    for ways in range(min(look.ways, part.n_classes), 1, -1):
        for queries in sorted({look.queries, min(look.queries, 10), min(look.queries, 5)}, reverse=True):
            for contexts in range(1, look.shots + 1):
                rule = Balanced(part, ways, look.shots, queries, contexts=contexts)
                if not serves(rule):
                    continue
                score = (sum(serves(rule.on(p)) for p in parts), ways, len(rule.eligible()), queries, contexts)  # type: ignore[arg-type]
                if best is None or score > best[0]:
                    best = score, rule
    if best is None:
        raise Infeasible(
            f"{part.id}: no two classes share contexts with enough images, so that no task can be balanced"
        )
    out = np.setdiff1d(np.arange(part.n_classes), best[1].eligible())
    return best[1], [part.class_names[c] for c in out.tolist()]


def serves(rule: Balanced) -> bool:
    """Whether a rule's part can serve it."""
    try:
        rule.check()
    except Infeasible:
        return False
    return True
