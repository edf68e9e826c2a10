"""Any few-shot rule without its labels: few-shot clustering and unsupervised few-shot classification."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from handful.data.collection import Part
from handful.errors import BadInput, Mismatch
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class Clustering(Rule):
    """The tasks of another rule with the support's labels hidden (Centroid Networks, Section 3.1).

    The learner sees the support's images and the number of classes; the labels stay with the scorer, who matches
    clusters with classes one to one.

    Parameters
    ----------
    of
        The rule whose tasks these are; ``NWay(part)`` by default.
    mode
        ``unsupervised``: the support is clustered, the match is made on the support, and the queries are classified
        (the clustering accuracy of the support is scored as well); ``clustering``: only the clustered images count.
    target
        Which images are clustered. ``support`` in the paper's experiments, so that both settings share a match;
        ``query`` as in its definition: support and query change places, and what was the support is not seen while
        clustering.
    sizes
        Show the number of images of each cluster. They are label information: without them methods take clusters to be
        of equal size.
    """

    part: Part = field(default=None)  # type: ignore[assignment]
    of: Rule = field(default=None)  # type: ignore[assignment]
    mode: Literal["unsupervised", "clustering"] = "unsupervised"
    target: Literal["support", "query"] = "support"
    sizes: bool = False

    name: ClassVar[str] = "clustering"

    def __post_init__(self) -> None:
        if self.of is None and self.part is None:
            raise BadInput("a clustering rule needs the rule whose labels it hides: Clustering(of=NWay(part, ...))")
        inner = NWay(self.part) if self.of is None else self.of
        if self.mode == "unsupervised" and self.target == "query":
            raise BadInput(
                "unsupervised few-shot classification clusters the support; use target='query' with mode='clustering'"
            )
        if inner.axes != 1 or "images" not in inner.shows:
            raise Mismatch(f"the tasks of {inner.name} cannot be clustered; wrap a rule of images with one label axis")
        object.__setattr__(self, "of", inner)
        object.__setattr__(self, "part", inner.part)

    @property
    def shows(self) -> frozenset[str]:
        return frozenset({"images", "sizes"} if self.sizes else {"images"})

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("clustering",) if self.mode == "clustering" else ("unsupervised", "clustering")

    def check(self) -> None:
        self.of.check()

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        return [self._hide(episode) for episode in self.of.draw_block(seed, start, stop)]

    def _hide(self, e: Episode) -> Episode:
        if self.target == "support":
            return dataclasses.replace(e, shows=self.shows, descriptions=None)
        return dataclasses.replace(
            e,
            support=e.query,
            support_labels=e.query_labels,
            query=e.support,
            query_labels=e.support_labels,
            shows=self.shows,
            descriptions=None,
        )
