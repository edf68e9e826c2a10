"""Given features instead of images: .npz, .h5, and the .mat files of the common zero-shot benchmarks (xlsa17)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from handful.data.class_splits import held_out, read_classes
from handful.data.collection import Card, Collection, as_table
from handful.data.importers import Importer, Listing
from handful.data.importers.arrays import read_h5, read_mat, read_npz
from handful.data.semantics import Semantics
from handful.data.sources import Source
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Missing
from handful.files import read_rows, write_atomically

FEATURES = ("features", "X", "x", "data")
LABELS = ("labels", "label", "y", "wnids", "classes")
_PLACES = ("trainval_loc", "test_seen_loc", "test_unseen_loc", "train_loc", "val_loc")
_BESIDE = ("allclasses_names", "att", *_PLACES)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features (n, d), a class name per image, and what the file says of splits and descriptions."""

    features: NDArray[np.float32]
    labels: NDArray[np.str_]
    source: str
    schemes: dict[str, NDArray[np.str_]] = field(default_factory=dict)
    semantics: Semantics | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or len(self.features) != len(self.labels):
            raise BadInput(
                f"{self.source}: features of shape {self.features.shape} for {len(self.labels)} labels; give one row per image"
            )
        bad = np.flatnonzero(~np.isfinite(self.features).all(axis=1))
        if len(bad):
            raise BadInput(
                f"{self.source}: the features of image {bad[0]} ({self.labels[bad[0]]}) are not finite "
                f"({len(bad)} such images); remove them"
            )

    def collection(self, name: str, *, version: str = "1", licence: str = "unknown", hash_: str = "") -> Collection:
        """A features collection in memory; ``save`` packs it."""
        table = as_table({"class": self.labels, **self.schemes})
        width = (int(self.features.shape[1]),)
        card = Card(
            name, "features", width, ("class",), version, licence, tuple(self.schemes), source=self.source, hash=hash_
        )
        return Collection(card, table, self.features)


def read_features(path: str | Path) -> FeatureTable:
    """Features and labels of a .npz or .h5 file (arrays ``features`` and ``labels``), or of an xlsa17 folder or .mat.

    An .h5 file may also have the layout of the generic-object benchmark (TristHas/GOZ, d53cf28): a group ``images`` with
    one array of features per class, named by its id. A folder of .h5 files (its train.h5 and test.h5) is read as one.
    """
    file = Path(path)
    if file.is_dir() and not (file / "res101.mat").exists() and (parts := sorted(file.glob("*.h5"))):
        tables = [read_features(part) for part in parts]
        widths = {t.features.shape[1] for t in tables}
        if len(widths) > 1:
            raise BadInput(f"{file}: the .h5 files hold features of {sorted(widths)} numbers; put one kind in a folder")
        return FeatureTable(
            np.concatenate([t.features for t in tables]), np.concatenate([t.labels for t in tables]), file.name
        )
    if file.is_dir() or file.suffix == ".mat":
        return _xlsa17(file)
    if not file.is_file():
        raise Missing(f"{file} does not exist; give a .npz, .h5 or .mat file of features")
    arrays: Mapping[str, Any]
    if file.suffix == ".npz":
        arrays = read_npz(file, (*FEATURES, *LABELS))
    elif file.suffix in (".h5", ".hdf5"):
        arrays = read_h5(file, (*FEATURES, *LABELS), group="images")
        if arrays and all(array is not None for array in arrays.values()) and not set(arrays) & {*FEATURES, *LABELS}:
            return _by_class(arrays, file)
    else:
        raise BadInput(f"{file}: {file.suffix or 'no ending'} is not a kind of features file; give .npz, .h5 or .mat")
    x, y = _pick(arrays, FEATURES, file), _pick(arrays, LABELS, file)
    return FeatureTable(_numbers(x, file), _names(y, file), file.name)


def _pick(arrays: Mapping[str, Any], names: Sequence[str], file: Path) -> Any:
    for name in names:
        if arrays.get(name) is not None:
            return arrays[name]
    raise BadInput(f"{file} has no array called {' or '.join(names)}; it has {', '.join(arrays) or 'none'}")


def _numbers(values: Any, file: Path, name: str = "features", kind: type = np.float32) -> NDArray[Any]:
    if np.asarray(values).dtype.kind not in "biuf":
        raise BadInput(f"{file}: the array {name} holds {np.asarray(values).dtype}, not numbers; save it as numbers")
    with np.errstate(all="ignore"):  # what is not a number, or too large for one, is refused where it is used
        return np.asarray(values).astype(kind)


def _names(values: Any, file: Path) -> NDArray[np.str_]:
    flat = np.asarray(values).reshape(-1)
    try:
        if flat.dtype.kind in "SO":
            return np.array([v.decode() if isinstance(v, bytes) else str(v) for v in flat.tolist()])
        names = flat.astype(str)
        for name in set(names.tolist()):
            name.encode()
        return names
    except UnicodeError as error:
        raise BadInput(f"{file}: a class has a name that is not text ({error}); save the names as UTF-8") from error


def _by_class(group: Mapping[str, Any], file: Path) -> FeatureTable:
    """One array of features per class, in the order of their names."""
    names, arrays = list(group), list(group.values())
    odd = [n for n, a in zip(names, arrays, strict=True) if a.ndim != 2 or a.shape[1] != arrays[0].shape[-1]]
    if odd:
        raise BadInput(
            f"{file}: images/{odd[0]} is no array with one row per image; give features as the benchmark distributes them"
        )
    joined = _numbers(np.concatenate(arrays), file)
    return FeatureTable(joined, np.repeat(names, [len(a) for a in arrays]), file.name)


def _xlsa17(place: Path) -> FeatureTable:
    """``res101.mat`` (features d x n, labels from 1) with ``att_splits.mat`` beside it (Xian et al., TPAMI 2018).

    Three schemes. ``proposed``, the first, is for one command: of the images that the published protocol trains on
    (trainval_loc), those of val_loc's classes are valid and the others train; test_seen and test are as published. ``final``
    has all of trainval_loc as train. ``tuning`` has train_loc and val_loc as they are: together they hold the images of
    test_seen_loc too, so no generalised score may be taken after them.
    """
    folder = place if place.is_dir() else place.parent
    main = folder / "res101.mat" if place.is_dir() else place
    beside = folder / "att_splits.mat"
    for file in (main, beside):
        if not file.is_file():
            raise Missing(f"{file} does not exist; the xlsa17 layout has res101.mat and att_splits.mat in one folder")
    images, splits = read_mat(main, ("features", "labels")), read_mat(beside, _BESIDE)
    x = _numbers(_pick(images, ("features",), main), main).T
    number = _numbers(_pick(images, ("labels",), main), main, "labels", np.int64).reshape(-1) - 1
    names = _names(_pick(splits, ("allclasses_names",), beside), beside)
    if not len(number):
        raise BadInput(f"{main} has no labels")
    if number.min() < 0 or number.max() >= len(names):
        raise BadInput(
            f"{main}: labels run from {number.min() + 1} to {number.max() + 1}, {beside.name} names {len(names)}"
        )
    matrix = _numbers(_pick(splits, ("att",), beside), beside, "att").T

    def column(places: Mapping[str, str]) -> NDArray[np.str_]:
        out = np.full(len(x), "", dtype="U9")
        for key, split in places.items():
            rows = _numbers(_pick(splits, (key,), beside), beside, key, np.int64).reshape(-1) - 1
            if len(rows) and (rows.min() < 0 or rows.max() >= len(x)):
                raise BadInput(f"{beside}: {key} points beyond the {len(x)} images of {main.name}")
            out[rows] = split
        return out

    proposed = column({"trainval_loc": "train", "test_seen_loc": "test_seen", "test_unseen_loc": "test"})
    tuned = column({"val_loc": "valid"})
    proposed[(proposed == "train") & np.isin(number, np.unique(number[tuned == "valid"]))] = "valid"
    schemes = {
        "proposed": proposed,
        "final": column({"trainval_loc": "train", "test_seen_loc": "test_seen", "test_unseen_loc": "test"}),
        "tuning": column({"train_loc": "train", "val_loc": "valid", "test_unseen_loc": "test"}),
    }
    described = Semantics.of(names.tolist(), matrix, source=f"attributes of {beside.name}")
    return FeatureTable(x, names[number], folder.name or main.name, schemes, described)


def by_classes(
    table: FeatureTable,
    train: Sequence[str],
    test: Sequence[str],
    valid: Sequence[str] = (),
    *,
    held: int = 0,
    seed: int = 0,
    scheme: str = "split",
    only: NDArray[np.int64] | None = None,
) -> FeatureTable:
    """The table with a split by class lists.

    ``held`` images of each training class become test_seen; of the test classes ``only`` these images are asked.
    """
    sides = {"train": list(train), "valid": list(valid), "test": list(test)}
    owner: dict[str, str] = {}
    for side, classes in sides.items():
        for name in classes:
            if name in owner:
                raise BadInput(f"{name} is in {owner[name]} and in {side}; a class belongs to one split")
            owner[name] = side
    present = set(table.labels.tolist())
    empty = [c for c in owner if c not in present]
    if empty:
        raise BadInput(
            f"{len(empty)} classes of the lists have no image in {table.source} ({', '.join(empty[:5])}); leave them out"
        )
    column = np.array([owner.get(name, "") for name in table.labels.tolist()], dtype="U9")
    if only is not None:
        chosen = np.zeros(len(column), dtype=bool)
        chosen[only] = True
        column[(column == "test") & ~chosen] = ""
        empty = sorted(set(test) - set(table.labels[column == "test"].tolist()))
        if empty:
            raise BadInput(f"{len(empty)} test classes have none of the chosen images ({', '.join(empty[:5])})")
    if held:
        column[held_out(table.labels, sides["train"], held, seed)] = "test_seen"
    return FeatureTable(table.features, table.labels, table.source, {scheme: column, **table.schemes}, table.semantics)


def pack_features(
    table: FeatureTable, target: str | Path, name: str, *, taxonomy: Taxonomy | None = None
) -> Collection:
    """Pack into a folder; descriptions that came with the features go beside them, where ``semantics=stored`` finds them."""
    folder = Path(target)
    packed = table.collection(name).save(folder)
    if table.semantics is not None:
        table.semantics.save(folder / "descriptions.npz")
    if taxonomy is not None:

        def write(temporary: Path) -> None:
            with open(temporary, "w", newline="", encoding="utf-8") as stream:
                out = csv.writer(stream)
                out.writerow(["child", "parent"])
                out.writerows([str(taxonomy.ids[r]), ""] for r in taxonomy.roots)
                out.writerows(
                    [str(taxonomy.ids[c]), str(taxonomy.ids[p])]
                    for c, p in zip(taxonomy.child, taxonomy.parent, strict=True)
                )

        write_atomically(folder / "taxonomy.csv", write)
    return packed


@dataclass(frozen=True)
class FeatureFiles(Importer):
    """Features instead of images: .npz, .h5, or .mat (or folder) of the xlsa17 layout, split by lists of classes.

    Without lists the file's own splits are kept. ``train`` and ``test`` (and ``valid``) name files with one class per line;
    ``held_out`` images of each training class become test_seen, drawn by ``seed``; of the test classes only the images of the
    file ``images`` (rows image,class) are asked.
    """

    train: str = ""
    valid: str = ""
    test: str = ""
    held_out: int = 0
    images: str = ""
    seed: int = 0

    name: ClassVar[str] = "features"
    size: ClassVar[int] = 1
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        raise BadInput(f"{source.path} is packed as features, which have no images to list")

    def pack(self, source: Path, target: Path, name: str | None) -> Collection:
        if bool(self.train) != bool(self.test):
            raise BadInput(
                "the options train and test go together: give both class lists, or none to keep the file's splits"
            )
        if not self.train and (self.held_out or self.images or self.valid):
            raise BadInput("the options valid, held_out and images go with class lists: give train and test too")
        table = read_features(source)
        if self.train:
            only = read_images(self.images, table.labels) if self.images else None
            valid = read_classes(self.valid) if self.valid else []
            train, test = read_classes(self.train), read_classes(self.test)
            table = by_classes(table, train, test, valid, held=self.held_out, seed=self.seed, only=only)
        return pack_features(table, target, name or source.stem)


def image_rows(path: str | Path, head: tuple[str, ...]) -> list[list[str]]:
    """Rows of a CSV that begins with ``head``, an image number first."""
    file = Path(path)
    wanted = ",".join(head)
    try:
        first, *rows = [[c.strip() for c in row] for row in read_rows(file) if row] or [[]]
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist; give rows {wanted}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} is not a text file of rows {wanted} ({error})") from error
    if tuple(c.lower() for c in first) != head:
        raise BadInput(f"{file} must begin with the row {wanted}, found {','.join(first)[:80]!r}")
    if not rows:
        raise BadInput(f"{file} holds no image; give rows {wanted}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head) or not all(c.isascii() and c.isdigit() and len(c) < 19 for c in (row[0], *row[2:])):
            raise BadInput(f"{file}, row {number}: expected {wanted}, found {','.join(row)!r}")
    return rows


def read_images(path: str | Path, labels: Sequence[str] | NDArray) -> NDArray[np.int64]:
    """Image numbers of rows ``image,class``, checked against the labels of the features they point into."""
    rows = image_rows(path, ("image", "class"))
    named = np.asarray(labels).astype(str)
    for number, (image, name) in enumerate(rows, start=2):
        if int(image) >= len(named):
            raise BadInput(f"{path}, row {number}: there is no image {image}, the features hold {len(named)}")
        if named[int(image)] != name:
            raise BadInput(
                f"{path}, row {number}: image {image} is of {named[int(image)]}, not of {name}; another file?"
            )
    return np.array([int(r[0]) for r in rows])
