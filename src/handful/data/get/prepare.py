"""From archives to something that `handful data pack` reads: in place where it can, else one zip and one table.

Tar archives are read as a stream and nothing of them is written under a name of their own, so a hostile one cannot
write anywhere; names that try to, links and members beyond a cap are refused all the same.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from handful.data.get.cifar import CLASSES_OF, SPLIT_OF
from handful.data.sources import FILE_CAP, MEMBERS_CAP, ZipSource, open_source
from handful.errors import BadInput
from handful.files import WRONG, fresh_folder, write_atomically

TOTAL_CAP = 1 << 36
FEATURES_CAP = 1 << 30
CUB_IMAGE = re.compile(r"CUB_200_2011/images/((\d{3})\.([^/]+)/[^/]+\.jpg)$", re.IGNORECASE)
WORDNET_FILES = tuple(f"{kind}.{part}" for kind in ("data", "index") for part in ("noun", "verb", "adj", "adv"))


@dataclass(frozen=True)
class Prepared:
    """What to pack and how; ``importer`` is empty for what is no collection of images."""

    source: Path
    importer: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def prepare(layout: str, folder: Path, archives: list[Path]) -> Prepared:
    """Make the archives of a data set in ``folder`` ready to be packed."""
    if layout in LAYOUTS:
        return LAYOUTS[layout](folder, archives)
    if len(archives) == 1 and archives[0].suffix != ".zip" and not zipfile.is_zipfile(archives[0]):
        return Prepared(_as_zip(folder, archives[0]), layout)
    return Prepared(archives[0] if len(archives) == 1 else folder / "archives", layout)


def members(path: Path, wanted: Callable[[str], bool], skip: bool = False) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the wanted files of a tar archive, in its order; ``skip`` passes over folders."""
    count = total = 0
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                count += 1
                total += max(member.size, 0)
                if count > MEMBERS_CAP or total > TOTAL_CAP:
                    raise BadInput(f"{path} unpacks to more than {MEMBERS_CAP} files or {TOTAL_CAP >> 30} GB")
                if name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name or "\0" in name:
                    raise BadInput(f"{path}: member {name!r} points outside the archive; do not use this archive")
                if not wanted(name) or (skip and member.isdir()):
                    continue
                if not member.isreg():
                    raise BadInput(f"{path}: member {name!r} is not a plain file; do not use this archive")
                if member.size > FILE_CAP:
                    raise BadInput(f"{path}: member {name!r} unpacks to more than {FILE_CAP >> 20} MB")
                stream = archive.extractfile(member)
                assert stream is not None
                data = stream.read()
                if len(data) != member.size:
                    raise BadInput(f"{path} ends inside {name}; get it again")
                yield name, data
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, *WRONG) as error:
        raise BadInput(f"{path} is not a readable tar archive ({error}); get it again") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise BadInput(f"{path} is not a readable tar archive ({error}); get it again") from error


def _as_zip(folder: Path, archive: Path) -> Path:
    """The files of a tar archive in a zip, which can be read in any order."""
    name = f"{archive.name.partition('.')[0]}.zip"
    with fresh_folder(folder / "raw", force=True) as raw, zipfile.ZipFile(raw / name, "w") as images:
        for member, data in members(archive, lambda n: not n.endswith("/"), skip=True):
            images.writestr(member, data)
    return folder / "raw" / name


def _omniglot(folder: Path, archives: list[Path]) -> Prepared:
    return Prepared(folder / "archives", "omniglot")


def _cifar_fs(folder: Path, archives: list[Path]) -> Prepared:
    """CIFAR-100's binary version: 3,074 bytes an image (coarse label, fine label, red, green and blue planes)."""
    names = {"train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"}
    files = {PurePosixPath(n).name: d for n, d in members(archives[0], lambda n: PurePosixPath(n).name in names)}
    if lacking := sorted(names - set(files)):
        raise BadInput(f"{archives[0]} lacks {', '.join(lacking)}; give CIFAR-100's binary version")
    fine = files["fine_label_names.txt"].decode("utf-8", "replace").split()
    coarse = files["coarse_label_names.txt"].decode("utf-8", "replace").split()
    if set(fine) != set(SPLIT_OF):
        odd = sorted(set(fine) ^ set(SPLIT_OF))
        raise BadInput(f"{archives[0]} names other classes than CIFAR-100 has ({', '.join(odd[:3])}); get it again")
    if not set(coarse) == set(CLASSES_OF):
        raise BadInput(f"{archives[0]} names other superclasses than CIFAR-100 has; get it again")

    def rows(store: Callable[[str, bytes], None]) -> Iterator[list[str]]:
        for half in ("train", "test"):
            data = files[f"{half}.bin"]
            if len(data) % 3074:
                raise BadInput(f"{archives[0]}: {half}.bin is not whole images of 3,074 bytes; get it again")
            records = np.frombuffer(data, np.uint8).reshape(-1, 3074)
            if len(records) and (records[:, 0].max() >= len(coarse) or records[:, 1].max() >= len(fine)):
                raise BadInput(f"{archives[0]}: {half}.bin has a label beyond the names; get it again")
            pixels = records[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            for i, record in enumerate(records):
                label = fine[record[1]]
                name = f"{label}/{half}-{i:05d}.ppm"
                store(name, b"P6 32 32 255\n" + pixels[i].tobytes())
                yield [name, label, coarse[record[0]], half, SPLIT_OF[label]]

    _table(folder, ["file", "label", "superclass", "cifar_half", "split"], rows)
    return Prepared(folder / "raw", "csv", {"labels": "label"})


def _cub(folder: Path, archives: list[Path]) -> Prepared:
    """Classes by their number: even for training, 1 and 3 modulo 4 for validation and test (Chen et al., ICLR 2019)."""

    def rows(store: Callable[[str, bytes], None]) -> Iterator[list[str]]:
        for name, data in members(archives[0], lambda n: bool(CUB_IMAGE.match(n))):
            found = CUB_IMAGE.match(name)
            assert found
            # The split counts classes from zero, the folders from one.
            index = int(found[2]) - 1
            split = "train" if index % 2 == 0 else ("valid" if index % 4 == 1 else "test")
            store(found[1], data)
            yield [found[1], found[3], found[2], split]

    if not _table(folder, ["file", "label", "number", "split"], rows):
        raise BadInput(f"{archives[0]} holds no CUB_200_2011/images/NNN.Name/*.jpg; give CUB-200-2011's archive")
    return Prepared(folder / "raw", "csv", {"labels": "label"})


def _table(folder: Path, header: list[str], rows: Callable[[Callable[[str, bytes], None]], Iterator[list[str]]]) -> int:
    """Write ``raw/images.zip`` and ``raw/labels.csv``, both or neither."""
    count = 0
    with fresh_folder(folder / "raw", force=True) as raw:
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(header)
        with zipfile.ZipFile(raw / "images.zip", "w", zipfile.ZIP_STORED) as images:
            for row in rows(images.writestr):
                table.writerow(row)
                count += 1
        (raw / "labels.csv").write_text(text.getvalue(), encoding="utf-8")
    return count


def _wordnet(folder: Path, archives: list[Path]) -> Prepared:
    """WordNet's data files beside each other, from Princeton's tar or NLTK's zip; the version is checked on reading."""
    from handful.data.wordnet import wordnet

    path = archives[0]
    goal = folder / "dict"
    found: set[str] = set()
    with fresh_folder(goal, force=True) as fresh:
        for name, data in _files(path):
            own = PurePosixPath(name).name
            found.add(own)
            write_atomically(fresh / own, lambda t, data=data: t.write_bytes(data))  # type: ignore[misc]
        if "data.noun" not in found:
            raise BadInput(f"{path} holds no data.noun; give WordNet 3.0's WNdb-3.0.tar.gz or NLTK's wordnet.zip")
        wordnet(fresh, cache=False)
    return Prepared(goal)


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    def wanted(name: str) -> bool:
        return PurePosixPath(name).name in WORDNET_FILES

    if zipfile.is_zipfile(path):
        source = open_source(path)
        assert isinstance(source, ZipSource)
        for name in source.names:
            if wanted(name):
                yield name, source.read(name)
    else:
        yield from members(path, wanted)


def _xlsa17(folder: Path, archives: list[Path], part: str) -> Prepared:
    """One data set of Xian et al.'s archive: ``data/CUB/res101.mat`` and ``att_splits.mat`` beside it."""
    with fresh_folder(folder / "raw", force=True) as raw:
        try:
            with zipfile.ZipFile(archives[0]) as archive:
                for file in ("res101.mat", "att_splits.mat"):
                    inside = [i for i in archive.infolist() if PurePosixPath(i.filename).parts[-2:] == (part, file)]
                    if not inside:
                        raise BadInput(f"{archives[0]} holds no {part}/{file}; give xlsa17.zip")
                    _unpack(archive, inside[0], raw / file, archives[0])
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise BadInput(f"{archives[0]} is not a readable zip archive ({error}); get it again") from error
    return Prepared(folder / "raw", "features")


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, path: Path) -> None:
    """A member that may be larger than what is read at once, by blocks and up to a cap."""
    with archive.open(member) as stream, open(target, "wb") as out:
        while block := stream.read(1 << 20):
            if out.tell() + len(block) > FEATURES_CAP:
                raise BadInput(f"{path}: {member.filename} unpacks to more than {FEATURES_CAP >> 20} MB")
            out.write(block)


LAYOUTS: dict[str, Callable[[Path, list[Path]], Prepared]] = {
    "omniglot": _omniglot,
    "cifar-fs": _cifar_fs,
    "cub": _cub,
    "wordnet": _wordnet,
    **{f"xlsa17-{name.lower()}": partial(_xlsa17, part=name) for name in ("CUB", "SUN", "AWA2", "APY")},
}
