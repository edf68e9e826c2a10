"""Hidden tasks: so many of each data set by any rule, in an order and a disguise that only the evaluator's secret gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from handful import registry
from handful.challenge.plan import RunPlan
from handful.data.collection import Part
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


def rules_of(part: Part, rule: str, **options: Any) -> dict[str, Rule]:
    """A rule for each data set of a part, so that tasks can be counted by data set."""
    of_class, names = part.datasets
    parts = {name: part.where(of_class[part.classes] == number, name) for number, name in enumerate(names)}
    return {name: registry.make("rules", rule, options, own) for name, own in sorted(parts.items())}


def check_all(rules: Mapping[str, Rule]) -> None:
    """Raise Infeasible, naming the data set, if the tasks of one cannot be drawn."""
    for rule in rules.values():
        rule.check()


@dataclass(frozen=True)
class HiddenTasks(Rule):
    """The tasks of one run; the seed is the plan's secret, so the rule's own ``seed`` decides nothing."""

    rules: Mapping[str, Any]
    plan: RunPlan

    name: ClassVar[str] = "hidden"

    @classmethod
    def of(cls, rules: Mapping[str, Rule], plan: RunPlan) -> HiddenTasks:
        """The tasks of these rules, which are of one collection."""
        parts = [rule.part for rule in rules.values()]
        rows = np.sort(np.concatenate([part.rows for part in parts]))
        return cls(Part(parts[0].collection, parts[0].scheme, f"{parts[0].split}[hidden]", rows), rules, plan)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def shows(self) -> frozenset[str]:
        return next(iter(self.rules.values())).shows

    @property
    def axes(self) -> int:
        return next(iter(self.rules.values())).axes

    @property
    def parameters(self) -> dict[str, Any]:
        """The rule of each data set, and a hash of the secret: runs of two secrets were asked different tasks."""
        first = next(iter(self.rules.values()))
        each = {name: rule.part.id for name, rule in self.rules.items()}
        return {**first.parameters, "parts": each, "each": self.plan.tasks_per_dataset, "secret": self.plan.mark}

    def check(self) -> None:
        check_all(self.rules)

    @cached_property
    def order(self) -> list[tuple[str, int]]:
        """All (data set, number) pairs, so mixed that a task's place tells nothing about its data set."""
        return interleave(list(self.rules), self.plan.tasks_per_dataset, self.plan.seed("order"))

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        return [self._hidden(number) for number in range(start, stop)]

    def _hidden(self, number: int) -> Episode:
        name, i = self.order[number]
        drawn = self.rules[name].draw(self.plan.seed("tasks", name), i)
        episode = disguise(drawn, self.plan.seed("disguise", name, i))
        # Of all that a rule knows besides, only the data set may reach a table that participants get.
        seed = self.plan.seed("learner", number)
        return dataclasses.replace(episode, number=number, side={"dataset": name}, seed=seed)


def interleave(datasets: list[str], each: int, seed: int) -> list[tuple[str, int]]:
    """All (data set, number) pairs in an order that tells nothing about the data set."""
    pairs = [(name, i) for name in sorted(datasets) for i in range(each)]
    return [pairs[i] for i in np.random.default_rng(seed).permutation(len(pairs))]


def disguise(episode: Episode, seed: int) -> Episode:
    """The same task with its images shuffled and its labels permuted anew."""
    random = np.random.default_rng(seed)
    labels = random.permutation(episode.n_classes)
    support, query = random.permutation(len(episode.support)), random.permutation(len(episode.query))
    return dataclasses.replace(
        episode,
        support=episode.support[support],
        support_labels=labels[episode.support_labels[support]],
        query=episode.query[query],
        query_labels=labels[episode.query_labels[query]],
        names=(tuple(episode.names[0][i] for i in np.argsort(labels)),),
    )
