"""Any few-shot rule without its labels: few-shot clustering and unsupervised few-shot classification."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from handful.errors import BadInput
from handful.tasks.episode import Episode
from handful.tasks.wrapper import Wrapper


@dataclass(frozen=True)
class Clustering(Wrapper):
    """The tasks of another rule with the support's labels hidden (Centroid Networks, Section 3.1).

    The learner sees the support's images and the number of classes; the labels stay with the scorer, who matches
    clusters with classes one to one.

    Parameters
    ----------
    of
        The rule whose tasks these are, with one label axis; ``NWay(part)`` by default.
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

    mode: Literal["unsupervised", "clustering"] = "unsupervised"
    target: Literal["support", "query"] = "support"
    sizes: bool = False

    name: ClassVar[str] = "clustering"
    wraps: ClassVar[frozenset[str]] = frozenset({"images"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "unsupervised" and self.target == "query":
            raise BadInput(
                "unsupervised few-shot classification clusters the support; use target='query' with mode='clustering'"
            )

    @property
    def shows(self) -> frozenset[str]:
        return frozenset({"images", "sizes"} if self.sizes else {"images"})

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("clustering",) if self.mode == "clustering" else ("unsupervised", "clustering")

    def changed(self, e: Episode, seed: int) -> Episode:
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
