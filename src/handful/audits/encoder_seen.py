"""What had the encoder already seen? A difference in differences against a control encoder, over matched classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import t

from handful.audits import views
from handful.audits.answers import answer
from handful.audits.context import FEWEST, Context, usual_tasks
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, above
from handful.audits.learners import trained
from handful.audits.scan import Scan, near_pairs, scan
from handful.audits.seen_classes import seen_like, seen_list
from handful.audits.views import View
from handful.data.collection import Collection, Part
from handful.data.opening import open_collection
from handful.errors import BadInput, Infeasible
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.methods.metric.protonet import ProtoNet
from handful.metrics.base import LEVEL, Estimate
from handful.nets import build

APART = 0.15
"""Classes are compared with classes whose accuracy under the control is at most this far from theirs."""
FEW_PAIRS = 4
"""Pairs of classes below which nothing is said."""


@dataclass(frozen=True, eq=False)
class Gain:
    """What having seen its classes adds to an encoder's accuracy on them, with an interval over classes.

    ``encoder`` and ``control`` are the differences, seen minus unseen, that it is the difference of; ``pairs`` are numbers within the
    seen and within the unseen classes.
    """

    gain: Estimate
    encoder: Estimate
    control: Estimate
    pairs: np.ndarray


@dataclass(frozen=True, eq=False)
class Told:
    """Right answers and questions ``(tasks, classes)``: what each class of a part got in each task."""

    right: np.ndarray
    asked: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """Of each class; not a number for one that was never asked about."""
        asked = self.asked.sum(0)
        return np.divide(self.right.sum(0), asked, out=np.full(len(asked), np.nan), where=asked > 0)

    def without(self, number: int) -> Told:
        """The tasks that one class is not in."""
        kept = self.asked[:, number] == 0
        return Told(self.right[kept], self.asked[kept])


def told(view: View, part: Part, ways: int, n: int, seed: int) -> Told:
    """What class means answer, in n tasks among a part's own classes."""
    rule = usual_tasks(view.like(part), 5, 10)
    rule = rule if rule.ways == ways else type(rule)(rule.part, ways, rule.shots, rule.queries)
    found = answer(NearestCentroid(), rule, n, seed)
    right, asked = (np.zeros((n, part.n_classes)) for _ in range(2))
    np.add.at(right, (found.task, found.classes), found.right)
    np.add.at(asked, (found.task, found.classes), 1.0)
    return Told(right, asked)


def matched(seen: np.ndarray, unseen: np.ndarray, apart: float = APART) -> np.ndarray:
    """Pairs of numbers of a seen and an unseen class that are as hard as each other, each used once.

    The pairs make the sum of differences in difficulty smallest; those further than ``apart`` are left out.
    """
    cost = np.nan_to_num(np.abs(seen[:, None] - unseen[None, :]), nan=1e3)
    i, j = linear_sum_assignment(cost)
    near = cost[i, j] <= apart
    pairs = np.stack([i[near], j[near]], 1)
    if len(pairs) < FEW_PAIRS:
        raise Infeasible(
            f"only {len(pairs)} pairs of a seen and an unseen class are alike in difficulty, and {FEW_PAIRS} are needed; "
            "audit more classes"
        )
    return pairs


def gain_of(encoder: Sequence[Told], control: Sequence[Told], difficulty: Sequence[np.ndarray]) -> Gain:
    """Difference in differences (encoder minus control, seen minus unseen) over classes matched for difficulty.

    What makes some classes easier for any encoder is in the control too, and goes. The interval is a jackknife over classes:
    each is left out with all tasks that it is in, since a class that is hard to tell from others costs these as well.

    Parameters
    ----------
    encoder, control : answers about the seen and about the unseen classes.
    difficulty : accuracy of the classes of both sides under the control in *other* tasks: matched on the same ones, classes
        that were lucky there would be held against classes that were not.
    """
    pairs = matched(difficulty[0], difficulty[1])

    def lead(kinds: Sequence[tuple[Sequence[Told], float]]) -> Estimate:
        def mean(k: int, drop: int = -1) -> float:
            classes = pairs[pairs[:, k] != drop, k]
            x = sum(sign * (of[k] if drop < 0 else of[k].without(drop)).accuracy for of, sign in kinds)
            return float(np.nanmean(np.asarray(x)[classes]))

        value, variance = mean(0) - mean(1), 0.0
        for k in (0, 1):
            left = np.asarray([mean(k, c) for c in pairs[:, k].tolist()])
            variance += (len(left) - 1) / len(left) * float(np.square(left - left.mean()).sum())
        half = float(t.ppf((1 + LEVEL) / 2, len(pairs) - 1)) * variance**0.5
        return Estimate(value, value - half, value + half, "classes", len(pairs))

    both = [(encoder, 1.0), (control, -1.0)]
    return Gain(lead(both), lead(both[:1]), lead([(control, 1.0)]), pairs)


def memory(encoder: View, control: View, part: Part, seen: np.ndarray, n: int, seed: int = 0) -> Gain:
    """The gain of an encoder that has seen some classes of a part (a flag for each), in n tasks among each side's classes."""
    sides = [part.where(some[part.classes], side) for some, side in ((seen, "seen-like"), (~seen, "unseen-like"))]
    ways = min(5, *(side.n_classes for side in sides))
    asked = ((encoder, seed), (control, seed), (control, seed + 1))
    one, two, other = ([told(v, s, ways, n, at) for s in sides] for v, at in asked)
    return gain_of(one, two, [x.accuracy for x in other])


@dataclass(frozen=True)
class EncoderSeen(Diagnosis):
    """How many points of a frozen encoder's score come from classes that it was trained on.

    Classes are divided into seen-like and unseen-like ones (`seen_classes`); the encoder and a control that has seen none of
    them answer the same tasks within each side; classes of both sides are matched for difficulty under the control, and
    the difference in differences is the gain of having seen.

    Parameters
    ----------
    seen
        What the encoder was trained on: ``imagenet``, or a file with one class in each line.
    images
        A collection or folder of images that it was trained on, to look for near copies in.
    control
        A net that has seen none of the classes; by default a conv4 trained here on the collection's own train split.
    meaning
        Compare the meanings of names too, where a sentence encoder is installed.
    """

    seen: str = ""
    images: str = ""
    control: str = ""
    meaning: bool = True

    name: ClassVar[str] = "encoder-seen"
    question: ClassVar[str] = "How much of the score is the encoder's memory of these classes?"
    topic: ClassVar[str] = "score"
    cost: ClassVar[float] = 1.1

    def missing(self, collection: Collection) -> str:
        if not self.seen:
            return "nobody said what the encoder was trained on; give --encoder-seen imagenet or a file of classes"
        if collection.card.kind != "images":
            return "the collection holds features, and a control encoder has to see images"
        return ""

    def run(self, context: Context) -> list[Finding]:
        part = context.part
        names = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in part.class_names]
        why = seen_like(names, seen_list(self.seen), meaning=self.meaning)
        seen = np.asarray([bool(reason) for reason in why])
        copies = self._copies(context) if self.images else None
        share = float(seen[part.classes].mean())
        said = f"{seen.sum()} of {len(seen)} classes are like classes that {context.net} was trained on"
        if copies is not None:
            said += f", {copies} of {len(part):,} images are near copies of images it was trained on"
        details: dict[str, Any] = {
            "seen": {n: reason for n, reason in zip(names, why, strict=True) if reason},
            "unseen": [n for n, reason in zip(names, why, strict=True) if not reason],
            "near_copies": copies,
        }
        ways = min(5, int(seen.sum()), int((~seen).sum()))
        if ways < 3:
            light = above(share, 0.1, 0.5)
            side = "an unseen" if (~seen).sum() < 3 else "a seen"
            sentence = f"{said}; with fewer than three classes on {side} side nothing can be compared, so what that adds to a score is not known"
            return [
                Finding(
                    self.name, sentence, share, np.nan, np.nan, "", "share of images of seen-like classes: amber from 10%, red from 50%",
                    light, "", details,
                )
            ]  # fmt: skip
        control, title = self._control(context)

        def ask(n: int) -> Gain:
            return memory(context.view, control, part, seen, n, context.seed)

        n, found = context.paced(ask, 0.3)
        gain = found.gain
        context.kept[self.name] = (gain, {n for n, flag in zip(part.class_names, seen, strict=True) if flag})
        sentence = (
            f"having seen classes like these adds {100 * gain.value:.1f} points to {context.net}'s accuracy on them; {said}: "
            f"{share:.0%} of the images; matched for difficulty ({len(found.pairs)} pairs), seen-like classes lead by "
            f"{100 * found.encoder.value:.1f} points, under the control ({title}) by {100 * found.control.value:.1f}"
        )
        light = "green" if gain.low <= 0 else above(gain.value, 0.02, 0.05)
        details |= {
            "gain": gain.as_dict(), "encoder": found.encoder.as_dict(), "control": found.control.as_dict(), "tasks": n,
            "share_of_images": share, "control_net": title,
        }  # fmt: skip
        return [
            Finding(
                self.name, sentence, gain.value, gain.low, gain.high, gain.over,
                "points gained by having seen: green if the interval reaches zero, amber from 2, red from 5", light,
                across({f"lead under {context.net}": found.encoder, "lead under the control": found.control, "gain": gain}, label="points"),
                details,
                alt=f"Bars: seen-like classes lead by {100 * found.encoder.value:.1f} points under the encoder, "
                f"{100 * found.control.value:.1f} under the control; the gain is {100 * gain.value:.1f}.",
            )
        ]  # fmt: skip

    def _control(self, context: Context) -> tuple[View, str]:
        """The images through a net that has seen none of their classes."""
        if self.control:
            net = build(self.control, context.collection.card.shape, context.seed)
            return View(context.collection, views.through(net, context.compute), net.width, self.control), self.control
        if context.apart is None or context.apart.n_classes < FEWEST:
            raise Infeasible(
                f"{context.collection.card.name} has no train split of five other classes that a control encoder could be "
                "trained on; name a net that has seen none of these classes with --control"
            )
        source = usual_tasks(context.apart, 5, 5)
        learner, how, _ = trained(ProtoNet(net="conv4"), source, 0.4 * context.seconds, context.compute)
        net = learner.modules["backbone"]  # type: ignore[attr-defined]
        view = View(context.collection, views.through(net, context.compute), net.width, "control")
        return view, f"conv4, {how} on the train split"

    def _copies(self, context: Context) -> int:
        """How many audited images are near copies of images in the index."""
        index = open_collection(self.images, skip_bad=True)
        if index.card.kind != "images" or index.card.shape[2] != context.collection.card.shape[2]:
            raise BadInput(f"{self.images} does not hold images with the channels of {context.collection.card.name}")
        own = scan(context.collection, context.part.rows, 0.0, context.seed)
        theirs = scan(index, np.arange(len(index)), 0.0, context.seed)
        both = joined([own, theirs])
        exact = np.isin(np.asarray(own.digests)[own.place(context.part.rows)], theirs.digests)
        pairs, _ = near_pairs(both, context.part.rows, context.seed)
        first = int(own.rows.max()) + 1
        across_both = pairs[(pairs[:, 0] < first) & (pairs[:, 1] >= first), 0]
        near = np.isin(own.rows[own.place(context.part.rows)], across_both)
        return int((exact | near).sum())


def joined(scans: Sequence[Scan]) -> Scan:
    """Two scans as one; the rows of the later ones are numbered on."""
    offset, rows = 0, []
    for one in scans:
        rows.append(one.rows + offset)
        offset += int(one.rows.max()) + 1
    hashes, thumbs, tints, constant = (
        np.concatenate([getattr(one, k) for one in scans]) for k in ("hashes", "thumbs", "tints", "constant")
    )
    digests = [d for one in scans for d in one.digests]
    return Scan(np.concatenate(rows), digests, hashes, thumbs, tints, constant, all(one.complete for one in scans))
