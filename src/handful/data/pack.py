"""Packing raw images into a collection: list, decode on all cores into a mapped array, seal, rename."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from handful import registry
from handful.cache import cache_folder
from handful.data.collection import Card, Collection, open_packed
from handful.data.decoding import DecodePlan, decode_all, jobs_of
from handful.data.importers import Importer, Listing, guess
from handful.data.sources import Source, open_source
from handful.data.splits import ByFraction, SplitRule
from handful.data.store import note_skipped, seal
from handful.errors import BadInput
from handful.files import fresh_folder
from handful.progress import bar

FULL = (errno.ENOSPC, errno.EDQUOT)
SIZES = (1, 4096)


@dataclass(frozen=True)
class Packed:
    """A packed collection and what there was to say on the way."""

    collection: Collection
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    seconds: float


def pack(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    importer: str | Importer = "auto",
    *,
    size: int | None = None,
    grey: bool | None = None,
    name: str | None = None,
    version: str = "1",
    licence: str | None = None,
    citation: str | None = None,
    split: SplitRule | None = None,
    skip_bad: bool = False,
    workers: int | None = None,
    force: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Packed:
    """Pack a folder or zip of images into the folder ``target``.

    Parameters
    ----------
    importer
        A registered name, an importer object, or ``auto`` to go by the layout.
    size, grey
        Side in pixels and one channel instead of three; the importer's own by default.
    licence, citation
        What the card says; by default what the source says, if it does.
    split
        A rule of `handful.data.splits` whose scheme is put first; the source's own schemes follow.
    skip_bad
        Leave unreadable files out (and say which) instead of refusing.
    workers
        Decoding processes; all cores by default.
    options
        The importer's options when it is given by name.

    Nothing appears under ``target`` unless all went well: an error, a full disk or Ctrl-C leave no trace.
    """
    start, goal = time.monotonic(), Path(target)
    place: Source | None = None
    if importer != "auto":
        ready = make_importer(importer, None, options or {})
        if getattr(type(ready), "pack", Importer.pack) is not Importer.pack:
            if (
                size is not None
                or grey is not None
                or split is not None
                or licence is not None
                or citation is not None
                or version != "1"
                or force
            ):
                raise BadInput(
                    f"{ready.name} are packed as they are: leave size, colour, version, licence, citation, force and splits out; "
                    "class lists are options (-s train=train.txt), other splits are added by handful data split"
                )
            made = ready.pack(Path(source), goal, name)
            assert made is not None
            return Packed(made, (), (), time.monotonic() - start)
        place = ready.open(Path(source)) if isinstance(ready, Importer) else None
    place = place or open_source(source)
    reader = make_importer(importer, place, options or {})
    side = reader.size if size is None else size
    if not SIZES[0] <= side <= SIZES[1]:
        raise BadInput(f"size must be {SIZES[0]} to {SIZES[1]} pixels, not {side}")
    _refuse_overwriting(place.path, goal, force)
    listing = reader.read(place)
    if not listing.items:
        raise BadInput(f"{place.path} holds nothing that {reader.name} can pack; check the folder and --as")
    shape = (side, side, 1 if (reader.grey if grey is None else grey) else 3)
    bytes_needed = len(listing.items) * int(np.prod(shape))
    try:
        with fresh_folder(goal, force) as folder:
            skipped, kept = _fill(folder / "images.npy", place, listing, shape, skip_bad, workers)
            table = label_table(listing, kept)
            title = name or Path(source).resolve().stem
            card = Card(
                title,
                "images",
                shape,
                listing.labels,
                version,
                licence or listing.licence,
                listing.schemes,
                context=listing.context,
                source=f"{reader.name}:{Path(source).resolve().name}",
                citation=listing.citation if citation is None else citation,
            )
            if split is not None:
                card, table = split.apply(card, table)
            note_skipped(folder, (*skipped, *place.unread))
            seal(folder, card, table)
    except OSError as error:
        raise _refusal(error, goal, bytes_needed) from error
    return Packed(open_packed(goal), skipped, _notes(place, listing, skipped), time.monotonic() - start)


def _refuse_overwriting(source: Path, target: Path, force: bool) -> None:
    """``force`` may replace a packed collection, never a folder of something else, least of all the source."""
    inner, outer = source.resolve(), target.resolve()
    if inner == outer or outer in inner.parents:
        raise BadInput(f"{target} holds the source {source}; name another folder for the packed collection")
    other = target.is_file() or (target.is_dir() and not (target / "card.json").is_file() and any(target.iterdir()))
    if force and other:
        raise BadInput(f"{target} is not a packed collection and is not replaced; name another folder")


def make_importer(importer: str | Importer, source: Source | None, options: Mapping[str, Any]) -> Importer:
    """The importer by name with its options; unknown options are refused with the known ones."""
    if not isinstance(importer, str):
        return importer
    return registry.make("importers", guess(source) if importer == "auto" and source else importer, options)


def _fill(
    path: Path, source: Source, listing: Listing, shape: tuple[int, int, int], skip_bad: bool, workers: int | None
) -> tuple[tuple[tuple[str, str], ...], np.ndarray]:
    """Decode everything into ``path``; the files left out, and the numbers of the rows kept."""
    items = listing.items
    new_array(path, (len(items), *shape))
    jobs = jobs_of([i.file for i in items], [i.turn for i in items])
    plan = DecodePlan(str(source.path), str(path), shape[0], shape[2] == 1, listing.invert)
    bad: list[tuple[str, str]] = []
    with bar(f"packing {source.path.name}", len(jobs)) as advance:
        for done in decode_all(plan, jobs, workers):
            bad += done.bad
            advance(done.files)
    bad.sort()
    if not bad:
        return (), np.arange(len(items))
    if not skip_bad:
        raise BadInput(f"{bad_files(source, bad)}; repair or remove them, or leave them out with --skip-bad")
    lost = {file for file, _ in bad}
    kept = np.asarray([i for i, item in enumerate(items) if item.file not in lost], dtype=np.int64)
    if not len(kept):
        raise BadInput(f"none of the {len(jobs)} files of {source.path} is a readable image; {bad_files(source, bad)}")
    _keep_rows(path, kept)
    return tuple(bad), kept


def bad_files(source: Source, bad: list[tuple[str, str]], first: int = 3) -> str:
    """A sentence that names the first few unusable files."""
    named = "; ".join(f"{file} {reason}" for file, reason in bad[:first])
    more = f"; and {len(bad) - first} more" if len(bad) > first else ""
    return f"{source.path}: {len(bad)} unreadable file{'s' * (len(bad) > 1)}: {named}{more}"


def new_array(path: Path, shape: tuple[int, ...]) -> None:
    """A .npy file of ``shape`` whose space is reserved: a full disk shows here, not as a crash in a mapped write."""
    with open(path, "wb") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.flush()
        size = stream.tell() + int(np.prod(shape))
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, size)
        else:
            stream.truncate(size)


def _keep_rows(path: Path, rows: np.ndarray, block: int = 1024) -> None:
    old = np.load(path, mmap_mode="r", allow_pickle=False)
    fewer = path.with_name("kept.npy")
    new_array(fewer, (len(rows), *old.shape[1:]))
    new = np.load(fewer, mmap_mode="r+", allow_pickle=False)
    for start in range(0, len(rows), block):
        new[start : start + block] = old[rows[start : start + block]]
    new.flush()
    del old, new
    os.replace(fewer, path)


def label_table(listing: Listing, kept: np.ndarray) -> pl.DataFrame:
    """The table of the given rows: label columns, split schemes, and the file each came from."""
    items = [listing.items[i] for i in kept]
    names = list(dict.fromkeys(c for item in items for c in item.columns))
    columns: dict[str, list[str | None]] = {n: [i.columns.get(n) for i in items] for n in names}
    for scheme in listing.schemes:
        columns[scheme] = [i.splits.get(scheme, "") for i in items]
    columns["file" if "file" not in columns else "source_file"] = [i.file for i in items]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def _notes(source: Source, listing: Listing, skipped: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    notes = list(listing.notes)
    if source.ignored:
        notes.append(f"ignored beside the images: {', '.join(source.ignored)}")
    if unread := list(source.unread):
        notes.append(f"left out: {bad_files(source, unread)}")
    if skipped:
        notes.append(f"left out: {bad_files(source, list(skipped))}")
    return tuple(notes)


def _refusal(error: OSError, target: Path, needed: int) -> BadInput:
    if error.errno in FULL:
        return BadInput(
            f"the disk that holds {target} is full ({-(-needed // 1_000_000)} MB are needed); free some space or pack "
            "elsewhere; nothing was written"
        )
    return BadInput(f"{target} cannot be written ({error.strerror or error}); nothing was written")


def pack_into_cache(path: str | os.PathLike[str], skip_bad: bool = False) -> Collection:
    """A raw folder or zip as a collection, packed once into the cache and again when a file changes.

    The layout and size are guessed (`handful.data.importers.guess`); classes without splits are split 64 : 16 : 20 with
    seed 0. Pack by hand for anything else. What was packed with ``skip_bad`` is kept apart: others do not ask for it.
    """
    place = open_source(path)
    reader = make_importer("auto", place, {})
    key = f"{reader.name}-{reader.size}-{place.fingerprint()[:24]}{'-readable' * skip_bad}"
    target = cache_folder() / "collections" / key
    if (target / "card.json").is_file():
        return open_packed(target)
    listing = reader.read(place)
    classes = {tuple(i.columns.get(c) for c in listing.labels) for i in listing.items}
    split = ByFraction(scheme="fraction") if not listing.schemes and len(classes) >= 3 else None
    return pack(place.path, target, reader, split=split, skip_bad=skip_bad, force=True).collection
