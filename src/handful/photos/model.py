"""A classifier from a handful of photos: fit, predict, save, load."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful._version import __version__
from handful.errors import BadInput, HandfulError
from handful.files import WRONG, read_json
from handful.methods.contract import FACTS, MODEL
from handful.methods.contract import load as load_learner
from handful.nets.compute import Compute
from handful.photos.answers import Answers
from handful.photos.classifier import Classifier, check_options, learn
from handful.photos.encoder import Encoder, as_tensors, same_encoder
from handful.photos.expecting import strangers_caught
from handful.photos.findings import confusions, copies, first_of_copies, suspects
from handful.photos.reading import read_classes, read_photos
from handful.photos.report import FitReport, from_dict
from handful.photos.scoring import HeldOut, held_out


@dataclass(frozen=True)
class PhotoModel:
    """A classifier of photos; made by `fit` or `load`.

    Attributes
    ----------
    classes
        Names, in the order of the probabilities' columns.
    report
        What was found while fitting; print it.
    """

    classes: tuple[str, ...]
    encoder: Encoder
    classifier: Classifier
    report: FitReport

    @property
    def about(self) -> str:
        """One sentence for pages."""
        report = self.report
        return f"{report.head} on {self.encoder.net} features, {report.photos} photos of {len(self.classes)} classes."

    def predict(self, photos: Any) -> Answers:
        """Answers for photos: one or several of paths, folders, Pillow images or arrays (``(n, h, w, 3)`` is n photos)."""
        read = read_photos(photos, self.encoder.size)
        probabilities, refused = self.classifier.answer(self.encoder(read.images))
        return Answers(read.names, self.classes, probabilities, refused, read.unreadable)

    def score(
        self, photos: Any, *, layout: str = "auto", options: Mapping[str, Any] | None = None
    ) -> tuple[HeldOut, Answers, list[str]]:
        """How it does on photos with labels that it has not learned from, given as for `fit`; classes that it does not
        know are strangers. Also the answers themselves, and the labels."""
        read, y, classes = read_classes(photos, self.encoder.size, layout, options)
        probabilities, refused = self.classifier.answer(self.encoder(read.images))
        inside = isinstance(photos, (str, os.PathLike)) and Path(photos).is_dir()
        names = tuple(f"{os.fspath(photos).rstrip('/')}/{n}" for n in read.names) if inside else read.names
        answers = Answers(names, self.classes, probabilities, refused, read.unreadable)
        truth = [classes[k] for k in y]
        return held_out(answers, truth, self.report.expected), answers, truth

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a model folder: ``model.safetensors`` and ``model.json``, nothing of this machine in them."""
        from safetensors.torch import save

        from handful.files import fresh_folder

        path = Path(path)
        state = {f"head.{k}": v for k, v in as_tensors(self.classifier.tensors).items()}
        state |= {f"encoder.{k}": v.detach().cpu().contiguous().clone() for k, v in self.encoder.state().items()}
        facts = {
            "kind": "photos",
            "version": __version__,
            "classes": self.classes,
            "encoder": self.encoder.facts(),
            "head": self.classifier.head,
            "temperature": self.classifier.temperature,
            "threshold": self.classifier.threshold if math.isfinite(self.classifier.threshold) else None,
            "rate": self.classifier.rate,
            "report": self.report.as_dict(),
        }
        with fresh_folder(path, force=is_photo_model(path)) as folder:
            (folder / MODEL).write_bytes(save(state))
            (folder / FACTS).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def fit(
    photos: Any,
    *,
    net: Any = "auto",
    head: str = "auto",
    refuse: float = 0.1,
    catch: float = 0.0,
    seed: int = 0,
    layout: str = "auto",
    options: Mapping[str, Any] | None = None,
    compute: Compute | None = None,
) -> PhotoModel:
    """A classifier from photos with labels: class folders, a table beside them, a packed collection, a dict by class.

    Photos become unit vectors of a frozen network. Two heads are tried on each photo with the others alone, prototypes
    and logistic regression, and the one with the smaller log loss is kept; the same left-out answers give the accuracy to
    expect (corrected for the choice), the temperature of the probabilities, the threshold of 'none of these', and what looks
    mislabelled.

    Parameters
    ----------
    photos
        A folder or zip in a layout that an importer reads (a folder of photos for each class, a CSV beside them,
        Meta-Album's), a packed collection, or ``{class: [paths, Pillow images or arrays]}``.
    net
        Backbone spec, or a torch module; ``auto`` is EfficientNet-Lite2 with its ImageNet weights (``handful[pretrained]``).
    head
        ``prototypes`` or ``linear``; ``auto`` chooses.
    refuse
        Share of the classes' own photos that may be called none of these: the higher, the more strangers are refused too;
        0 never refuses.
    catch
        Stricter: refuse as many as it takes to refuse this share of strangers, by classes left out in turn.
    seed
        Of the bootstrap that corrects the expected accuracy.
    layout
        The importer of a folder, as of ``handful data pack``; found by the folder's look unless given.
    options
        Options of that importer.
    compute
        Device, precision and batch.
    """
    check_options(head, refuse, catch)
    encoder = Encoder(net, compute)
    read, y, classes = read_classes(photos, encoder.size, layout, options)
    keep = first_of_copies(read.digests, y)
    twins = tuple(read.names[i] for i in sorted(set(range(len(read))) - set(keep.tolist())))
    images, y_kept = read.images[keep], y[keep]
    names, digests = [read.names[i] for i in keep], [read.digests[i] for i in keep]
    sizes = np.bincount(y_kept, minlength=len(classes))
    if len(classes) < 2:
        raise BadInput(f"all photos are of one class, {classes[0]!r}; give a folder of photos for each of two or more")
    alone = tuple(c for c, s in zip(classes, sizes, strict=True) if s < 2)
    if alone:
        classes = tuple(c for c in classes if c not in alone)
        if len(classes) < 2:
            many = f"class {alone[0]!r} has" if len(alone) == 1 else f"{len(alone)} classes have"
            raise BadInput(f"{many} one photo that can be used; give at least two of each of two or more classes")
        some = np.flatnonzero(sizes[y_kept] > 1)
        images, names, digests = images[some], [names[i] for i in some], [digests[i] for i in some]
        y_kept = np.unique(y_kept[some], return_inverse=True)[1]
        sizes = sizes[sizes > 1]
    x = encoder(images)
    classifier, chosen = learn(x, y_kept, len(classes), head=head, refuse=refuse, seed=seed, catch=catch)
    report = FitReport(
        photos=len(y_kept),
        sizes={c: int(s) for c, s in zip(classes, sizes, strict=True)},
        net=encoder.net,
        head=chosen.head.name,
        losses=chosen.losses,
        how=chosen.head.how,
        expected=chosen.expected,
        rate=classifier.rate,
        confusions=tuple(confusions(chosen.probabilities, y_kept, classes)[:10]),
        suspects=tuple(suspects(chosen.probabilities, y_kept, names, classes)),
        copies=tuple(copies(images, digests, y_kept, names, classes)),
        left_out=twins,
        unreadable=read.unreadable,
        strangers=strangers_caught(x, y_kept, classifier.rate) if classifier.rate else None,
        alone=alone,
        notes=encoder.notes,
    )
    return PhotoModel(classes, encoder, classifier, report)


def is_photo_model(path: Path) -> bool:
    try:
        return read_json(path / FACTS).get("kind") == "photos"
    except (OSError, ValueError, AttributeError):
        return False


def load(path: str | os.PathLike[str], compute: Compute | None = None, net: Any = None) -> PhotoModel:
    """The classifier in a model folder that `PhotoModel.save` or ``handful fit`` has written.

    ``net`` gives a network of your own again, whose class no folder holds.
    """
    from handful.nets.weights import read_state

    path = Path(path)
    if not (path / FACTS).is_file():
        raise BadInput(f"{path} is not a model folder: it has no {FACTS}; make one with: handful fit")
    if not is_photo_model(path):
        raise BadInput(f"{path} does not hold a classifier of photos; make one with: handful fit")
    state = read_state(path / MODEL)
    try:
        facts = read_json(path / FACTS)
        weights = {k.removeprefix("encoder."): v for k, v in state.items() if k.startswith("encoder.")}
        encoder = same_encoder(facts["encoder"], weights, compute, str(path), net)
        tensors = {k.removeprefix("head."): v.numpy() for k, v in state.items() if k.startswith("head.")}
        classes = tuple(facts["classes"])
        threshold = math.inf if facts["threshold"] is None else facts["threshold"]  # JSON has no infinity
        scales = (float(v) for v in (facts["temperature"], threshold, facts["rate"]))
        classifier = Classifier(str(facts["head"]), tensors, *scales)
        for key, shape in classifier.shapes(encoder.backbone.width, len(classes)).items():
            if tensors[key].shape != shape:
                raise ValueError(f"{key} has shape {tensors[key].shape}, not {shape}")
        report = from_dict(facts["report"])
        str(report)  # what cannot be told is not a report
        return PhotoModel(classes, encoder, classifier, report)
    except HandfulError:
        raise
    except (OSError, *WRONG) as error:
        raise BadInput(f"{path} is damaged ({error}); fit the model again") from error


def load_any(path: str | os.PathLike[str], compute: Compute | None = None, net: Any = None) -> Any:
    """A model folder, whichever kind it is: a learner (of ``handful train``) or a classifier of photos (of ``handful fit``).

    ``net`` gives again a network of your own: a module, or ``torch:file.py:Class``.
    """
    return load(path, compute, net) if is_photo_model(Path(path)) else load_learner(Path(path), compute, net)
