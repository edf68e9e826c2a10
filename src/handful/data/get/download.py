"""One archive into its place: the mirrors in turn, then the checksum, then the rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from handful.data.get.fetch import Download, fetch
from handful.data.get.listing import look_up
from handful.data.get.manifest import Archive
from handful.data.get.record import Fetched, digests
from handful.data.get.web import Failed, Patience, refuse_page
from handful.errors import BadInput, Mismatch, Missing
from handful.progress import bar


@dataclass(frozen=True)
class Mirror:
    """An address, and what its server says of the file's length and MD5."""

    url: str
    size: int | None = None
    md5: str | None = None


def download(
    archive: Archive, target: Path, patience: Patience, *, before: Fetched | None = None, verify: bool = True
) -> Fetched:
    """Fetch ``archive`` to ``target`` from the first mirror that gives the right bytes.

    A half-fetched file is continued. ``before`` is what the record knows of an archive without a published checksum:
    other bytes than those are refused.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Download(target)
    reasons: list[str] = []
    trusted = before is not None and before.checked != "unverified" and archive.checksum is None
    known = before.sha256 if trusted and before is not None else None
    for mirror in _mirrors(archive, patience, reasons):
        size = mirror.size if archive.size is None else archive.size
        if not verify:
            size = None
        _room(target, size, part)
        sure = verify and bool(archive.checksum or mirror.md5 or known)
        afresh = False
        while True:
            pieces = False
            try:
                with bar(archive.file, size, part.size, unit="bytes") as advance:
                    pieces = fetch(mirror.url, part, archive.file, size, sure, patience, advance)
                found = judge(part.path, archive, mirror.md5, known) if verify else _as_it_is(part.path)
            except Failed as failed:
                reasons.append(f"{_host(mirror.url)} {failed}")
                break
            except Mismatch as error:
                part.clear()
                # A file that was put together from several connections gets one chance from its beginning.
                if pieces and not afresh:
                    afresh = True
                    continue
                reasons.append(f"{_host(mirror.url)} {error}")
                break
            sha256, checked = found
            done = Fetched(archive.file, part.path.stat().st_size, sha256, checked, mirror.url)
            os.replace(part.path, target)
            part.clear()
            return done
    raise Missing(f"{archive.file} could not be got: {'; '.join(reasons) or 'no mirror is known'}")


def take(archive: Archive, source: Path, target: Path, *, verify: bool = True) -> Fetched:
    """Copy an archive that the user has, if its bytes are the published ones."""
    try:
        with open(source, "rb") as stream:
            refuse_page(None, stream.read(512), archive.file)
        found = judge(source, archive, None, None) if verify else _as_it_is(source)
    except Failed as failed:
        raise BadInput(f"{source} is not {archive.file}: it {failed}".replace("it gave", "it is")) from failed
    except Mismatch as error:
        raise BadInput(
            f"{source} {error}; it is damaged or another version of {archive.file}, go on with it by --no-verify"
        ) from error
    except OSError as error:
        raise BadInput(f"{source} cannot be read ({error.strerror}); check the path given with --from") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Download(target)
    try:
        if source.resolve() != target.resolve():
            shutil.copyfile(source, part.path)
            os.replace(part.path, target)
    except BaseException:
        part.clear()
        raise
    return Fetched(archive.file, target.stat().st_size, found[0], found[1], source.name)


def judge(path: Path, archive: Archive, md5_of_server: str | None, known: str | None) -> tuple[str, str]:
    """SHA-256 of a file and what its bytes were found to agree with; `Mismatch` says what they disagree with."""
    size = path.stat().st_size
    if archive.size is not None and size != archive.size:
        raise Mismatch(f"has {size:,} bytes, not the {archive.size:,} that are published")
    found = digests(path, "sha256", "md5")
    if archive.checksum is not None:
        kind, wanted = archive.checksum
        if found[kind] != wanted:
            raise Mismatch(f"has {kind} {found[kind][:12]}..., not the published {wanted[:12]}...")
        return found["sha256"], kind
    if known is not None:
        if found["sha256"] != known:
            raise Mismatch(f"has sha256 {found['sha256'][:12]}..., not {known[:12]}... as when it was first got")
        return found["sha256"], "first-use"
    if md5_of_server is not None:
        if found["md5"] != md5_of_server:
            raise Mismatch(f"has md5 {found['md5'][:12]}..., not {md5_of_server[:12]}... as its server says")
        return found["sha256"], "md5-of-server"
    return found["sha256"], "first-use"


def _as_it_is(path: Path) -> tuple[str, str]:
    return digests(path, "sha256")["sha256"], "unverified"


def _mirrors(archive: Archive, patience: Patience, reasons: list[str]) -> Iterator[Mirror]:
    for url in archive.urls:
        yield Mirror(url)
    for listing in archive.listings:
        try:
            yield Mirror(*look_up(listing, archive.file, patience))
        except Failed as failed:
            reasons.append(f"{_host(listing)} {failed}")


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _room(target: Path, size: int | None, part: Download) -> None:
    free = shutil.disk_usage(target.parent).free
    if size is not None and size - part.size > free:
        raise BadInput(
            f"{target.name} needs {size / 1e6:,.0f} MB, but the disk of {target.parent} has {free / 1e6:,.0f} MB free; "
            "free some space or name another folder with --to"
        )
