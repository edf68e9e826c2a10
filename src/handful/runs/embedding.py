"""A run's features: each image that its tasks need is embedded once, by any worker, or taken from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from handful.cache import trim
from handful.clock import add, measuring, timed
from handful.methods.embedded import EmbeddedLearner
from handful.nets.feature_cache import ROWS, FeatureCache
from handful.nets.features import block_of, embed_rows, release
from handful.progress import bar
from handful.runs.engine import Engine, Inline, make_engine

if TYPE_CHECKING:
    from handful.runs.scoring import ScoringJob

IN_MEMORY = 128 << 20


class EmbeddedRows:
    """Embedded images of a run: sorted image numbers, and one row of an array (in memory, or mapped from a file) for each."""

    def __init__(self, rows: np.ndarray, path: Path | None = None):
        self.rows, self.path = rows, path
        self.array: np.ndarray | None = None

    def of(self, rows: np.ndarray) -> torch.Tensor:
        if self.array is None:
            self.array = np.load(self.path, mmap_mode="r", allow_pickle=False)  # type: ignore[arg-type]
        return torch.from_numpy(np.asarray(self.array[np.searchsorted(self.rows, rows)]))

    def put(self, at: np.ndarray | slice, features: np.ndarray, scratch: Path | None, file: bool) -> None:
        """Fill some rows; the first call makes the array, on disk if workers must see it or it is large."""
        if self.array is None:
            shape = (len(self.rows), *features.shape[1:])
            if scratch is not None and (file or 4 * int(np.prod(shape)) > IN_MEMORY):
                self.path = scratch / "features.npy"
                self.array = np.lib.format.open_memmap(self.path, mode="w+", dtype=np.float32, shape=shape)
            else:
                self.array = np.empty(shape, dtype=np.float32)
        self.array[at] = features
        self.release()

    def release(self) -> None:
        release(self.array)

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "path": self.path, "array": None if self.path else self.array}


def needed_rows(job: ScoringJob, todo: list[int]) -> np.ndarray:
    """The images that some chunks' tasks name, in order; memory is bounded by the index, however many tasks there are."""
    needed = np.zeros(len(job.rule.part.collection), dtype=bool)
    for chunk in todo:
        for episode in job.episodes(chunk):
            needed[episode.support] = True
            needed[episode.query] = True
    return np.flatnonzero(needed)


def embed_needed(
    job: ScoringJob, todo: list[int], by: int | Engine, scratch: Path | None, cache: bool = False
) -> EmbeddedRows | None:
    """Features of every image that the missing chunks need; ``by`` is an engine, or a number of processes."""
    where = make_engine(workers=by) if isinstance(by, int) else by
    rows = needed_rows(job, todo)
    if not len(rows):
        return None
    learner: EmbeddedLearner = job.learner  # type: ignore[assignment]
    features, on_disk = EmbeddedRows(rows), not where.here
    kept = None
    missing = np.ones(len(rows), dtype=bool)
    if cache:
        with timed("read"):
            kept = FeatureCache.of(learner.backbone, job.rule.part.collection, learner.compute, learner.method.maps)
            for at, known in kept.read(rows) if kept else ():
                features.put(at, known, scratch, on_disk)
                missing[at] = False
    places = np.flatnonzero(missing)
    step = block_of(learner.compute)
    blocks = [(s, rows[places[s : s + step]]) for s in range(0, len(places), step)]
    fresh = _Fresh(kept)
    try:
        here = Inline() if where.here or len(blocks) < 2 else where  # embedding uses every core of this process itself
        with bar("embedding images", len(places)) as advance:
            for start, found, seconds in here.map(embed_block, job, blocks):
                if not here.here:
                    add(seconds)
                at = places[start : start + len(found)]
                features.put(at, found, scratch, on_disk)
                fresh.add(rows[at], found)
                advance(len(found))
    finally:
        fresh.flush()
    if isinstance(features.array, np.memmap):
        features.array.flush()
    return features


class _Fresh:
    """Newly embedded rows on their way into the cache, a segment at a time; a killed run keeps the segments it finished."""

    def __init__(self, cache: FeatureCache | None):
        self.cache = cache
        self.rows: list[np.ndarray] = []
        self.features: list[np.ndarray] = []
        self.wrote = False

    def add(self, rows: np.ndarray, features: np.ndarray) -> None:
        if self.cache is None:
            return
        self.rows.append(rows)
        self.features.append(features)
        if sum(map(len, self.rows)) >= ROWS:
            self._write()

    def _write(self) -> None:
        if self.cache is not None and self.rows:
            with timed("keep"):
                self.cache.write(np.concatenate(self.rows), np.concatenate(self.features))
            self.rows, self.features, self.wrote = [], [], True

    def flush(self) -> None:
        self._write()
        if self.cache is not None and self.wrote:
            trim(keep=self.cache.path)


def embed_block(job: ScoringJob, item: tuple[int, np.ndarray]) -> tuple[int, np.ndarray, dict[str, float]]:
    learner: EmbeddedLearner = job.learner  # type: ignore[assignment]
    with measuring() as clock, learner.compute.here():
        found = embed_rows(learner.backbone, job.rule.part.collection, item[1], learner.compute, learner.method.maps)
    return item[0], found, dict(clock.seconds)
