"""Where a challenge's data come from: collections of data sets, as training folders and as hidden tasks."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from handful.challenge.hidden import check_all, rules_of
from handful.challenge.spec import Challenge
from handful.data.collection import Collection, Part
from handful.errors import BadInput, Infeasible
from handful.tasks.rule import Rule


def open_data(where: Path, size: int, state: Path) -> Collection:
    """The collection in a folder: packed already, or data sets in Meta-Album's layout, packed once into ``state``."""
    from handful.data.opening import open_collection
    from handful.data.pack import pack
    from handful.data.sources import open_source

    if (where / "card.json").is_file():
        collection = open_collection(str(where))
    else:
        if not where.exists():
            raise BadInput(f"there are no data in {where}; put the phase's data sets there")
        mark = hashlib.sha256(f"{open_source(where).fingerprint()}/{size}".encode()).hexdigest()[:16]
        target = state / "packed" / mark
        if not (target / "card.json").is_file():
            pack(where, target, "meta-album", size=size, name=where.name)
        collection = open_collection(str(target))
    if collection.card.kind != "images" or collection.card.shape != (size, size, 3):
        raise BadInput(
            f"{where} holds {collection.card.kind} of {collection.card.shape}; this challenge needs RGB of {size}"
        )
    return collection


def write_training(
    datasets: Mapping[str, tuple[np.ndarray, np.ndarray]], folder: Path, valid: frozenset[str] = frozenset()
) -> Path:
    """Write training data (name -> uint8 images (n, h, w, c), labels from 0) where the sandbox can mount them.

    Data sets named in ``valid`` are for validation only; without them a submission's config.json may hold some out.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    entries = []
    for i, (name, (images, labels)) in enumerate(sorted(datasets.items())):
        np.save(partial / f"{i}-images.npy", np.ascontiguousarray(images, dtype=np.uint8), allow_pickle=False)
        np.save(partial / f"{i}-labels.npy", np.asarray(labels, dtype=np.int64), allow_pickle=False)
        entry = {"name": name, "images": f"{i}-images.npy", "labels": f"{i}-labels.npy", "valid": name in valid}
        entries.append(entry)
    (partial / "index.json").write_text(json.dumps({"datasets": entries}), encoding="utf-8")
    for path in [partial, *partial.iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    partial.rename(folder)
    return folder


@dataclass(frozen=True)
class MetaTraining:
    """One meta-training and the tasks that test it: all data sets together, or one at a time."""

    name: str
    train: Path
    rules: dict[str, Rule]


def _as_sets(part: Part) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    of_class, names = part.datasets
    sets = {}
    for number, name in enumerate(names):
        rows = np.flatnonzero(of_class[part.classes] == number)
        _, labels = np.unique(part.classes[rows], return_inverse=True)
        sets[name] = (part.collection.read(part.rows[rows]), labels)
    return sets


def _training(part: Part, state: Path, valid: Part | None = None, shown: str = "") -> Path:
    """Training data as a folder; ``shown`` is what a submission sees instead of the name of a single hidden data set."""
    text = part.id + (valid.id if valid is not None else "") + shown
    folder = state / "training" / hashlib.sha256(text.encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    sets = {shown or name: values for name, values in _as_sets(part).items() if len(values[1])}
    held = {}
    if valid is not None:
        held = {f"{shown or name} (validation)": values for name, values in _as_sets(valid).items() if len(values[1])}
    return write_training({**sets, **held}, folder, frozenset(held))


def split_classes(part: Part, train: float, valid: float, seed: int) -> dict[str, np.ndarray]:
    """Rows of a part by class: fractions of each data set's classes for training and validation, the rest for testing."""
    of_class, names = part.datasets
    where = np.full(part.n_classes, 2)
    for number in range(len(names)):
        classes = np.flatnonzero(of_class == number)
        order = np.random.default_rng([seed, number]).permutation(classes)
        first, second = round(train * len(order)), round((train + valid) * len(order))
        where[order[:first]], where[order[first:second]] = 0, 1
    return {name: where[part.classes] == i for i, name in enumerate(("train", "valid", "test"))}


@dataclass(frozen=True)
class Data:
    """The data of a challenge: ``root`` holds challenge.toml, ``state`` what is made from the data."""

    challenge: Challenge
    root: Path
    state: Path

    def where(self, phase: str) -> Path:
        """The folder of a phase's data."""
        return (self.root / self.challenge.phase(phase).data).resolve()

    def collection(self, phase: str, now: str) -> Collection:
        """Open a phase's data, unless that phase has not begun."""
        order = list(self.challenge.phases)
        if order.index(phase) > order.index(now):
            raise BadInput(f"the {phase} data are not read in the {now} phase")
        return open_data(self.where(phase), self.challenge.image_size, self.state)

    def rules(self, hidden: Part) -> dict[str, Rule]:
        """The challenge's rule on each data set of a part, seen to be able to draw tasks that code can be asked."""
        # Here, so that the service, which shows the public data, need not load torch.
        from handful.challenge.learner import SubmittedCode
        from handful.methods.contract import agree

        rules = rules_of(hidden, self.challenge.tasks.rule, **self.challenge.tasks.options)
        check_all(rules)
        agree(SubmittedCode(), next(iter(rules.values())))
        return rules

    def stages(self, phase: str, now: str, seed: int) -> list[MetaTraining]:
        """What a submission is trained and tested on in ``phase``."""
        protocol = self.challenge.protocol
        hidden = self.collection(phase, now).whole
        if protocol.kind == "cross-domain":
            train = self.collection(self.challenge.public, now).whole
            return [MetaTraining("all", _training(train, self.state), self.rules(hidden))]
        stages = []
        of_class, names = hidden.datasets
        for number, name in enumerate(names):
            one = hidden.where(of_class[hidden.classes] == number, name)
            masks = split_classes(one, protocol.train, protocol.valid, seed)
            parts = {key: one.where(mask, key) for key, mask in masks.items() if mask.any()}
            if "test" not in parts or "train" not in parts:
                raise Infeasible(f"data set {name!r} has too few classes to be split for training and testing")
            rules = self.rules(parts["test"])
            folder = _training(parts["train"], self.state, parts.get("valid"), f"dataset_{number + 1}")
            stages.append(MetaTraining(name, folder, rules))
        return stages
