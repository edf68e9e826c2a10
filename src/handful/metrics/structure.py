"""How much of a zero-shot score is the hierarchy's doing: structural ratio, relatives, false negatives, a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handful.data import bfs
from handful.data.class_splits import ClassSplit
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput

Classes = Sequence[str] | NDArray
RELATIONS = ("true", "ancestor", "descendant", "unrelated")


@dataclass(frozen=True, eq=False)
class StructuralRatio:
    """r(c) of every test class: steps to the nearest training class over steps to the nearest other test class."""

    classes: NDArray[np.str_]
    to_train: NDArray[np.int32]
    to_test: NDArray[np.int32]

    @property
    def per_class(self) -> NDArray[np.float64]:
        return self.to_train / self.to_test

    @property
    def value(self) -> float:
        """R, the mean of the ratios (Eq. 5b)."""
        return float(self.per_class.mean())

    @property
    def ratio_of_means(self) -> float:
        """Mean distance to train over mean distance to test: nearer to the 0.55 that the paper prints for 1-hop."""
        return float(self.to_train.mean() / self.to_test.mean())


def structural_ratio(taxonomy: Taxonomy, train: Classes, test: Classes) -> StructuralRatio:
    """R of a split (Hascoet et al., On zero-shot recognition of generic objects, CVPR 2019, Eq. 5).

    A class near a training class and far from its competitors (r small) can be named without composing anything.
    Eq. 5a is printed with C_tr in the denominator; the text says the nearest *test* class, and that is what is here:

        r(c) = min_{c' in C_tr} d(c, c') / min_{c' in C_te, c' != c} d(c, c'),   R = mean of r

    with d the undirected shortest path. Parents and children inside the test set have d = 1 and inflate R, so R
    compares structurally consistent sets only (:func:`relatives` says which are).
    """
    a, b = _sides(taxonomy, train, test)
    if len(b) < 2:
        raise BadInput(
            f"the structural ratio needs two test classes or more, found {len(b)}: there is no other to be near"
        )
    to_train = bfs.levels(*taxonomy.around, a)[b]
    to_test = bfs.two_nearest(*taxonomy.around, b)[0][b, 1]
    for side, dist in (("training", to_train), ("other test", to_test)):
        lost = taxonomy.ids[b[dist == bfs.UNREACHED]]
        if len(lost):
            raise BadInput(
                f"{len(lost)} test classes have no path to any {side} class ({', '.join(lost[:5])}); leave them out"
            )
    return StructuralRatio(classes=taxonomy.ids[b], to_train=to_train, to_test=to_test)


def _sides(taxonomy: Taxonomy, train: Classes, test: Classes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    a, b = taxonomy.index(train, where="train"), taxonomy.index(test, where="test")
    ClassSplit("split", tuple(taxonomy.ids[a].tolist()), tuple(taxonomy.ids[b].tolist())).check()
    return a, b


@dataclass(frozen=True, eq=False)
class Relatives:
    """Which test classes have an ancestor or a descendant among the test classes, and among the training classes."""

    classes: NDArray[np.str_]
    in_test: NDArray[np.bool_]
    in_train: NDArray[np.bool_]

    @property
    def consistent(self) -> bool:
        """No test class is above or below another test class or a training class."""
        return not (self.in_test.any() or self.in_train.any())


def relatives(taxonomy: Taxonomy, train: Classes, test: Classes) -> Relatives:
    """Relatives of each test class inside the split: whoever has one can be named rightly and scored wrong."""
    a, b = _sides(taxonomy, train, test)

    def related(to: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(b, taxonomy.ancestors(to)) | np.isin(b, taxonomy.descendants(to))

    return Relatives(classes=taxonomy.ids[b], in_test=related(b), in_train=related(a))


def relations(taxonomy: Taxonomy, truth: Classes, predicted: Classes) -> NDArray[np.int8]:
    """Per image, what the predicted class is to the true one: an index into :data:`RELATIONS`."""
    t, p = taxonomy.index(truth, where="truth"), taxonomy.index(predicted, where="predictions")
    if len(t) != len(p):
        raise BadInput(f"{len(p)} predictions for {len(t)} true classes; give one each")
    pairs, place = np.unique(np.stack([t, p], axis=1), axis=0, return_inverse=True)
    t1, p1 = pairs[:, 0], pairs[:, 1]
    code = np.full(len(pairs), 3, dtype=np.int8)
    code[taxonomy.is_ancestor(p1, t1)] = 1
    code[taxonomy.is_ancestor(t1, p1)] = 2
    code[t1 == p1] = 0
    return code[place.reshape(-1)]


@dataclass(frozen=True)
class Shares:
    """Where the predictions fall; the four shares sum to one.

    An ancestor is right and scored wrong. A descendant may be right, nobody can tell without another annotation. So
    the semantically correct accuracy lies between ``lower`` and ``upper``.
    """

    n: int
    true: float
    ancestor: float
    descendant: float
    unrelated: float

    @property
    def lower(self) -> float:
        return self.true + self.ancestor

    @property
    def upper(self) -> float:
        return self.true + self.ancestor + self.descendant

    @property
    def fn_per_tp(self) -> float:
        """False negatives (ancestors and descendants) per true positive, Table 3; infinite without a true positive."""
        fn = self.ancestor + self.descendant
        return fn / self.true if self.true else (float("inf") if fn else 0.0)


def shares(taxonomy: Taxonomy, truth: Classes, predicted: Classes, *, per_class: bool = False) -> Shares:
    """The four shares over images, or averaged over classes."""
    if len(truth) == 0:
        raise BadInput("no prediction to share out; give at least one image")
    code = relations(taxonomy, truth, predicted)
    weight = np.full(len(code), 1 / len(code))
    if per_class:
        _, place, count = np.unique(taxonomy.index(truth), return_inverse=True, return_counts=True)
        weight = 1 / (count[place] * len(count))
    values = np.bincount(code, weights=weight, minlength=4)
    return Shares(len(code), *(float(v) for v in values))


def nearest_training(taxonomy: Taxonomy, train: Classes, test: Classes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every nearest training class of each test class: (position in ``test``, position in ``train``), ties included."""
    a, b = _sides(taxonomy, train, test)
    owner, source = bfs.all_nearest(*taxonomy.around, bfs.levels(*taxonomy.around, a), b)
    order = np.argsort(a)
    lost = np.setdiff1d(np.arange(len(b)), owner)
    if len(lost):
        raise BadInput(
            f"{len(lost)} test classes have no path to a training class ({taxonomy.ids[b[lost[0]]]}); leave them out"
        )
    return owner, order[np.searchsorted(a[order], source)]


def trivial_mapping(taxonomy: Taxonomy, train: Classes, test: Classes, *, ties: str = "first") -> NDArray[np.float64]:
    """Local descriptions (test, train) of Appendix E: one-hot at the nearest training class.

    ``ties="first"`` takes the first of several nearest in the order of ``train`` (Eq. 9b); ``"average"`` shares the
    one among them, which the paper leaves open.
    """
    owner, at, weight = _weighted(taxonomy, train, test, ties)
    out = np.zeros((len(test), len(train)))
    out[owner, at] = weight
    return out


def _weighted(
    taxonomy: Taxonomy, train: Classes, test: Classes, ties: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The mapping's entries that are not zero: (test, train, weight)."""
    if ties not in ("first", "average"):
        raise BadInput(f"ties is 'first' or 'average', not {ties!r}")
    owner, at = nearest_training(taxonomy, train, test)
    if ties == "average":
        return owner, at, 1.0 / np.bincount(owner)[owner]
    order = np.lexsort((at, owner))
    first = np.unique(owner[order], return_index=True)[1]
    return owner[order][first], at[order][first], np.ones(len(first))


def trivial_bound(taxonomy: Taxonomy, train: Classes, test: Classes, *, ties: str = "first") -> float:
    """Accuracy of the trivial solution if every image were seen as one of its class's nearest training classes.

    The noise of Eq. 9c breaks ties between test classes that share a description at random, so a group of g of them
    earns 1/g each. A bound for the one-to-one mapping, not for any method; the toy of Figure 7 gives 1.
    """
    owner, at, weight = _weighted(taxonomy, train, test, ties)
    return float(_expected(owner, at, weight, (len(test), len(train))).mean())


def trivial_expectation(mapping: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per test class, the expected accuracy of the mapping on images that fall on its own training classes."""
    owner, at = np.nonzero(mapping)
    return _expected(owner, at, mapping[owner, at], mapping.shape)


def _expected(owner: NDArray, at: NDArray, weight: NDArray, shape: tuple[int, ...]) -> NDArray[np.float64]:
    best = np.zeros(shape[1])
    np.maximum.at(best, at, weight)
    wins = weight == best[at]
    rivals = np.bincount(at[wins], minlength=shape[1])
    credit = np.where(wins, 1.0 / np.maximum(rivals, 1)[at], 0.0)
    return np.bincount(owner, weights=weight * credit, minlength=shape[0]).astype(np.float64)


def chance(n_classes: int) -> float:
    """Accuracy of guessing."""
    return 1.0 / n_classes
