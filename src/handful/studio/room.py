"""One open folder: its photos, its labels, and what is learned from them, for any number of tabs at once."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import BadInput
from handful.photos.answers import NONE
from handful.photos.model import PhotoModel
from handful.studio import carry
from handful.studio.album import READY, Album, Photo
from handful.studio.labels import Labels
from handful.studio.learning import Learned, Shown, learned
from handful.studio.next import NAMES, order_of

PAUSE = 0.3


class Room:
    """The studio's state.

    One number, `version`, grows with every change; each photo remembers the version of its last one, so that a tab that
    says what it has seen is told the rest. `epoch` tells a restarted studio from the one before.
    """

    def __init__(self, folder: Path, net: Any = "auto", seed: int = 0):
        self.folder, self.seed, self.epoch = folder, seed, secrets.token_hex(8)
        self.lock, self.version, self.ending = threading.RLock(), 1, False
        self.due = threading.Event()
        self.learned, self.learned_version = Learned("label two photos of each of two things"), 0
        self.notes: list[str] = []
        self.labels = Labels(folder)
        self.album = Album(folder, net, self._touched)
        if self.labels.fresh:
            self._from_folders()
        if gone := [n for n in self.labels.now if n not in self.album.by_name]:
            self.notes.append(
                f"{len(gone)} labelled photos are not in the folder now, {gone[0]} for one; labels are kept"
            )
        self.thread = threading.Thread(target=self._learn, name="learning", daemon=True)

    def _from_folders(self) -> None:
        """Class folders become labels, as long as there are no others."""
        if not self.labels.now:
            found, why = self.album.folder_labels()
            self.notes[:] = [why] if why else []
            self._named(self.labels.set(found, do="folders"))

    def start(self) -> None:
        self.album.start()
        self.thread.start()
        self.due.set()

    def close(self) -> None:
        self.ending = True
        self.due.set()
        self.album.close()
        if self.thread.ident is not None:
            self.thread.join(30)
        self.labels.close()

    def _touched(self, photos: Iterable[Photo]) -> None:
        with self.lock:
            self.version += 1
            for photo in photos:
                photo.changed = self.version
        self.due.set()

    def _named(self, names: Iterable[str]) -> None:
        self._touched([self.album.by_name[n] for n in names if n in self.album.by_name])

    def photo(self, number: int) -> Photo:
        """A photo by its number, or a sentence."""
        photos = self.album.photos
        if not 0 <= number < len(photos):
            raise BadInput(f"there is no photo number {number}; reload the page")
        return photos[number]

    def label(self, labels: Mapping[int, str | None]) -> int:
        """Label photos by number; how many changed."""
        names = {self.photo(n).name: label for n, label in labels.items()}
        changed = self.labels.set(names)
        self._named(changed)
        return len(changed)

    def undo(self) -> int:
        changed = self.labels.undo()
        self._named(changed)
        return len(changed)

    def add_class(self, name: str) -> None:
        self.labels.add_class(name)
        self._touched([])

    def changes(self, since: int, epoch: str) -> dict[str, Any]:
        """What a tab has not seen yet; all of it if it comes from before a restart."""
        with self.lock:
            since = since if epoch == self.epoch else 0
            now = self.labels.now
            rows = [
                [p.number, p.name, now.get(p.name), p.state, p.reason, p.twin, p.stamp[:8]]
                for p in self.album.photos
                if p.changed > since
            ]
            return {
                "epoch": self.epoch,
                "version": self.version,
                "photos": rows,
                "classes": [c for c in self.labels.classes if c != NONE],
                "progress": self.album.progress,
                "undoable": self.labels.undoable,
                "learned": self.learned_version,
                "notes": self.notes,
                "folder": self.folder.resolve().name,
            }

    def shown(self) -> Shown:
        """The photos that are embedded, each picture once, with their labels."""
        with self.lock, self.album.lock:
            ready = [p for p in self.album.photos if p.state == READY]
            numbers = np.array([p.number for p in ready], dtype=np.int64)
            x = np.stack([self.album.x[p.number] for p in ready]) if ready else np.zeros((0, 0), dtype=np.float32)
            now = self.labels.now
            return Shown(
                numbers,
                x,
                {p.number: now[p.name] for p in ready if p.name in now},
                {p.number: p.name for p in ready},
                {p.number: p.pixels for p in ready},
                dict(self.album.tiny),
            )

    def _learn(self) -> None:
        """Learn again when labels or photos have changed; changes that come together are learned together."""
        while not self.ending:
            self.due.wait()
            self.due.clear()
            if self.ending:
                return
            shown = self.shown()
            try:
                result = learned(shown, self.seed)
            except Exception as error:  # the page must go on; the sentence is shown where the suggestions would be
                result = Learned(f"learning stopped ({type(error).__name__}: {error}); please report it")
            with self.lock:
                self.learned = result
                self.learned_version += 1
            threading.Event().wait(PAUSE)

    def findings(self) -> dict[str, Any]:
        """What is learned, for the page."""
        with self.lock:
            return {"learned": self.learned_version, "advice": self.learned.advice, **self.learned.facts}

    def next(self, strategy: str, count: int) -> dict[str, Any]:
        """The photos to label next, by a strategy of `studio.next`."""
        if strategy not in NAMES:
            raise BadInput(f"no strategy {strategy!r}; known: {', '.join(NAMES)}")
        shown = self.shown()
        numbers, used = order_of(strategy, shown, self.learned, min(count, 200), self.seed)
        return {"photos": numbers, "strategy": used}

    def why(self, number: int) -> dict[str, Any]:
        """What the classifier says of a photo, and the labelled photos nearest to it."""
        photo, state = self.photo(number), self.learned
        x = self.album.x.get(photo.number)
        if x is None or state.classifier is None:
            return {"photo": number, "answers": [], "near": state.why(x) if x is not None else []}
        p, refused = state.classifier.answer(x[None].astype(np.float64))
        order = np.argsort(-p[0], kind="stable")[:5]
        answers = [[state.classes[k], float(p[0, k])] for k in order]
        near = [pair for pair in state.why(x) if pair[0] != number]
        return {"photo": number, "answers": answers, "refused": bool(refused[0]), "near": near}

    def heat(self, number: int) -> bytes:
        """What a photo's answer rests on, as a PNG to lay over it."""
        photo, encoder, state = self.photo(number), self.album.encoder, self.learned
        if encoder is None or state.classifier is None:
            raise BadInput("there is no classifier yet; label two photos of each of two things first")
        return carry.heat(encoder, state.classifier, self.album.read(photo), photo.name)

    def model(self) -> PhotoModel:
        """The classifier of this moment."""
        return carry.model_of(self.album.encoder, self.shown(), self.learned)

    def model_zip(self) -> bytes:
        return carry.model_zip(self.model())

    def answers_csv(self) -> bytes:
        return carry.answers_csv(self.shown(), self.learned)

    def scan(self, last: bool = True) -> int:
        """Look for new files; how many there are. ``last`` says that no more of them are on their way."""
        new = self.album.scan()
        if last and not self.labels.undoable:
            self._from_folders()
        return len(new)

    def where(self) -> dict[str, Any]:
        """A place on the plane for every embedded photo: the two directions in which they differ most (PCA)."""
        shown = self.shown()
        if len(shown.numbers) < 3:
            return {"numbers": shown.numbers.tolist(), "xy": [[0.5, 0.5]] * len(shown.numbers)}
        x = shown.x - shown.x.mean(0)
        some = x[:: max(1, len(x) // 2000)]
        axes = np.linalg.svd(some, full_matrices=False)[2][:2]
        axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
        at = x @ axes.T
        at = (at - at.min(0)) / np.maximum(np.ptp(at, axis=0), 1e-9)
        return {"numbers": shown.numbers.tolist(), "xy": np.round(at, 4).tolist()}
