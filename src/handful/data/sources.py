"""Where raw images come from: a folder, a zip or tar, a table, or a folder of them, behind one interface (list names, read
bytes).

Nothing is ever extracted to disk, so a hostile archive cannot write anywhere; names that try to, encrypted members and
members that unpack to more than a cap are refused all the same.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from handful.errors import BadInput

if TYPE_CHECKING:
    from handful.data.tables import ColumnTable

IMAGE_ENDINGS = frozenset(
    (".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".avif")
    + (".heic", ".heif")
)
# What cameras and drawing programs write and Pillow does not read: to be named, not silently passed over.
LIKE_IMAGES = (".raw", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf", ".dng", ".psd", ".svg", ".jxl")
FILE_CAP = 1 << 28
MEMBERS_CAP = 5_000_000
LITTER = frozenset(("__macosx", "thumbs.db", "desktop.ini"))
ARCHIVES, TABLES = (".zip", ".tar"), (".parquet", ".arrow")


def is_image_name(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in IMAGE_ENDINGS


class Source(ABC):
    """Files by their names relative to ``path``, with forward slashes, in sorted order."""

    path: Path
    names: tuple[str, ...]
    ignored: tuple[str, ...] = ()

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The bytes of one file; `BadInput` names the file if they cannot be had."""

    @abstractmethod
    def stamps(self) -> Iterator[tuple[str, int, int]]:
        """(name, bytes, time of change) of what the source is made of, without reading it."""

    @property
    def images(self) -> list[str]:
        """Names that end as an image file's does; whether they are images is seen on decoding."""
        return [n for n in self.names if is_image_name(n)]

    @property
    def unread(self) -> tuple[tuple[str, str], ...]:
        """Pictures in formats that cannot be read, each with the reason."""
        return tuple(
            (n, f"is {PurePosixPath(n).suffix}, which cannot be read; save it as JPEG or PNG")
            for n in self.names
            if n.lower().endswith(LIKE_IMAGES)
        )

    def named(self, *endings: str) -> list[str]:
        """Names whose last part is one of ``endings`` (case ignored)."""
        wanted = {e.lower() for e in endings}
        return [n for n in self.names if PurePosixPath(n).name.lower() in wanted]

    def text(self, name: str, encoding: str = "", advice: str = "save the file as UTF-8") -> str:
        """A text file in UTF-8 (or UTF-16, if it says so) unless another encoding is given; other bytes are refused."""
        data = self.read(name)
        marked = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        try:
            return data.decode(encoding or ("utf-16" if marked else "utf-8-sig"))
        except LookupError as error:
            raise BadInput(f"{encoding!r} is not an encoding that Python knows; try cp1252 or utf-8") from error
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            wrong = f"byte 0x{data[error.start]:02x} is not {encoding or ('UTF-16' if marked else 'UTF-8')}"
            raise BadInput(f"{self.where(name)}, line {line}: {wrong}; {advice}") from error

    def where(self, name: str) -> str:
        return f"{self.path}/{name}"

    @property
    def tables(self) -> list[str]:
        """Names of Parquet and Arrow files."""
        return [n for n in self.names if n.lower().endswith(TABLES)]

    def table(self, name: str) -> ColumnTable:
        """One of `tables`, whose cells `read` gives as ``NAME/COLUMN/ROW``."""
        raise BadInput(f"{self.where(name)} is a table inside an archive; unpack the archive first")

    def fingerprint(self) -> str:
        """Changes when a file is added, removed, resized or touched."""
        digest = hashlib.sha256(str(self.path.resolve()).encode())
        for name, size, time in self.stamps():
            digest.update(f"{name}\0{size}\0{time}\n".encode())
        return digest.hexdigest()


class ZipSource(Source):
    """The members of one zip, read in place."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise BadInput(f"{path} is not a readable zip ({error}); fetch it again") from error
        infos = self._zip.infolist()
        if len(infos) > MEMBERS_CAP:
            raise BadInput(f"{path} lists {len(infos)} members, more than {MEMBERS_CAP}; split it")
        # A member without a name is nothing that can be read, and zipfile trips over it.
        self._members = {i.filename: i for i in infos if i.filename and not i.is_dir() and not _litter(i.filename)}
        for name, info in self._members.items():
            self._refuse_hostile(name, info)
        self.names = tuple(sorted(self._members))

    def _refuse_hostile(self, name: str, info: zipfile.ZipInfo) -> None:
        if _climbs(name):
            raise BadInput(f"{self.path}: member {name!r} points outside the zip; do not use this zip")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise BadInput(f"{self.path}: member {name!r} is a symbolic link; pack the zip without links")
        if info.flag_bits & 1:
            raise BadInput(f"{self.path}: member {name!r} is encrypted; unpack the zip with its password first")

    def read(self, name: str) -> bytes:
        info = self._members.get(name)
        if info is None:
            raise BadInput(f"{self.where(name)} does not exist")
        if info.file_size > FILE_CAP:
            raise BadInput(f"{self.where(name)} unpacks to {info.file_size >> 20} MB, more than {FILE_CAP >> 20} MB")
        try:
            with self._zip.open(info) as stream:
                data = stream.read(FILE_CAP + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
            raise BadInput(f"{self.where(name)} cannot be unpacked ({error})") from error
        if len(data) > FILE_CAP:
            raise BadInput(f"{self.where(name)} unpacks to more than {FILE_CAP >> 20} MB")
        return data

    def stamps(self) -> Iterator[tuple[str, int, int]]:
        status = self.path.stat()
        yield "", status.st_size, status.st_mtime_ns


class TarSource(Source):
    """The members of one tar that is not compressed, read in place."""

    def __init__(self, path: Path):
        self.path = path
        self._members: dict[str, tuple[int, int]] = {}
        try:
            # What is compressed cannot be read in any order without unpacking it whole.
            with tarfile.open(path, "r:") as archive:
                for count, info in enumerate(archive, 1):
                    if count > MEMBERS_CAP:
                        raise BadInput(f"{path} lists more than {MEMBERS_CAP} members; split it")
                    self._add(info)
                    archive.members = []  # type: ignore[attr-defined]  # tarfile keeps what it has read
        except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError, IndexError) as error:
            raise BadInput(
                f"{path} is not a readable tar without compression ({error}); unpack it (gunzip), or fetch it again"
            ) from error
        self.names = tuple(sorted(self._members))

    def _add(self, info: tarfile.TarInfo) -> None:
        name = info.name.removeprefix("./")
        if _climbs(name):
            raise BadInput(f"{self.path}: member {name!r} points outside the tar; do not use this tar")
        if info.isdir() or not name or _litter(name):
            return
        if not info.isreg() or info.issparse():
            raise BadInput(f"{self.path}: member {name!r} is no plain file; pack the tar without links and devices")
        self._members[name] = (info.offset_data, info.size)

    def read(self, name: str) -> bytes:
        if name not in self._members:
            raise BadInput(f"{self.where(name)} does not exist")
        start, size = self._members[name]
        if size > FILE_CAP:
            raise BadInput(f"{self.where(name)} is larger than {FILE_CAP >> 20} MB")
        try:
            with open(self.path, "rb") as stream:
                stream.seek(start)
                data = stream.read(size)
        except OSError as error:
            raise BadInput(f"{self.where(name)} cannot be read ({error.strerror})") from error
        if len(data) != size:
            raise BadInput(f"{self.where(name)} is cut off, where the tar ends; fetch it again")
        return data

    def stamps(self) -> Iterator[tuple[str, int, int]]:
        status = self.path.stat()
        yield "", status.st_size, status.st_mtime_ns


class FolderSource(Source):
    """The files of a folder, or one file of it. Where there are no images, archives (zips at its top, tars anywhere) are read as folders
    of their names (``images.zip/a.jpg``); where there are, they are taken for left-overs of unpacking and listed as ignored.
    """

    def __init__(self, path: Path):
        self.path = path
        files = dict(_walk(path)) if path.is_dir() else {path.name: path}
        archives = sorted(
            n for n in files if n.lower().endswith(ARCHIVES) and ("/" not in n or n.lower()[-3:] == "tar")
        )
        self._archives: dict[str, Source] = {}
        self._tables: dict[str, ColumnTable] = {}
        if any(is_image_name(n) for n in files):
            self.ignored = tuple(archives)
        else:
            self._archives = {n: _archive(self._place(n)) for n in archives}
        self._stamped = {n: files[n] for n in sorted(files)}
        own = [n for n in files if n not in self._archives]
        self.names = tuple(sorted([*own, *(f"{a}/{n}" for a, s in self._archives.items() for n in s.names)]))

    def _place(self, name: str) -> Path:
        return self.path / name if self.path.is_dir() else self.path

    def read(self, name: str) -> bytes:
        for end in (i for i, letter in enumerate(name) if letter == "/"):
            head, rest = name[:end], name[end + 1 :]
            if head in self._archives:
                return self._archives[head].read(rest)
            if head in self._stamped and head.lower().endswith(TABLES):
                column, _, row = rest.rpartition("/")
                return self._within(name, self.table(head).cell(column, int(row)))
        try:
            with open(self._place(name), "rb") as stream:
                data = stream.read(FILE_CAP + 1)
        except OSError as error:
            raise BadInput(f"{self.where(name)} cannot be read ({error.strerror})") from error
        return self._within(name, data)

    def _within(self, name: str, data: bytes) -> bytes:
        if len(data) > FILE_CAP:
            raise BadInput(f"{self.where(name)} is larger than {FILE_CAP >> 20} MB")
        return data

    def table(self, name: str) -> ColumnTable:
        from handful.data.tables import ColumnTable

        if name not in self._stamped:
            return super().table(name)
        if name not in self._tables:
            self._tables[name] = ColumnTable(self._place(name))
        return self._tables[name]

    def stamps(self) -> Iterator[tuple[str, int, int]]:
        for name, entry in self._stamped.items():
            status = entry.stat()
            yield name, status.st_size, status.st_mtime_ns


def open_source(path: str | os.PathLike[str]) -> Source:
    """The folder, zip, tar or table at ``path``."""
    place = Path(path)
    if place.is_dir():
        return FolderSource(place)
    if place.is_file():
        if place.suffix.lower() in TABLES:
            return FolderSource(place)
        if zipfile.is_zipfile(place) or place.suffix.lower() in ARCHIVES:
            return _archive(place)
        raise BadInput(f"{place} is neither a folder nor a zip; give the folder or zip that holds the images")
    raise BadInput(f"{place} does not exist; give a folder or a zip of images")


def _archive(path: Path) -> Source:
    return TarSource(path) if path.suffix.lower() == ".tar" else ZipSource(path)


def _climbs(name: str) -> bool:
    """Whether an archive's member would lie outside the folder that it is unpacked into."""
    parts = PurePosixPath(name).parts
    return name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or bool(parts and ":" in parts[0])


def _litter(name: str) -> bool:
    return any((p.startswith(".") and p != "..") or p.lower() in LITTER for p in PurePosixPath(name).parts)


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str] | Path]]:
    """Regular files below ``root``; linked folders are followed, each real folder once, so loops end."""
    seen: set[tuple[int, int]] = set()
    waiting = [("", root)]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda e: e.name)
        except OSError as error:
            raise BadInput(f"{folder} cannot be listed ({error.strerror}); allow reading it") from error
        for entry in found:
            if _litter(entry.name):
                continue
            name = prefix + entry.name
            try:
                name.encode("utf-8")
            except UnicodeEncodeError as error:
                raise BadInput(f"{folder}: the file name {entry.name!r} is not UTF-8; rename it") from error
            if entry.is_dir():
                waiting.append((name + "/", Path(entry.path)))
            elif entry.is_file():
                yield name, entry
