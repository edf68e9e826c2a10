"""Tasks of several data sets in given proportions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from handful import registry
from handful.data.collection import Part
from handful.errors import BadInput, Infeasible, Mismatch, nearest
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class Mix(Rule):
    """Each task is drawn by one of several rules, chosen at random with given weights.

    Either one rule for every data set of a collection, ``Mix(part, of=AnyWay(part), weights={"DOG": 2, "INS": 1})``, with
    another rule for some of them in ``special``; or rules of one's own, ``Mix(rules=(a, b), weights=(2, 1))``. Task i of the
    mix is task i of the rule it falls to, so a mix of one rule is that rule. All rules must draw from one collection.

    Parameters
    ----------
    of
        The rule for a data set; ``NWay`` by default. Its part is cut to the data set's images.
    weights
        By data set, or in the order of ``rules``; they need not sum to 1. Data sets that are not named are not drawn;
        without any weights all are drawn equally often.
    special
        Data sets that need a rule of their own, by name: ``{"Omniglot": {"rule": "meta-dataset", "group": "alphabet"}}``.
    column
        The column that names the data sets.
    rules
        Rules of one's own instead of ``of``.
    """

    part: Part = field(default=None)  # type: ignore[assignment]
    of: Rule = field(default=None)  # type: ignore[assignment]
    weights: Mapping[str, float] | tuple[float, ...] = field(default_factory=dict)
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    column: str = "dataset"
    rules: tuple[Rule, ...] = ()

    name: ClassVar[str] = "mix"

    def __post_init__(self) -> None:
        if self.rules and (self.of is not None or self.special):
            raise BadInput("a mix takes rules, or one rule for every data set (of, special), not both")
        base = self.rules[0] if self.rules else self.of
        if base is None and self.part is None:
            raise BadInput("a mix needs rules, or a part with several data sets: Mix(part, of=AnyWay(part))")
        part = base.part if self.part is None else self.part
        object.__setattr__(self, "part", part)
        if not self.rules and base is None:
            base = NWay(part)
            object.__setattr__(self, "of", base)
        given = list(self.weights.values()) if isinstance(self.weights, Mapping) else list(self.weights)
        if any(not isinstance(w, (int, float)) or not np.isfinite(w) or w < 0 for w in given) or (
            given and not sum(given) > 0
        ):
            raise BadInput(f"the weights of a mix must be numbers of at least 0, not all 0, not {given}")
        if self.rules and isinstance(self.weights, Mapping) and self.weights:
            raise BadInput("weights by data set go with `of`; give the weights of rules as a tuple in their order")
        if self.rules and given and len(given) != len(self.rules):
            raise BadInput(f"{len(given)} weights for {len(self.rules)} rules; give one each")
        assert base is not None
        for other in self.rules:
            if other.part.collection.id != part.collection.id:
                raise Mismatch(
                    f"the rules of a mix draw from {part.collection.id} and {other.part.collection.id}; pack the data sets "
                    "into one collection"
                )
            if (other.shows, other.axes) != (base.shows, base.axes):
                raise Mismatch(
                    f"the rules {base.name} and {other.name} show learners different things; do not mix them"
                )

    @property
    def first(self) -> Rule:
        """The rule whose tasks all others are like."""
        return self.rules[0] if self.rules else self.of

    @property
    def shows(self) -> frozenset[str]:
        return self.first.shows

    @property
    def axes(self) -> int:
        return self.first.axes

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.first.metrics

    @cached_property
    def parts(self) -> tuple[list[str], list[Rule], np.ndarray]:
        """Names, rules and weights of what has any weight."""
        if self.rules:
            given = np.asarray(self.weights or np.ones(len(self.rules)), dtype=float)
            names = [f"rule {i + 1} ({r.name})" for i, r in enumerate(self.rules)]
            found = list(zip(names, self.rules, given, strict=True))
        else:
            found = self._by_dataset()
        found = [f for f in found if f[2] > 0]
        return [f[0] for f in found], [f[1] for f in found], np.asarray([f[2] for f in found])

    def _by_dataset(self) -> list[tuple[str, Rule, float]]:
        values = self.part.column(self.column)
        names = sorted({str(v) for v in values if v is not None and v != ""})
        weights = self.weights if isinstance(self.weights, Mapping) else dict(zip(names, self.weights, strict=False))
        if not isinstance(self.weights, Mapping) and len(self.weights) != len(names):
            raise Infeasible(
                f"{len(self.weights)} weights for the {len(names)} data sets {', '.join(names)}; give one each"
            )
        for name in (*weights, *self.special):
            if name not in names:
                raise Infeasible(f"{self.part.id} has no {self.column} {name!r}; {nearest(name, names)}")
        found: list[tuple[str, Rule, float]] = []
        for name in names:
            weight = float(weights.get(name, 0.0)) if weights else 1.0
            own = self.part.where(values == name, name)
            if name in self.special:
                options = dict(self.special[name])
                rule = registry.make("rules", options.pop("rule", "n-way"), options, own)
            else:
                rule = dataclasses.replace(self.of, part=own)
            found.append((name, rule, weight))
        return found

    def check(self) -> None:
        names, rules, _ = self.parts
        if not rules:
            raise Infeasible(f"{self.part.id} has no {self.column} to mix; name its data sets in that column")
        for name, rule in zip(names, rules, strict=True):
            if (rule.shows, rule.axes) != (self.shows, self.axes):
                raise Mismatch(f"the rule {rule.name} of {name} shows learners other things than {self.of.name}")
            try:
                rule.check()
            except Infeasible as error:
                raise Infeasible(f"{name} cannot serve its share of the mix: {error}") from error

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        _, rules, weights = self.parts
        if not rules:
            self.check()
        numbers = np.arange(start, stop)
        edges = np.cumsum(weights) / weights.sum()
        lot = random.uniform(random.words(seed, "mix", numbers, 1)[:, 0])
        which = np.minimum(np.searchsorted(edges, lot, side="right"), len(rules) - 1)
        drawn: dict[int, Episode] = {}
        for i, rule in enumerate(rules):
            own = numbers[which == i]
            if not len(own):
                continue
            # Drawing a block and leaving some out is cheaper than drawing one by one, unless most would be left out.
            if len(own) * 8 >= own[-1] + 1 - own[0]:
                block = rule.draw_block(seed, int(own[0]), int(own[-1]) + 1)
                drawn |= {int(n): block[int(n - own[0])] for n in own}
            else:
                drawn |= {int(n): rule.draw(seed, int(n)) for n in own}
        return [drawn[int(n)] for n in numbers]
