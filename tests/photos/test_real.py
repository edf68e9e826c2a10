"""What fit promises, kept on real photos: a small version of benchmarks/fifty_photos.py."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

import handful as hf
from handful.nets.compute import Compute
from handful.photos.classifier import learn
from handful.photos.encoder import Encoder

CLASSES, EACH = 12, 16


@pytest.fixture(scope="module")
def album(shared):
    """Twelve classes of two data sets: names, photos' bytes, unit vectors of EfficientNet-Lite0 at 96 pixels."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs handful[pretrained]")
    out = {}
    for name in ("CALTECH", "CIFAR"):
        with zipfile.ZipFile(shared / "album" / f"{name}.zip") as archive:
            by_class: dict[str, list[str]] = {}
            for file in archive.namelist():
                if file.endswith(".jpg"):
                    by_class.setdefault(file.rpartition("/")[2].rpartition("_")[0], []).append(file)
            chosen = sorted(by_class)[::3][:CLASSES]
            data = [archive.read(f) for c in chosen for f in sorted(by_class[c])[:EACH]]
        images = np.stack([np.asarray(Image.open(io.BytesIO(d)).convert("RGB").resize((224, 224))) for d in data])
        x = Encoder("lite0:size=96", Compute(batch=32))(images)
        out[name] = (chosen, data, x, np.repeat(np.arange(len(chosen)), EACH))
    return out


def draw(x, label, seed):
    rng = np.random.default_rng(seed)
    classes = rng.choice(CLASSES, rng.integers(5, 9), replace=False)
    mine, held = [], []
    for k, c in enumerate(classes):
        rows = rng.permutation(np.flatnonzero(label == c))
        n = rng.integers(4, 8)
        mine += [(r, k) for r in rows[:n]]
        held += [(r, k) for r in rows[n:]]
    rows, y = np.array(mine).T
    others, truth = np.array(held).T
    classifier, choice = learn(x[rows], y, len(classes))
    p, refused = classifier.answer(x[others])
    _, strange = classifier.answer(x[~np.isin(label, classes)])
    return (p.argmax(1) == truth).mean(), choice.expected, refused.mean(), strange.mean(), p.max(1).mean()


@pytest.mark.real
def test_held_out_photos_fall_into_the_interval_in_eighteen_of_twenty_draws(album):
    draws = {name: [draw(x, label, seed) for seed in range(10)] for name, (_, _, x, label) in album.items()}
    every = [d for of in draws.values() for d in of]
    assert sum(accuracy in expected for accuracy, expected, *_ in every) >= 18
    accuracy, own, sure = (np.mean([d[i] for d in every]) for i in (0, 2, 4))
    assert own < 0.16 and abs(sure - accuracy) < 0.08, (own, sure, accuracy)
    strange = {name: np.mean([d[3] for d in of]) for name, of in draws.items()}
    assert strange["CALTECH"] > 0.7 and strange["CIFAR"] > 0.25, strange


@pytest.mark.real
def test_a_folder_of_real_photos_from_end_to_end(album, tmp_path):
    classes, data, _, label = album["CALTECH"]
    for k in range(4):
        rows = np.flatnonzero(label == k)
        (tmp_path / "photos" / classes[k]).mkdir(parents=True)
        for i, row in enumerate(rows[:5]):
            (tmp_path / "photos" / classes[k] / f"{i}.jpg").write_bytes(data[row])
    hf.fit(tmp_path / "photos").save(tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "moved")
    model = hf.load(tmp_path / "moved")
    held = [(k, Image.open(io.BytesIO(data[r]))) for k in range(4) for r in np.flatnonzero(label == k)[5:8]]
    strangers = [Image.open(io.BytesIO(data[r])) for k in range(5, 12) for r in np.flatnonzero(label == k)[:1]]
    answers = model.predict([image for _, image in held])
    right = [model.classes[p] == classes[k] for p, (k, _) in zip(answers.probabilities.argmax(1), held, strict=True)]
    assert np.mean(right) >= 0.8
    refused = model.predict(strangers).refused
    assert refused.mean() > 0.5 and answers.refused.mean() < 0.4
