"""Features that are kept: content-addressed, so that a second run over the same images and backbone embeds nothing.

One folder an address (collection, weights, preprocessing, precision), in it immutable segments of rows. A segment appears whole
under its own name (temporary file, then rename), so that writers need not know of one another and a killed one leaves nothing
that a reader could take for a segment. A damaged segment is thrown away and its rows are embedded again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from handful._version import __version__
from handful.cache import cache_folder, keeps
from handful.data.collection import Collection
from handful.errors import BadInput
from handful.files import WRONG, parse_json, write_atomically
from handful.nets.compute import Compute

ROWS = 4096
MAGIC = b"handful1"


def root() -> Path:
    return cache_folder() / "features"


def fingerprint(net: nn.Module) -> str:
    """Hash of all that a network computes with: its code, its options, its parameters and buffers to the bit."""
    digest = hashlib.sha256()
    for name, module in net.named_modules():
        plain = {k: v for k, v in sorted(vars(module).items()) if _plain(v) and k != "training"}
        digest.update(f"{name} {type(module).__module__}.{type(module).__qualname__} {plain}\n".encode())
        if not type(module).__module__.startswith("torch."):
            digest.update(_source(type(module)).encode())
    for key in ("mean", "std", "size", "shape"):
        digest.update(f"{key}={getattr(net, key, None)}\n".encode())
    for name, tensor in sorted(net.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_plain(v) for v in value)
    return isinstance(value, (bool, int, float, str, type(None)))


def _source(cls: type) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return ""


def address(net: nn.Module, collection: Collection, compute: Compute, maps: bool) -> dict[str, Any] | None:
    """What features depend on; None where they must not be kept.

    Kept are features of a network with weights of its own, which stands still (no hooks), over a collection that can be opened
    again by what identifies it; an array in memory has no hash that was checked.
    """
    try:
        place = collection.spec
    except BadInput:
        return None
    if collection.path is not None and type(collection).read is not Collection.read:
        return None
    if not getattr(net, "kept", True):
        return None
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    if hooked or net.training or not net.state_dict():
        return None
    return {
        "collection": collection.id,
        "hash": collection.card.hash,
        "images": len(collection),
        "place": str(Path(place).resolve()) if collection.path is not None else place,
        "net": type(net).__name__,
        "weights": fingerprint(net),
        "maps": maps,
        "precision": compute.precision,
        "device": torch.device(compute.device).type,
        "batch": compute.batch,
        "threads": compute.threads,
        "torch": torch.__version__,
        "version": __version__,
    }


class FeatureCache:
    """The kept features at one address."""

    def __init__(self, facts: dict[str, Any], folder: Path | None = None):
        known = {k: v for k, v in facts.items() if k != "place"}
        key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]
        self.facts, self.path = facts, (folder or root()) / key

    @classmethod
    def of(cls, net: nn.Module, collection: Collection, compute: Compute, maps: bool = False) -> FeatureCache | None:
        """The cache of a frozen network over a collection, or None if its features must not be kept."""
        facts = address(net, collection, compute, maps) if keeps() else None
        return None if facts is None else cls(facts)

    def read(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pieces ``(positions in rows, features)`` of what is known, each position at most once."""
        left = np.ones(len(rows), dtype=bool)
        for path in sorted(self.path.glob("*.rows")) if self.path.is_dir() else ():
            if not left.any():
                break
            found = read_segment(path)
            if found is None:
                path.unlink(missing_ok=True)
                continue
            has, features = found
            place = np.minimum(np.searchsorted(has, rows), len(has) - 1)
            hit = np.flatnonzero(left & (has[place] == rows))
            if len(hit):
                left[hit] = False
                yield hit, features[place[hit]]
        if self.path.is_dir():
            try:
                os.utime(self.path)
            except OSError:
                pass  # another user's cache is read all the same

    def write(self, rows: np.ndarray, features: np.ndarray) -> None:
        """Keep some rows as one more segment; a full or locked disk costs the cache, never the run."""
        if not len(rows):
            return
        order = np.argsort(rows, kind="stable")
        try:
            if not (self.path / "about.json").is_file():
                text = json.dumps(self.facts, indent=1) + "\n"
                write_atomically(self.path / "about.json", lambda t: t.write_text(text, encoding="utf-8"))
            target = self.path / f"{uuid.uuid4().hex}.rows"
            write_atomically(target, lambda t: write_segment(t, rows[order], features[order]))
        except OSError:
            pass


def write_segment(path: Path, rows: np.ndarray, features: np.ndarray) -> None:
    """Magic word, length of the header, header (JSON), sorted row numbers, features."""
    numbers = np.ascontiguousarray(rows, dtype="<i8").tobytes()
    values = np.ascontiguousarray(features, dtype="<f4").tobytes()
    header = {"shape": features.shape, "crc": zlib.crc32(values, zlib.crc32(numbers))}
    text = json.dumps(header).encode().ljust(240)
    with open(path, "wb") as stream:
        stream.write(MAGIC + len(text).to_bytes(8, "little") + text)
        stream.write(numbers)
        stream.write(values)


def read_segment(path: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Row numbers and features of a segment; None if the file is not whole."""
    try:
        data = path.read_bytes()
        size = int.from_bytes(data[8:16], "little")
        if data[:8] != MAGIC:
            return None
        header = parse_json(data[16 : 16 + size])
        shape = tuple(header["shape"])
        rows = np.frombuffer(data, "<i8", shape[0], 16 + size)
        start = 16 + size + rows.nbytes
        features = np.frombuffer(data, "<f4", -1, start).reshape(shape)
        if not shape[0] or zlib.crc32(memoryview(data)[16 + size :]) != header["crc"]:
            return None
        return rows, features
    except (OSError, *WRONG):
        return None
