"""Tables as text: what the command line prints, and Markdown, CSV and LaTeX of the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from handful.errors import BadInput, nearest
from handful.files import write_atomically
from handful.metrics.base import SHOWN
from handful.report.page import Table
from handful.runs.filled import RecipeResult, footnotes
from handful.runs.run import marked

FORMATS = {"csv": "csv", "latex": "tex", "markdown": "md"}
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        "†": r"\textdagger{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": r"$-$",
        "\n": " ",
        "\r": " ",
    }
)
MARKDOWN = str.maketrans(
    {
        "\\": "\\\\",
        "|": "\\|",
        "`": "\\`",
        "*": "\\*",
        "_": "\\_",
        "[": "\\[",
        "<": "&lt;",
        "&": "&amp;",
        "\n": " ",
        "\r": " ",
    }
)


@dataclass(frozen=True)
class Sheet:
    """A table in two forms: ``frame`` with its numbers in full, ``shown`` as a person reads it.

    ``bold`` are cells (row, column) of ``shown`` set in bold: the best and what ties with it.
    """

    name: str
    frame: pl.DataFrame
    shown: pl.DataFrame
    caption: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()

    def table(self) -> Table:
        return Table(self.shown, self.caption, self.bold)

    def text(self, form: str) -> str:
        """The whole file in one of `FORMATS`."""
        if form == "csv":
            return self.frame.write_csv()
        caption = " ".join(self.caption.split())
        if form == "markdown":
            head = f"{caption.translate(MARKDOWN)}\n\n" if caption else ""
            return f"{head}{markdown(self.shown, self.bold, escaped=True)}\n"
        return (f"% {caption}\n" if caption else "") + latex(self.shown, self.bold) + "\n"

    def write(self, folder: Path, formats: tuple[str, ...] = tuple(FORMATS)) -> list[Path]:
        """One file a format, named after the table."""
        out = []
        for form in formats:
            if form not in FORMATS:
                raise BadInput(f"there is no table format {form!r}; {nearest(form, FORMATS)}")
            path, text = folder / f"{self.name}.{FORMATS[form]}", self.text(form)
            write_atomically(path, lambda t, text=text: t.write_text(text, encoding="utf-8"))  # type: ignore[misc]
            out.append(path)
        return out


def recipe_text(result: RecipeResult) -> str:
    """A recipe's table for the terminal, reported numbers in brackets."""
    recipe, frame = result.recipe, result.frame
    head = f"{recipe.title}" + (f" ({recipe.paper}, {recipe.table})" if recipe.paper else "")
    counts = sorted({len(run.frame) for run in result.runs.values()})
    many = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}" if counts else "no"
    lines = [
        head,
        f"measured on {result.collection.id}, {many} tasks per cell: mean ± {SHOWN} half interval; [reported]",
    ]
    if frame["reported"].is_not_null().any():
        where = recipe.reported_on or "the paper's own collection"
        lines.append(
            f"the reported numbers are from {where}: another collection than this one unless it is the same data"
        )
    grid = recipe_grid(result)
    lines += [markdown(grid), *footnotes(grid["method"], frame["learning"])]
    if recipe.note:
        lines.append(recipe.note)
    return "\n".join(lines)


def recipe_grid(result: RecipeResult) -> pl.DataFrame:
    """One row per method (with GL, LL, TT and its backbone where it has them), one column per test, each cell a text."""
    return cells_grid(result.frame, [t.label for t in result.recipe.test])


def cells_grid(frame: pl.DataFrame, tests: list[str]) -> pl.DataFrame:
    """The cells of a recipe's frame as a grid, reported numbers in brackets."""
    rows: dict[str, dict[str, str]] = {}
    facts: dict[str, dict[str, str]] = {"learning": {}, "net": {}}
    for r in frame.iter_rows(named=True):
        cell = f"{r['measured']:.2f} ± {r['half']:.2f}"
        if r["reported"] is not None:
            half = f" ± {r['reported_half']:.2f}" if r["reported_half"] is not None else ""
            cell += f" [{r['reported']:.2f}{half}]"
        method = marked(r["method"], r["transductive"])
        rows.setdefault(method, {})[r["test"]] = cell
        for name, found in facts.items():
            found[method] = r[name]
    columns: dict[str, list[str]] = {"method": list(rows)}
    for name, found in facts.items():
        if any(found.values()):
            columns[unused(name, tests)] = [found[m] for m in rows]
    return pl.DataFrame({**columns, **{t: [cells.get(t, "") for cells in rows.values()] for t in tests}})


def unused(name: str, taken: list[str]) -> str:
    """A column's name that no test has."""
    while name in taken:
        name += " "
    return name


def markdown(frame: pl.DataFrame, bold: frozenset[tuple[int, int]] = frozenset(), escaped: bool = False) -> str:
    """A GitHub-style table, columns aligned; ``escaped`` for files, where names may hold Markdown's own signs."""

    def cell(value: object, place: tuple[int, int] | None = None) -> str:
        text = _text(value).translate(MARKDOWN) if escaped else _text(value)
        return f"**{text}**" if place in bold and text else text

    cells = [[cell(c) for c in frame.columns]]
    cells += [[cell(v, (i, j)) for j, v in enumerate(row)] for i, row in enumerate(frame.rows())]
    widths = [max(len(row[i]) for row in cells) for i in range(len(frame.columns))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def latex(frame: pl.DataFrame, bold: frozenset[tuple[int, int]] = frozenset()) -> str:
    """A booktabs table (``\\usepackage{booktabs}``); names may hold LaTeX's own signs."""

    def cell(value: object, place: tuple[int, int]) -> str:
        text = _text(value).translate(LATEX)
        return rf"\textbf{{{text}}}" if place in bold and text else text

    rows = [" & ".join(cell(v, (i, j)) for j, v in enumerate(row)) + r" \\" for i, row in enumerate(frame.rows())]
    head = " & ".join(c.translate(LATEX) for c in frame.columns) + r" \\"
    shape = "l" + "r" * (len(frame.columns) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
