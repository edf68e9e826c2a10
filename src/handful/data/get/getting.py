"""Getting a data set: its archives from the mirrors or from the user's disk, verified, made ready, packed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from handful.cache import datasets_folder
from handful.data.collection import Collection, open_packed
from handful.data.get.download import download, judge, take
from handful.data.get.lock import locked
from handful.data.get.manifest import Archive, DataSet, read_manifest
from handful.data.get.prepare import Prepared, prepare
from handful.data.get.record import Fetched, Record, read_record
from handful.data.get.web import Patience
from handful.data.pack import pack as pack_images
from handful.data.splits import ByFraction
from handful.errors import BadInput, Mismatch, Missing


@dataclass(frozen=True)
class Got:
    """A data set that was got: its folder, what is in it, and what there was to say."""

    entry: DataSet
    folder: Path
    record: Record
    source: Path
    collection: Collection | None
    notes: tuple[str, ...]


def get(
    name: str,
    to: str | os.PathLike[str] | None = None,
    *,
    source: Iterable[str | os.PathLike[str]] = (),
    size: str | None = None,
    verify: bool = True,
    pack: bool = True,
    manifest: str | os.PathLike[str] | None = None,
    patience: Patience | None = None,
    workers: int | None = None,
) -> Got:
    """Get a data set of the manifest and pack it.

    Parameters
    ----------
    name, size
        An entry of the manifest; Meta-Album's data sets come as ``mini`` (default), ``micro`` and ``extended``.
    to
        The folder for ``archives/``, the record ``got.json`` and ``packed/``; in the cache by default, where
        `handful.open` finds it by name.
    source
        Archives that the user has (files, or folders that hold them). With them, nothing is asked of the network.
    verify
        Refuse bytes that are not the published ones, or not the ones that came first where nothing is published.
    pack
        Pack the images; otherwise leave them for ``handful data pack``.
    manifest
        A TOML file of the same form as the library's, with further data sets or nearer mirrors.

    What was fetched is kept if a connection or this process ends: the same call goes on from there.
    """
    entry = read_manifest(None if manifest is None else Path(manifest)).find(name, size)
    folder = Path(to) if to is not None else folder_of(entry)
    with locked(folder):
        before = read_record(folder)
        if before is not None and (before.name, before.size) != (entry.name, entry.size):
            raise BadInput(f"{folder} holds {before.name} ({before.size or 'one size'}); name another folder with --to")
        given = match(entry, [Path(s) for s in source])
        record = before or Record(entry.name, entry.size, entry.layout)
        record, notes, fresh = _archives(entry, folder, record, given, bool(given), verify, patience or Patience())
        archives = [folder / "archives" / a.file for a in record.archives]
        packed = folder / "packed"
        if pack and not fresh and (whole := _whole(packed)) is not None:
            return Got(entry, folder, record, packed, whole, tuple(notes))
        prepared = prepare(entry.layout, folder, archives)
        collection = None
        if pack and prepared.importer:
            collection, said = _pack(entry, prepared, packed, workers)
            notes += said
            shutil.rmtree(folder / "raw", ignore_errors=True)
        return Got(entry, folder, record, prepared.source if collection is None else packed, collection, tuple(notes))


def _whole(packed: Path) -> Collection | None:
    """The collection that is there already, None if there is none or its bytes are not what they were."""
    try:
        return open_packed(packed) if (packed / "card.json").is_file() else None
    except BadInput:
        return None


def folder_of(entry: DataSet) -> Path:
    return datasets_folder() / (f"{entry.name}-{entry.size}" if entry.size else entry.name)


def match(entry: DataSet, sources: list[Path]) -> dict[str, Path]:
    """Which of the user's files is which archive: by name, by length, or because there is only one."""
    found: dict[str, Path] = {}
    for path in sources:
        if path.is_dir():
            for archive in entry.archives:
                for place in (path / archive.file, path / PurePosixPath(archive.file).name):
                    if place.is_file():
                        found.setdefault(archive.file, place)
            continue
        if not path.is_file():
            raise BadInput(f"{path} does not exist; give the archive with --from")
        known = [a for a in entry.archives if PurePosixPath(a.file).name.lower() == path.name.lower()]
        known = known or [a for a in entry.archives if a.size == path.stat().st_size]
        needed = [a for a in entry.archives if not a.optional]
        if not known and entry.any:
            needed = [a for a in needed if (path.suffix.lower() == ".zip") == a.file.endswith(".zip")]
        if not known and len(needed) == 1:
            known = needed
        if not known:
            names = ", ".join(a.file for a in entry.archives)
            raise BadInput(f"{path.name} is none of the archives of {entry.name} ({names}); rename it if it is one")
        found[known[0].file] = path
    if sources:
        lacking = [a.file for a in entry.archives if not a.optional and a.file not in found]
        if lacking and not (entry.any and found):
            raise Missing(f"{entry.name} also needs {', '.join(lacking)}; give it with a further --from")
    return found


def _archives(
    entry: DataSet,
    folder: Path,
    record: Record,
    given: dict[str, Path],
    offline: bool,
    verify: bool,
    patience: Patience,
) -> tuple[Record, list[str], bool]:
    """Have every archive in its place; the record, what to say, and whether anything is new."""
    notes: list[str] = []
    new, reasons = False, []
    for archive in entry.archives:
        if offline and archive.file not in given and (archive.optional or entry.any):
            continue
        target, known = folder / "archives" / archive.file, record.of(archive.file)
        try:
            kept = None if archive.file in given else _kept(archive, target, known, verify)
            if kept is not None:
                done = kept
            elif archive.file in given:
                done = take(archive, given[archive.file], target, verify=verify)
            else:
                done = download(archive, target, patience, before=known, verify=verify)
        except Missing as error:
            if archive.optional:
                notes.append(f"{error}; the data set is usable without it")
                continue
            reasons.append(str(error))
            if entry.any:
                continue
            raise Missing(_go_on(entry, reasons)) from error
        if known is None or known.sha256 != done.sha256:
            new = True
        if done.checked == "first-use" and known is None:
            notes.append(
                f"{done.file}: no checksum is published; sha256 {done.sha256[:12]}... is remembered as it came"
            )
        others = tuple(a for a in record.archives if a.file != archive.file)
        record = replace(record, archives=(*others, done))
        record.save(folder)
        if entry.any:
            # The one that came is the data set; what an earlier try left of another is not.
            record = replace(record, archives=(done,))
            record.save(folder)
            return record, notes, new
    if entry.any:
        raise Missing(_go_on(entry, reasons))
    order = {a.file: i for i, a in enumerate(entry.archives)}
    known_files = [a for a in record.archives if a.file in order]
    return replace(record, archives=tuple(sorted(known_files, key=lambda a: order[a.file]))), notes, new


def _kept(archive: Archive, target: Path, known: Fetched | None, verify: bool) -> Fetched | None:
    """An archive that is in its place already, if its bytes are right."""
    if not target.is_file():
        return None
    if not verify and known is not None:
        return known
    try:
        sha256, checked = judge(target, archive, None, known.sha256 if known is not None else None)
    except Mismatch:
        return None
    if known is not None and known.sha256 == sha256 and known.checked != "unverified":
        return known
    return Fetched(archive.file, target.stat().st_size, sha256, checked, known.source if known else target.name)


def _go_on(entry: DataSet, reasons: list[str]) -> str:
    return (
        f"{'; '.join(reasons)}; run the same command again to go on, or fetch it by hand from {entry.page or 'its page'} "
        "and give it with --from FILE"
    )


def _pack(entry: DataSet, prepared: Prepared, packed: Path, workers: int | None) -> tuple[Collection, list[str]]:
    if prepared.importer == "features":
        shutil.rmtree(packed, ignore_errors=True)
        return pack_images(prepared.source, packed, "features", name=entry.name).collection, []
    split = ByFraction(scheme="fraction") if entry.layout == "meta-album" else None
    done = pack_images(
        prepared.source,
        packed,
        prepared.importer,
        size=entry.pixels,
        name=f"{entry.name}-{entry.size}" if entry.size else entry.name,
        licence=entry.licence,
        citation=entry.paper,
        split=split,
        workers=workers,
        force=True,
        options=prepared.options,
    )
    return done.collection, list(done.notes)
