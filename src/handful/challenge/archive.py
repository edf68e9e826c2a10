"""Unpacking an archive that a stranger sent, and making the ones we send.

Every limit is enforced on the bytes while they come out: the sizes that an archive declares are its author's word.
"""

from __future__ import annotations

import errno
import hashlib
import io
import lzma
import os
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from handful.errors import BadInput

_BLOCK = 1 << 16
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
WEIGHTS = (
    ".pt",
    ".pth",
    ".bin",
    ".safetensors",
    ".onnx",
    ".h5",
    ".ckpt",
    ".npy",
    ".npz",
    ".pkl",
    ".pickle",
    ".joblib",
)
_UNREADABLE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """What a submitted archive may hold; the defaults fit a resnet's weights a few times over."""

    archive_bytes: int = 500 << 20
    total_bytes: int = 1 << 30
    file_bytes: int = 500 << 20
    entries: int = 2000
    depth: int = 16
    path_chars: int = 240


@dataclass(frozen=True)
class Unpacked:
    """What came out of an archive: the folder, its files in order, their total size and the hash of the archive."""

    folder: Path
    files: tuple[str, ...]
    total_bytes: int
    sha256: str


def clean_name(name: str, limit: int = 80) -> str:
    """Make a stranger's name fit to print: no control characters, escapes or direction marks, one line, bounded."""
    name = _CONTROL.sub("", unicodedata.normalize("NFC", name))
    name = " ".join(name.split())
    return name if len(name) <= limit else name[: limit - 1] + "…"


def _place(name: str, limits: ArchiveLimits) -> tuple[str, ...]:
    """Check one entry's path and give its parts."""
    shown = clean_name(name)
    if "\x00" in name or "\\" in name or _CONTROL.search(name):
        raise BadInput(f"the archive's entry {shown!r} has a backslash or control character in its name; rename it")
    if name.startswith("/") or re.match(r"^[A-Za-z]:", name):
        raise BadInput(f"the archive's entry {shown!r} has an absolute path; zip the folder's contents instead")
    parts = tuple(part for part in unicodedata.normalize("NFC", name).split("/") if part not in ("", "."))
    if ".." in parts:
        raise BadInput(f"the archive's entry {shown!r} climbs out with '..'; zip the folder's contents instead")
    if len(parts) > limits.depth or len(name) > limits.path_chars or any(len(p.encode()) > 200 for p in parts):
        raise BadInput(f"the archive's entry {shown!r} is too deep or too long; shorten its path")
    return parts


def _junk(parts: tuple[str, ...]) -> bool:
    return parts[0] == "__MACOSX" or parts[-1] == ".DS_Store" or "__pycache__" in parts


def unpack(archive: Path, folder: Path, limits: ArchiveLimits | None = None, shown: str = "") -> Unpacked:
    """Unpack ``archive`` into the new folder ``folder``, or raise and leave nothing; errors call it ``shown``.

    Refused: absolute and climbing paths, links and other special entries, two entries of one name (case apart too),
    encrypted entries, more entries or bytes than the limits, counted while they are written.
    """
    limits, shown = limits or ArchiveLimits(), shown or archive.name
    if archive.stat().st_size > limits.archive_bytes:
        raise BadInput(f"{shown} is larger than {limits.archive_bytes >> 20} MB; leave out what is not needed")
    if folder.exists():
        raise BadInput(f"{folder} exists already; unpack into a new folder")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        files, total = _extract(archive, partial, limits, shown)
        os.replace(partial, folder)
    except _UNREADABLE as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EIO):
            raise
        # An error of the system names the file it was about, which is on the server.
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(f"{shown} is not a zip archive that can be read ({clean_name(why)})") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Unpacked(folder, tuple(sorted(files)), total, digest(archive))


class _Bounded(io.FileIO):
    """A file that refuses to be read in pieces larger than ``most``.

    The table of contents is read in one piece whose size the archive declares, in one of two records; whichever is
    believed, the piece is not read into memory.
    """

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path)
        # The tail of an archive, with a comment of 64 KB, is read whole.
        self.most = max(most, 1 << 17)

    def read(self, size: int | None = -1, /) -> bytes:
        """As of any file, unless the piece is too large."""
        left = os.fstat(self.fileno()).st_size - self.tell()
        if (left if size is None or size < 0 else min(size, left)) > self.most:
            raise BadInput("the archive's table of contents is too long; leave out what is not needed")
        return super().read(size) or b""


def _extract(archive: Path, folder: Path, limits: ArchiveLimits, shown: str) -> tuple[list[str], int]:
    files: list[str] = []
    total = 0
    taken: set[str] = set()
    folders: set[str] = set()
    with _Bounded(archive, most=limits.entries * 1024) as file, zipfile.ZipFile(file) as source:
        entries = source.infolist()
        if len(entries) > limits.entries:
            raise BadInput(
                f"{shown} has {len(entries)} entries, more than {limits.entries}; leave out what is not needed"
            )
        for entry in entries:
            parts = _place(entry.filename, limits)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            called = clean_name(entry.filename)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BadInput(f"the archive's entry {called!r} is a link or special file; pack regular files")
            if entry.flag_bits & 0x1:
                raise BadInput(f"the archive's entry {called!r} is encrypted; pack it without a password")
            if not parts or _junk(parts):
                continue
            for depth in range(1, len(parts)):
                folders.add("/".join(parts[:depth]).casefold())
            if entry.is_dir():
                folders.add("/".join(parts).casefold())
                (folder.joinpath(*parts)).mkdir(parents=True, exist_ok=True, mode=0o755)
                continue
            key = "/".join(parts).casefold()
            if key in taken or key in folders:
                raise BadInput(f"the archive has two entries named {clean_name('/'.join(parts))!r}; keep one")
            taken.add(key)
            place = folder.joinpath(*parts)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            total = _copy(source, entry, place, limits, total)
            files.append("/".join(parts))
        if taken & folders:
            raise BadInput(
                f"the archive names {clean_name(min(taken & folders))!r} both as a file and as a folder; keep one"
            )
    if not files:
        raise BadInput(f"{shown} holds no file")
    return files, total


def _copy(source: zipfile.ZipFile, entry: zipfile.ZipInfo, place: Path, limits: ArchiveLimits, total: int) -> int:
    size = 0
    with source.open(entry) as stream, open(place, "xb") as out:
        while block := stream.read(_BLOCK):
            size += len(block)
            total += len(block)
            if size > limits.file_bytes or total > limits.total_bytes:
                raise BadInput(
                    f"the archive unpacks to more than {limits.total_bytes >> 20} MB in all or "
                    f"{limits.file_bytes >> 20} MB in {clean_name(entry.filename)!r}; leave out what is not needed"
                )
            out.write(block)
    place.chmod(0o644)
    return total


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def root_of(folder: Path) -> Path:
    """Where ``model.py`` is: the folder itself, or the single folder that was zipped with its name."""
    if (folder / "model.py").is_file():
        return folder
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    if len(inside) == 1 and (inside[0] / "model.py").is_file():
        return inside[0]
    raise BadInput("the submission has no model.py at its top; zip the contents of the folder that holds it")


def weights_in(folder: Path, large: int = 1 << 20) -> list[str]:
    """Files that look like stored weights: by suffix, or any file that is not text and larger than ``large`` bytes.

    The meta-learning league forbids pre-trained weights. This finds the plain cases only: weights can be written into
    source code, which is what the period of scrutiny is for.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if path.suffix.lower() in WEIGHTS or path.stat().st_size > large:
            found.append(path.relative_to(folder).as_posix())
            continue
        with open(path, "rb") as file:
            head = file.read(4096)
        if b"\x00" in head and path.stat().st_size > 4096:
            found.append(path.relative_to(folder).as_posix())
    return found


def pack_folder(folder: Path, out: Path) -> Path:
    """Zip a submission's folder reproducibly: sorted names, one date, no links."""
    root_of(folder)
    partial = out.with_name(out.name + ".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_symlink() or not path.is_file() or _junk(inside.parts):
                continue
            entry = zipfile.ZipInfo(inside.as_posix(), (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, path.read_bytes())
    os.replace(partial, out)
    return out
