"""Tables as text: what the command line prints, and Markdown, CSV and LaTeX of the same."""

from __future__ import annotations

import polars as pl

from handful.runs.recipe import RecipeResult


def recipe_text(result: RecipeResult) -> str:
    """A recipe's table for the terminal, reported numbers in brackets."""
    recipe, frame = result.recipe, result.frame
    head = f"{recipe.title}" + (f" ({recipe.paper}, {recipe.table})" if recipe.paper else "")
    lines = [head, f"measured on {result.collection.id}: mean ± 95% half interval; [reported]"]
    if frame["reported"].is_not_null().any():
        where = recipe.reported_on or "the paper's own collection"
        lines.append(
            f"the reported numbers are from {where}: another collection than this one unless it is the same data"
        )
    lines.append(markdown(recipe_grid(result)))
    if recipe.note:
        lines.append(recipe.note)
    return "\n".join(lines)


def recipe_grid(result: RecipeResult) -> pl.DataFrame:
    """One row a method, one column a test, each cell a text."""
    rows: dict[str, dict[str, str]] = {}
    for r in result.frame.iter_rows(named=True):
        cell = f"{r['measured']:.2f} ± {r['half']:.2f}"
        if r["reported"] is not None:
            half = f" ± {r['reported_half']:.2f}" if r["reported_half"] is not None else ""
            cell += f" [{r['reported']:.2f}{half}]"
        rows.setdefault(r["method"], {})[r["test"]] = cell
    labels = [t.label for t in result.recipe.test]
    return pl.DataFrame([{"method": m, **{t: cells.get(t, "") for t in labels}} for m, cells in rows.items()])


def markdown(frame: pl.DataFrame) -> str:
    """A GitHub-style table, columns aligned."""
    cells = [frame.columns, *[[_text(v) for v in row] for row in frame.rows()]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(frame.columns))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def latex(frame: pl.DataFrame) -> str:
    """A booktabs table."""
    escape = str.maketrans({"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$"})
    rows = [" & ".join(_text(v).translate(escape) for v in row) + r" \\" for row in frame.rows()]
    head = " & ".join(c.translate(escape) for c in frame.columns) + r" \\"
    shape = "l" + "r" * (len(frame.columns) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
