"""CMT's outlier detectors by hand and against a loop in numpy, and what they do to the generalised setting."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from handful.errors import BadInput
from handful.methods.zero_shot import novelty
from handful.methods.zero_shot.cmt import CMT
from handful.methods.zero_shot.data import Candidates
from handful.metrics.base import mean_interval
from handful.runs.evaluate import evaluate
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from learning import decide, over_images
from made.planted import planted


def test_the_gaussian_threshold_is_a_radius_by_hand() -> None:
    s = torch.tensor([[0.0, 0.0], [10.0, 0.0]])
    points = torch.tensor([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [10.0, 4.0], [10.0, 8.0]])
    y = torch.tensor([0, 0, 0, 1, 1])
    radius = novelty.radii(points, y, s, inside=1.0)
    assert radius.tolist() == [3.0, 8.0]
    assert novelty.radii(points, y, s, inside=0.5).tolist() == [2.0, 6.0]
    asked = torch.tensor([[0.0, 2.9], [0.0, 3.1], [10.0, -7.9], [1.0, 20.0]])
    assert novelty.outside(asked, s, radius).tolist() == [0.0, 1.0, 0.0, 1.0]
    # The same as thresholds on Gaussian likelihoods at the last image inside.
    for c, r in enumerate(radius.tolist()):
        variance = float((points[y == c] - s[c]).square().mean())
        density = [math.exp(-float((p - s[c]).square().sum()) / (2 * variance)) for p in asked]
        assert [d < math.exp(-(r**2) / (2 * variance)) for d in density] == [
            float((p - s[c]).norm()) > r for p in asked
        ]
    with pytest.raises(BadInput, match="share of the training images"):
        novelty.radii(points, y, s, inside=0.0)


def reference(known: np.ndarray, asked: np.ndarray, k: int, spread: float) -> list[float]:
    """LoOP with loops, from its definition."""

    def nearest(p: np.ndarray, skip: int | None) -> list[int]:
        order = sorted((np.linalg.norm(p - q), i) for i, q in enumerate(known) if i != skip)
        return [i for _, i in order[:k]]

    def pdist(p: np.ndarray, near: list[int]) -> float:
        return math.sqrt(sum(np.linalg.norm(p - known[i]) ** 2 for i in near) / len(near))

    own = [pdist(p, nearest(p, i)) for i, p in enumerate(known)]

    def factor(p: np.ndarray, skip: int | None) -> float:
        near = nearest(p, skip)
        return pdist(p, near) / float(np.mean([own[i] for i in near])) - 1

    scale = math.sqrt(2) * spread * math.sqrt(np.mean([factor(p, i) ** 2 for i, p in enumerate(known)]))
    return [max(0.0, math.erf(factor(p, None) / scale)) for p in asked]


def test_local_outlier_probability_equals_its_definition() -> None:
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.normal(size=(30, 3)), 0.2 * rng.normal(size=(20, 3)) + 6])
    asked = np.concatenate([rng.normal(size=(10, 3)), rng.uniform(-4, 10, size=(10, 3)), [[40.0, 0, 0]]])
    points = torch.as_tensor(known)
    distance, scale = novelty.loop_fit(points, 5, 3.0)
    found = novelty.loop(torch.as_tensor(asked), points, distance, scale, 5)
    np.testing.assert_allclose(found, reference(known, asked, 5, 3.0), atol=1e-6)
    assert found[-1] == pytest.approx(1.0) and found[:10].mean() < 0.3


def test_outlier_probabilities_are_those_of_the_public_package() -> None:
    """PyNomaly 0.4.0 (PyPI), run outside: LocalOutlierProbability(known, extent=3, n_neighbors=4).fit()."""
    known = [[1.62, -0.61], [-0.53, -1.07], [0.87, -2.3], [1.74, -0.76], [0.32, -0.25], [1.46, -2.06], [-0.32, -0.38],
             [1.13, -1.1], [-0.17, -0.88], [0.04, 0.58], [4.0, 4.0], [2.5, -3.0]]  # fmt: skip
    public = [0.011617, 0.066028, 0.099558, 0.015139, 0, 0, 0, 0, 0, 0.108467, 0.733282, 0.17305]
    points = torch.tensor(known, dtype=torch.float64)
    distance, scale = novelty.loop_fit(points, 4, 3.0)
    # The package scores its own points, each without itself among the neighbours.
    _, place = novelty._set_distance(points, points, 4, own=True)
    found = torch.erf((distance / distance[place].mean(1) - 1) / scale).clamp_min(0)
    np.testing.assert_allclose(found, public, atol=2e-6)


def test_the_two_kinds_share_the_probability_by_hand() -> None:
    method = CMT(novelty="gaussian", sharpness=1.0)
    eye = torch.eye(2)
    state = {
        "T1": eye, "T2": eye, "classifier": torch.tensor([[2.0, 0.0], [0.0, 1.0]]), "classifier_bias": torch.zeros(2),
        "variance": torch.tensor([0.5]), "described": torch.zeros(1, 2), "radius": torch.tensor([0.5]),
    }  # fmt: skip
    s = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    # Columns: training class 1, unseen, training class 0, unseen.
    candidates = Candidates(s, None, torch.tensor([1, -1, 0, -1]))
    x = torch.tensor([[0.1, 0.2], [3.0, 0.0]])
    scores = method.score(state, candidates, x).double().numpy()
    # The first image is within the radius: seen for certain, softmax of (0.2, 1.1 = 2 * 0.1 + 0) over classes 1 and 0.
    logits = np.array([0.2, 0.2])
    np.testing.assert_allclose(scores[0, [0, 2]], logits - np.log(np.exp(logits).sum()), rtol=1e-5)
    assert scores[0, [1, 3]].max() < -600
    # The second is beyond it: unseen for certain, Gaussians of variance 0.5 around the descriptions.
    guess = np.tanh([3.0, 0.0])
    away = -np.array([((guess - s[c].numpy()) ** 2).sum() for c in (1, 3)]) / (2 * 0.5)
    np.testing.assert_allclose(scores[1, [1, 3]], away - np.log(np.exp(away).sum()), rtol=1e-4, atol=1e-6)
    assert scores[1, [0, 2]].max() < -600
    # Candidates of one kind are ranked by distance, as without a detector.
    alone = Candidates(s, None, torch.full((4,), -1))
    np.testing.assert_allclose(method.score(state, alone, x), CMT().score(state, alone, x), rtol=1e-6)


@pytest.mark.learning
@pytest.mark.parametrize("detector", ["gaussian", "loop"])
def test_a_detector_lets_unseen_classes_be_named_in_the_generalised_setting(detector: str) -> None:
    collection, semantics = planted(1.0, each=30)
    train, rule = ZeroShot(collection.train, semantics), GeneralisedZeroShot(collection.test, semantics)
    common = {"hidden": 64, "rate": 1e-2, "inside": 0.8, "spread": 1.0}
    learner = CMT(novelty=detector, **common).meta_fit(train)
    images = {s: torch.as_tensor(collection.read(collection.part(s).rows)) for s in ("test", "test_seen")}
    from handful.methods.zero_shot.cmt import mapped

    t = learner.tensors
    share = {
        s: mean_interval(learner.method.unseen(t, mapped(learner.normalised(x), t["T1"], t["T2"])).double().numpy())
        for s, x in images.items()
    }
    decide(share["test"], above=share["test_seen"].high, what="said to be unseen")
    run = evaluate(learner, rule, rule.size)
    decide(over_images(run, "unseen1"), above=0.2, what="unseen")
    decide(over_images(run, "seen1"), above=0.05, what="seen")
