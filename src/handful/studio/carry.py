"""What can be taken out of a room: the classifier as a model folder, its answers as a table, what an answer rests on."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from handful.data.images import decode
from handful.errors import BadInput
from handful.nets.features import embed_images
from handful.photos.answers import Answers
from handful.photos.classifier import Classifier
from handful.photos.encoder import Encoder
from handful.photos.expecting import strangers_caught
from handful.photos.findings import confusions, copies, suspects
from handful.photos.model import PhotoModel
from handful.photos.report import FitReport
from handful.studio.graph import has_maps
from handful.studio.learning import Learned, Shown

HOT = (255, 60, 0)


def model_of(encoder: Encoder | None, shown: Shown, learned: Learned) -> PhotoModel:
    """The same as `handful fit` on the labels so far, from the features at hand."""
    classifier, chosen = learned.classifier, learned.chosen
    if encoder is None or classifier is None or chosen is None:
        raise BadInput("there is no classifier yet; label two photos of each of two things first")
    classes, y, rows = learned.classes, learned.y, learned.rows.tolist()
    names = [shown.names[n] for n in rows]
    tiny = np.stack([shown.tiny[n] for n in rows])
    report = FitReport(
        photos=len(y),
        sizes={c: int(n) for c, n in zip(classes, np.bincount(y, minlength=len(classes)), strict=True)},
        net=encoder.net,
        head=chosen.head.name,
        losses=chosen.losses,
        how=chosen.head.how,
        expected=chosen.expected,
        rate=classifier.rate,
        confusions=tuple(confusions(chosen.probabilities, y, classes)[:10]),
        suspects=tuple(suspects(chosen.probabilities, y, names, classes)),
        copies=tuple(copies(tiny, [shown.digests[n] for n in rows], y, names, classes)),
        left_out=(),
        unreadable=(),
        strangers=strangers_caught(learned.x, y, classifier.rate) if classifier.rate else None,
        notes=encoder.notes,
    )
    return PhotoModel(classes, encoder, classifier, report)


def model_zip(model: PhotoModel) -> bytes:
    """The model folder that `handful predict` takes, zipped."""
    stream = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(model.save(Path(place) / "model").iterdir()):
            archive.write(file, f"model/{file.name}")
    return stream.getvalue()


def answers_csv(shown: Shown, learned: Learned) -> bytes:
    """One row per photo with its answer, as `handful predict --csv` writes them."""
    if learned.classifier is None:
        raise BadInput("there is no classifier yet; label two photos of each of two things first")
    probabilities, refused = learned.classifier.answer(shown.x.astype(np.float64))
    names = tuple(shown.names[int(n)] for n in shown.numbers)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "answers.csv"
        Answers(names, learned.classes, probabilities, refused).to_csv(path)
        return path.read_bytes()


def directions(classifier: Classifier) -> np.ndarray:
    """What each class's score rewards in the features ``(width, C)``, against the mean of all classes."""
    t = classifier.tensors
    w = t["weight"] if classifier.head == "linear" else 2 * t["means"].T
    return w - w.mean(1, keepdims=True)


def heat(encoder: Encoder, classifier: Classifier, data: bytes, name: str) -> bytes:
    """A transparent PNG over the photo's square: warm where the answer comes from.

    The features are the mean of the maps over places, and the heads are linear in them, so that the answer's score is the sum
    of one share for each place (class activation mapping, Zhou et al., CVPR 2016); shown are the shares that speak for it.
    """
    if not has_maps(encoder.backbone):
        raise BadInput(f"{encoder.net} has no maps of places; a heat map needs a convolutional network such as lite2")
    square = decode(data, name, encoder.size)
    maps = embed_images(encoder.backbone, square[None], encoder.compute, maps=True)[0].double().cpu().numpy()
    mean = maps.mean((1, 2))
    probabilities, _ = classifier.answer((mean / max(np.linalg.norm(mean), 1e-12))[None])
    share = np.tensordot(directions(classifier)[:, int(probabilities[0].argmax())], maps, axes=1)
    strength = np.clip(share / max(share.max(), 1e-12), 0, 1)
    alpha = Image.fromarray((strength * 190).astype(np.uint8)).resize(square.shape[:2], Image.Resampling.BICUBIC)
    picture = Image.new("RGBA", square.shape[:2], (*HOT, 0))
    picture.putalpha(alpha)
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()
