"""Reading again what was got: every archive against the manifest and the record, every packed byte against its card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from handful.cache import datasets_folder
from handful.data.collection import open_packed
from handful.data.get.download import judge
from handful.data.get.getting import folder_of
from handful.data.get.manifest import Archive, read_manifest
from handful.data.get.record import Record, read_record
from handful.errors import BadInput, Mismatch, Missing


@dataclass(frozen=True)
class Verdict:
    """One file or collection: whether it is as it should be, and a sentence."""

    place: str
    ok: bool
    sentence: str


def verify(
    place: str | Path | None = None, *, size: str | None = None, manifest: str | Path | None = None
) -> list[Verdict]:
    """Hash a data set again: a name of the manifest, a folder that `get` filled, a packed collection, or all that was got."""
    if place is None:
        root = datasets_folder()
        folders = sorted(p.parent for p in root.glob("*/got.json")) if root.is_dir() else []
        if not folders:
            raise Missing(f"nothing was got into {root} yet; give a folder, or get a data set first")
        return [f for folder in folders for f in _folder(folder, manifest)]
    path = Path(place)
    if path.is_dir():
        if (path / "card.json").is_file():
            return [_packed(path)]
        return _folder(path, manifest)
    known = read_manifest(None if manifest is None else Path(manifest))
    entry = known.find(str(place), size)
    folder = folder_of(entry)
    if read_record(folder) is None:
        raise Missing(f"{entry.name} is not in {folder}; get it with: handful data get {place}")
    return _folder(folder, manifest)


def _folder(folder: Path, manifest: str | Path | None) -> list[Verdict]:
    record = read_record(folder)
    if record is None:
        raise BadInput(f"{folder} holds neither got.json nor card.json; give a folder that `handful data get` filled")
    published = _published(record, manifest)
    findings = []
    for fetched in record.archives:
        path = folder / "archives" / fetched.file
        archive = published.get(fetched.file, Archive(fetched.file))
        if fetched.checked == "unverified":
            archive = Archive(fetched.file)
        if not path.is_file():
            findings.append(Verdict(str(path), False, "is not there; get it again"))
            continue
        try:
            judge(path, archive, None, fetched.sha256)
        except Mismatch as error:
            findings.append(Verdict(str(path), False, f"{error}; get it again"))
            continue
        how = f"published {archive.checksum[0]}" if archive.checksum else f"sha256 as got ({fetched.checked})"
        findings.append(Verdict(str(path), True, f"agrees with the {how}"))
    if (folder / "packed" / "card.json").is_file():
        findings.append(_packed(folder / "packed"))
    return findings


def _published(record: Record, manifest: str | Path | None) -> dict[str, Archive]:
    known = read_manifest(None if manifest is None else Path(manifest))
    try:
        return {a.file: a for a in known.find(record.name, record.size).archives}
    except BadInput:
        return {}


def _packed(path: Path) -> Verdict:
    try:
        collection = open_packed(path, verify=True)
    except BadInput as error:
        return Verdict(str(path), False, str(error).removeprefix(f"{path}: "))
    return Verdict(str(path), True, f"holds {len(collection)} images that agree with its card ({collection.id})")
