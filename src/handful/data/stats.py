"""Counts of a collection by split, class, data set and context; the tables and the figure of concept x context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from handful.data.collection import SPLITS, Collection
from handful.data.splits import SplitRule
from handful.errors import BadInput, nearest
from handful.files import write_atomically
from handful.frames import write_frame

SHORT = {"train": "train", "valid": "val", "test": "test"}


@dataclass(frozen=True)
class Stats:
    """Counts of images.

    Attributes
    ----------
    summary
        One row, as Table 1 of MetaCoCo (Zhang et al., ICLR 2024) has it: classes and samples, all and by split, and the
        number of contexts.
    by_split
        split, classes, images, and the fewest, median and most images per class.
    by_class
        As its Table 4: split (train, valid, test), class, images; the largest first within a split.
    by_dataset, by_context
        images and classes a data set or context; None where the collection has no such column.
    grid
        As its Table 5: a row a context, a column a concept, images in the cells; contexts by their number of images,
        concepts in the order of ``by_class``. None without contexts.
    """

    name: str
    scheme: str
    summary: pl.DataFrame
    by_split: pl.DataFrame
    by_class: pl.DataFrame
    by_dataset: pl.DataFrame | None
    by_context: pl.DataFrame | None
    grid: pl.DataFrame | None

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """The tables that there are, by name."""
        every = ("summary", "by_split", "by_class", "by_dataset", "by_context", "grid")
        return {n: f for n in every if (f := getattr(self, n)) is not None}

    def save(self, folder: str | Path) -> None:
        """Every table as CSV."""
        for name, frame in self.frames.items():
            write_atomically(Path(folder) / f"{name}.csv", partial(write_frame, frame, kind="csv"))


def stats(collection: Collection, scheme: str | None = None) -> Stats:
    """Count a collection under one of its split schemes (the first by default)."""
    card, table = collection.card, collection.table
    scheme = scheme or (card.schemes[0] if card.schemes else "")
    if scheme and scheme not in card.schemes:
        raise BadInput(f"{card.name} has no split scheme {scheme!r}; {nearest(scheme, card.schemes)}")
    facts: dict[str, Any] = {
        "class": SplitRule().groups(card, table).fill_null("(none)"),
        "split": table[scheme].fill_null("") if scheme else pl.repeat("", len(table), dtype=pl.String, eager=True),
    }
    if card.context:
        facts["context"] = table[card.context].cast(pl.String).fill_null("(none)")
    if "dataset" in table.columns:
        facts["dataset"] = table["dataset"].fill_null("(none)")
    frame = pl.DataFrame(facts)
    by_class = _by_class(frame)
    return Stats(
        card.name,
        scheme,
        _summary(card.name, frame),
        _by_split(frame),
        by_class,
        _by(frame, "dataset") if "dataset" in facts else None,
        _by(frame, "context") if card.context else None,
        _grid(frame, by_class) if card.context else None,
    )


def _rank() -> pl.Expr:
    """Train, test, valid in the library's order; no split last."""
    return pl.col("split").replace_strict(
        {s: i for i, s in enumerate(SPLITS)}, default=len(SPLITS), return_dtype=pl.Int64
    )


def _summary(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    row: dict[str, Any] = {"dataset": name, "C_all": frame["class"].n_unique()}
    parts = {short: frame.filter(pl.col("split") == split) for split, short in SHORT.items()}
    row |= {f"C_{short}": part["class"].n_unique() for short, part in parts.items()}
    row |= {"N_all": frame.height} | {f"N_{short}": part.height for short, part in parts.items()}
    row["contexts"] = frame["context"].n_unique() if "context" in frame.columns else 0
    return pl.DataFrame([row])


def _by_split(frame: pl.DataFrame) -> pl.DataFrame:
    sizes = frame.group_by("split", "class").len("images")
    counted = sizes.group_by("split").agg(
        pl.len().alias("classes"),
        pl.col("images").sum(),
        pl.col("images").min().alias("fewest"),
        pl.col("images").median().alias("median"),
        pl.col("images").max().alias("most"),
    )
    return counted.sort(_rank())


def _by_class(frame: pl.DataFrame) -> pl.DataFrame:
    sizes = frame.group_by("split", "class").len("images")
    return sizes.sort(_rank(), -pl.col("images").cast(pl.Int64), "class")


def _by(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    counted = frame.group_by(column).agg(pl.len().alias("images"), pl.col("class").n_unique().alias("classes"))
    return counted.sort(-pl.col("images").cast(pl.Int64), column)


def _grid(frame: pl.DataFrame, by_class: pl.DataFrame) -> pl.DataFrame:
    order = by_class["class"].unique(maintain_order=True).to_list()
    contexts = _by(frame, "context")["context"].to_list()
    cells = np.zeros((len(contexts), len(order)), dtype=np.int64)
    counted = frame.group_by("context", "class").len("images")
    row, column = {c: i for i, c in enumerate(contexts)}, {c: i for i, c in enumerate(order)}
    for context, concept, images in counted.rows():
        cells[row[context], column[concept]] = images
    clash = {name: f"{name} " if name == "context" else name for name in order}
    return pl.DataFrame({"context": contexts} | {clash[name]: cells[:, i] for i, name in enumerate(order)})


def heat_map(counts: Stats) -> Any:
    """A Matplotlib figure of the concept x context counts, on a logarithmic scale; empty cells are blank."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    if counts.grid is None:
        raise BadInput(f"{counts.name} has no context column, so there is no grid of concepts and contexts to draw")
    contexts, concepts = counts.grid["context"].to_list(), counts.grid.columns[1:]
    cells = counts.grid.drop("context").to_numpy().astype(float)
    width, height = max(4.0, 0.16 * len(concepts) + 3), max(3.0, 0.16 * len(contexts) + 2)
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    shown = np.ma.masked_equal(cells, 0)
    low = float(shown.min()) if shown.count() else 1.0
    image = axes.imshow(
        shown, cmap="viridis", norm=LogNorm(low, max(low + 1, cells.max())), aspect="auto", interpolation="none"
    )
    axes.set_xticks(range(len(concepts)), concepts, rotation=90, fontsize=7)
    axes.set_yticks(range(len(contexts)), contexts, fontsize=7)
    if cells.size <= 200:
        shade = np.asarray(image.norm(shown))
        for (i, j), n in np.ndenumerate(cells):
            if n:
                dark = shade[i, j] < 0.6
                axes.text(j, i, f"{int(n)}", ha="center", va="center", fontsize=7, color="white" if dark else "black")
    filled = np.count_nonzero(cells) / cells.size
    axes.set_title(f"{counts.name}: images by concept and context ({filled:.0%} of the cells filled)", fontsize=9)
    figure.colorbar(image, ax=axes, label="images", shrink=0.8)
    return figure


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure as the kind of file its name says (png, svg, pdf)."""
    place = Path(path)
    kind = place.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise BadInput(f"{place}: figures are saved as .png, .svg or .pdf; name the file so")
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        write_atomically(place, lambda t: figure.savefig(t, format=kind))
