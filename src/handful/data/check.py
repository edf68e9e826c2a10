"""Faults of a collection or of raw images: unreadable files, exact copies, classes in two splits, what tasks it can serve."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from handful.data.collection import SPLITS, Card, Collection, Part, open_packed
from handful.data.decoding import DecodePlan, decode_all, jobs_of, pixel_digest
from handful.data.importers import Importer, Listing
from handful.data.opening import open_collection
from handful.data.pack import bad_files, label_table, make_importer
from handful.data.sources import Source, is_image_name, open_source
from handful.data.splits import SplitRule, class_overlaps
from handful.progress import bar

WAYS = (2, 5, 10, 20, 50, 100)
QUERIES = 15
NO_FILES = pl.DataFrame(schema={"file": pl.String, "reason": pl.String})


@dataclass(frozen=True)
class Remark:
    """A *fault* must be repaired before use, a *leak* makes scores look better than they are, a *note* is good to know."""

    kind: Literal["fault", "leak", "note"]
    sentence: str


@dataclass(frozen=True)
class Check:
    """What `check` found.

    Attributes
    ----------
    unreadable
        Columns file, reason.
    duplicates
        One row per image that has an exact copy: group, image, class, file, and a column per split scheme.
    overlaps
        Classes in more than one split: scheme, class, splits.
    sizes
        Images per class: class, images, and a column per scheme with the class's splits.
    feasible
        scheme, split, dataset (empty: all together), classes, ways, images (shots + queries per class), shots (with 15
        queries; null where there is no room for one).
    """

    name: str
    images: int
    classes: int
    findings: tuple[Remark, ...]
    unreadable: pl.DataFrame = field(repr=False)
    duplicates: pl.DataFrame = field(repr=False)
    overlaps: pl.DataFrame = field(repr=False)
    sizes: pl.DataFrame = field(repr=False)
    feasible: pl.DataFrame = field(repr=False)

    @property
    def ok(self) -> bool:
        """No faults; leaks and notes do not count."""
        return not any(f.kind == "fault" for f in self.findings)

    @property
    def sentences(self) -> list[str]:
        return [f"{f.kind}: {f.sentence}" for f in self.findings]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.images} images, {self.classes} classes", *self.sentences])


def check(
    path: str | os.PathLike[str],
    importer: str | Importer = "auto",
    *,
    workers: int | None = None,
    options: dict[str, object] | None = None,
) -> Check:
    """Check a packed collection (every byte against its hash), a drawn one, or raw images (every file is decoded).

    Copies are exact: equal pixels after decoding, at full size for raw images, as packed otherwise.
    """
    place = Path(path)
    if (place / "card.json").is_file():
        return check_collection(open_packed(place, verify=True))
    if os.fspath(path).partition(":")[0] == "world" or not place.exists():
        return check_collection(open_collection(path))
    return _check_raw(open_source(place), importer, workers, options or {})


def check_collection(collection: Collection) -> Check:
    """Check a collection that is open."""
    digests: list[str] = []
    with bar(f"checking {collection.card.name}", len(collection)) as advance:
        for start in range(0, len(collection), 512):
            rows = np.arange(start, min(start + 512, len(collection)))
            digests += [pixel_digest(pixels) for pixels in collection.read(rows)]
            advance(len(rows))
    return _examine(collection, digests, NO_FILES, [])


def _check_raw(source: Source, importer: str | Importer, workers: int | None, options: dict[str, object]) -> Check:
    reader = make_importer(importer, source, options)
    listing = reader.read(source)
    items = listing.items
    jobs = jobs_of([i.file for i in items], [i.turn for i in items])
    plan = DecodePlan(str(source.path), None, None, grey=reader.grey, digests=True)
    bad: list[tuple[str, str]] = []
    digests: dict[int, str] = {}
    with bar(f"checking {source.path.name}", len(jobs)) as advance:
        for done in decode_all(plan, jobs, workers):
            bad += done.bad
            digests |= done.digests
            advance(done.files)
    kept = np.asarray(sorted(digests), dtype=np.int64)
    findings = _file_findings(source, listing, sorted(bad))
    unreadable = pl.DataFrame(sorted(bad), schema=NO_FILES.schema, orient="row")
    card = Card(source.path.name, "images", (), listing.labels, schemes=listing.schemes, context=listing.context)
    collection = Collection(card, label_table(listing, kept))
    return _examine(collection, [digests[int(r)] for r in kept], unreadable, findings)


def _file_findings(source: Source, listing: Listing, bad: list[tuple[str, str]]) -> list[Remark]:
    findings = [Remark("note", note) for note in listing.notes]
    if bad:
        findings.append(Remark("fault", f"{bad_files(source, bad)}; repair or remove them, or pack with --skip-bad"))
    used = {i.file for i in listing.items}
    other = [n for n in source.names if n not in used and not is_image_name(n) and not n.lower().endswith(TABLES)]
    if other:
        findings.append(
            Remark("note", f"{_count(len(other), 'file')} that are no images are passed over: {_few(other)}")
        )
    if source.ignored:
        findings.append(Remark("note", f"zips beside the images are passed over: {_few(source.ignored)}"))
    return findings


TABLES = (".csv", ".json", ".txt")


def _examine(collection: Collection, digests: list[str], unreadable: pl.DataFrame, findings: list[Remark]) -> Check:
    card, table = collection.card, collection.table
    findings = list(findings)
    if not len(table):
        findings.append(Remark("fault", f"{card.name} has no readable image"))
        empty = pl.DataFrame()
        return Check(card.name, 0, 0, tuple(findings), unreadable, empty, empty, empty, empty)
    groups = SplitRule().groups(card, table)
    if missing := groups.null_count():
        row = int(groups.is_null().arg_max() or 0)
        first = table["file"][row] if "file" in table.columns else f"image {row}"
        findings.append(Remark("fault", f"{_count(missing, 'image')} of {card.name} have no label, first {first}"))
    duplicates = _duplicates(card, table, groups, digests)
    findings += _copy_findings(card, duplicates)
    overlaps = pl.concat(
        [class_overlaps(groups, table[s]).select(pl.lit(s).alias("scheme"), "class", "splits") for s in card.schemes]
        or [pl.DataFrame(schema={"scheme": pl.String, "class": pl.String, "splits": pl.List(pl.String)})]
    )
    for scheme in overlaps["scheme"].unique(maintain_order=True):
        shared = overlaps.filter(pl.col("scheme") == scheme)["class"].to_list()
        findings.append(
            Remark("leak", f"{_count(len(shared), 'class')} in more than one split of {scheme!r}: {_few(shared)}")
        )
    sizes = _sizes(card, table, groups)
    alone = sizes.filter(pl.col("images") == 1)["class"].to_list()
    if alone:
        findings.append(
            Remark("note", f"{_count(len(alone), 'class')} with one image can be in no task: {_few(alone)}")
        )
    feasible = pl.DataFrame() if missing else _feasible(collection)
    findings += _feasible_findings(feasible)
    return Check(
        card.name, len(table), sizes.height, tuple(findings), unreadable, duplicates, overlaps, sizes, feasible
    )


def _duplicates(card: Card, table: pl.DataFrame, groups: pl.Series, digests: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"digest": digests, "image": np.arange(len(table)), "class": groups})
    extra = [c for c in ("file", *card.schemes) if c in table.columns]
    frame = frame.with_columns(table[c] for c in extra)
    frame = frame.filter(pl.len().over("digest") > 1)
    frame = frame.with_columns(pl.col("digest").rank("dense").alias("group")).sort("group", "image")
    return frame.select("group", "image", "class", *extra)


def _copy_findings(card: Card, duplicates: pl.DataFrame) -> list[Remark]:
    if not duplicates.height:
        return []
    n_groups = duplicates["group"].n_unique()
    first = duplicates["image"][:2].to_list()
    text = f"{_count(duplicates.height, 'image')} in {_count(n_groups, 'group')} of exact copies, first images {first[0]} and {first[1]}"
    mixed = duplicates.group_by("group").agg(pl.col("class").n_unique()).filter(pl.col("class") > 1).height
    if mixed:
        text += f"; {mixed} of the groups under different classes"
    found = [Remark("note", text)]
    for scheme in card.schemes:
        split = duplicates.filter(pl.col(scheme).is_in(SPLITS))
        spread = split.group_by("group").agg(pl.col(scheme).unique().sort().alias("splits"))
        spread = spread.filter(pl.col("splits").list.len() > 1)
        if spread.height:
            kinds = spread.group_by(pl.col("splits").list.join("+").alias("splits")).len().sort("splits").rows()
            how = ", ".join(f"{splits} {n}" for splits, n in kinds)
            found.append(
                Remark(
                    "leak", f"{_count(spread.height, 'image')} of exact pixels in several splits of {scheme!r}: {how}"
                )
            )
    return found


def _sizes(card: Card, table: pl.DataFrame, groups: pl.Series) -> pl.DataFrame:
    frame = pl.DataFrame([groups.alias("class"), *(table[s] for s in card.schemes)])
    splits = [pl.col(s).filter(pl.col(s) != "").unique().sort().str.join("+").alias(s) for s in card.schemes]
    return frame.group_by("class").agg(pl.len().alias("images"), *splits).sort("class")


def _feasible(collection: Collection) -> pl.DataFrame:
    rows: list[tuple[str, str, str, int, int, int, int | None]] = []
    for part in _parts(collection):
        of_class, sets = part.datasets
        pools = [("", part.members.sizes)]
        if len(sets) > 1:
            pools += [(name, part.members.sizes[of_class == d]) for d, name in enumerate(sets)]
        for dataset, counts in pools:
            ordered = np.sort(counts)[::-1]
            for ways in sorted(
                {*(w for w in WAYS if w <= len(ordered)), *([len(ordered)] if len(ordered) > 1 else [])}
            ):
                each = int(ordered[ways - 1])
                shots = each - QUERIES if each > QUERIES else None
                rows.append((part.scheme, part.split, dataset, len(ordered), ways, each, shots))
    names = ("scheme", "split", "dataset", "classes", "ways", "images", "shots")
    kinds = (pl.String, pl.String, pl.String, pl.Int64, pl.Int64, pl.Int64, pl.Int64)
    return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")


def _parts(collection: Collection) -> list[Part]:
    table, parts = collection.table, []
    for scheme in collection.card.schemes:
        there = set(table[scheme].drop_nulls().unique().to_list())
        parts += [collection.part(split, scheme) for split in SPLITS if split in there]
    return parts or [collection.whole]


def _feasible_findings(feasible: pl.DataFrame) -> list[Remark]:
    found = []
    if not feasible.height:
        return [Remark("note", "fewer than two classes: no task can be drawn")]
    together = feasible.filter(pl.col("dataset") == "")
    for (scheme, split), frame in together.group_by("scheme", "split", maintain_order=True):
        where = f"{scheme}/{split}" if scheme else str(split)
        most, least = frame.row(-1, named=True), frame.row(0, named=True)
        at = frame.filter(pl.col("ways") == 5).row(0, named=True) if 5 in frame["ways"] else least
        text = (
            f"{where}: {most['classes']} classes; {at['ways']}-way tasks have room for {at['images']} images per class"
        )
        if at["shots"]:
            text += f" ({at['shots']} shots with {QUERIES} queries)"
        found.append(Remark("note", f"{text}, {most['ways']}-way tasks for {most['images']}"))
    return found


def _few(names: list[str] | tuple[str, ...], first: int = 4) -> str:
    return ", ".join(names[:first]) + (f", and {len(names) - first} more" if len(names) > first else "")


def _count(n: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{n} {noun if n == 1 else plural}"
