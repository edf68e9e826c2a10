"""The classifier of photos behind scikit-learn's interface, for its pipelines, searches and cross-validation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.errors import BadInput
from handful.photos.classifier import learn
from handful.photos.encoder import Encoder
from handful.photos.reading import read_photos


class BadData(BadInput, ValueError):
    """`BadInput` for callers that catch what scikit-learn raises."""


class FewShotClassifier(ClassifierMixin, BaseEstimator):
    """What `handful.fit` learns, as a scikit-learn estimator.

    ``X`` is an array of images ``(n, height, width, channels)``, a list of paths or Pillow images, or an array ``(n, features)`` of
    vectors that a network gave. Images go through a frozen network; vectors are brought to length one, as its are. Every query gets a
    class: 'none of these' is `handful.fit`'s.

    Parameters
    ----------
    net
        Backbone spec for images, as of `handful.fit`.
    head
        ``prototypes`` or ``linear``; ``auto`` takes the one with the smaller left-out log loss.
    seed
        Of the bootstrap that corrects the expected accuracy.

    Attributes
    ----------
    classes_
        The labels, in the order of the probabilities' columns.
    expected_
        The accuracy to expect for new photos, by left-out answers.
    """

    def __init__(self, net: Any = "lite2:size=260", head: str = "auto", seed: int = 0):
        self.net, self.head, self.seed = net, head, seed

    def fit(self, X: Any, y: Any) -> FewShotClassifier:
        """Learn from images or vectors and their classes."""
        if _of_images(X):
            y = np.asarray(y)
            if y.ndim != 1 or len(y) != len(X):
                raise BadData(f"{len(X)} images for labels of shape {y.shape}; give one label for each")
            self.encoder_ = Encoder(self.net)
            x = self._embedded(X)
        else:
            X, y = validate_data(self, X, y, dtype=np.float64)
            x = _unit(X)
            if hasattr(self, "encoder_"):
                del self.encoder_
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise BadData(f"a classifier needs two classes; all labels are one class, {self.classes_.tolist()[0]!r}")
        sizes = np.bincount(codes)
        if sizes.min() < 2:
            raise BadData(
                f"class {self.classes_.tolist()[sizes.argmin()]!r} has one example; give at least two of each class"
            )
        self.classifier_, chosen = learn(x, codes, len(self.classes_), head=self.head, refuse=0.0, seed=self.seed)
        self.expected_ = chosen.expected
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities, one column for each of ``classes_``."""
        check_is_fitted(self)
        if _of_images(X) != hasattr(self, "encoder_"):
            known = "images" if hasattr(self, "encoder_") else "feature vectors"
            raise BadData(f"it was fitted on {known}; give {known} to predict, too")
        x = (
            self._embedded(X)
            if hasattr(self, "encoder_")
            else _unit(validate_data(self, X, dtype=np.float64, reset=False))
        )
        return self.classifier_.answer(x)[0]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def _embedded(self, X: Any) -> np.ndarray:
        read = read_photos(X if isinstance(X, np.ndarray) and X.ndim == 4 else list(X), self.encoder_.size)
        if read.unreadable or len(read) != len(X):
            name, reason = read.unreadable[0] if read.unreadable else ("a folder", "is not one photo")
            raise BadData(f"{name} {reason}; leave it out")
        return self.encoder_(read.images)


def _of_images(X: Any) -> bool:
    """Whether these are images: an array with height and width, or a list of paths or pictures."""
    if getattr(X, "ndim", 0) == 4:
        return True
    first = X[0] if isinstance(X, Sequence | np.ndarray) and not isinstance(X, str) and len(X) else None
    return isinstance(first, str | os.PathLike) or hasattr(first, "getexif") or getattr(first, "ndim", 0) == 3


def _unit(x: np.ndarray) -> np.ndarray:
    return (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)).astype(np.float32)
