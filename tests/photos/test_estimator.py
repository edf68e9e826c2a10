"""The classifier of photos keeps scikit-learn's contract, and answers as `hf.fit` does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import handful as hf
from handful.errors import BadInput
from handful.photos.estimator import FewShotClassifier


def photos(each: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three colours with noise, far apart."""
    rng = np.random.default_rng(seed)
    y = np.repeat(["blue", "green", "red"], each)
    base = np.repeat([[20, 30, 220], [30, 210, 40], [220, 40, 30]], each, axis=0)
    pixels = base[:, None, None] + rng.normal(0, 15, (len(y), 32, 32, 3))
    return pixels.clip(0, 255).astype(np.uint8), y


@pytest.mark.slow
def test_scikit_learn_finds_nothing_wrong_with_it():
    found = check_estimator(FewShotClassifier(), on_fail=None)
    assert len(found) > 40
    assert [(c["check_name"], str(c["exception"])) for c in found if c["status"] not in ("passed", "skipped")] == []


def test_images_are_told_apart_and_probabilities_are_those_of_fit():
    x, y = photos()
    new, truth = photos(seed=1)
    made = FewShotClassifier(net="pixels").fit(x, y)
    assert made.classes_.tolist() == ["blue", "green", "red"]
    assert (made.predict(new) == truth).all() and made.score(new, truth) == 1
    model = hf.fit({c: list(x[y == c]) for c in made.classes_}, net="pixels")
    np.testing.assert_allclose(made.predict_proba(new), model.predict(new).probabilities, atol=1e-6)


def test_paths_and_vectors_do_as_well_and_cross_validation_runs(tmp_path):
    from PIL import Image

    x, y = photos()
    paths = [str(tmp_path / f"{i}.png") for i in range(len(x))]
    for path, pixels in zip(paths, x, strict=True):
        Image.fromarray(pixels).save(path)
    made = FewShotClassifier(net="pixels")
    np.testing.assert_allclose(
        made.fit(paths, y).predict_proba(paths), clone(made).fit(x, y).predict_proba(x), atol=1e-6
    )
    vectors = x.reshape(len(x), -1) / 255.0
    assert cross_val_score(FewShotClassifier(), vectors, y, cv=3).min() == 1
    assert cross_val_score(made, x, y, cv=3).min() == 1


def test_wrong_input_ends_in_a_sentence_that_scikit_learn_can_catch(tmp_path):
    x, y = photos()
    with pytest.raises(BadInput, match="18 images for labels of shape"):
        FewShotClassifier(net="pixels").fit(x, y[:3])
    with pytest.raises(ValueError, match="all labels are one class, 'blue'"):
        FewShotClassifier(net="pixels").fit(x[:6], y[:6])
    with pytest.raises(ValueError, match="class 'red' has one example"):
        FewShotClassifier(net="pixels").fit(x[:13], y[:13])
    made = FewShotClassifier(net="pixels").fit(x, y)
    with pytest.raises(ValueError, match="fitted on images; give images to predict"):
        made.predict(x.reshape(len(x), -1))
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="a.png is not an image; leave it out"):
        made.predict([tmp_path / "a.png"])
