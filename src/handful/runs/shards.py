"""A recipe's table in pieces, such as the jobs of a Slurm array that share a folder, and the pieces put together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from handful.errors import BadInput, Mismatch
from handful.runs.run import Run

if TYPE_CHECKING:
    from handful.runs.matrix import Cell, Matrix

Shard = tuple[int, int]


def parse_shard(text: str) -> Shard:
    """``3/16`` is the third of sixteen."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise BadInput(f"--shard {text} is not a piece of a whole; write 3/16 for the third of sixteen")
    return int(found[1]), int(found[2])


def gathered(matrix: Matrix, out: Path) -> Iterator[tuple[Cell, Run]]:
    """The finished run of every cell; nothing is trained or evaluated."""
    cells = [cell for row in matrix.rows() for cell in matrix.cells(row)]
    missing = [cell for cell in cells if not (matrix.place(cell, out) / "tasks.parquet").is_file()]
    if missing:
        first = f"{matrix.spec(missing[0].row).title}, {missing[0].labels[0]}, training seed {missing[0].row.seed}"
        raise BadInput(
            f"{out} lacks {len(missing)} of {len(cells)} runs (first {first}); run their shards, then gather again"
        )
    for cell in cells:
        run, test = Run.open(matrix.place(cell, out)), matrix.test(cell)
        wanted = {
            "collection": matrix.source.id,
            "n": matrix.tasks or test.tasks,
            "seed": test.seed,
            "repeats": test.repeats,
        }
        if differ := [k for k, v in wanted.items() if run.identity.get(k) != v]:
            raise Mismatch(
                f"{run.path} was run with another {differ[0]} ({run.identity.get(differ[0])}, not {wanted[differ[0]]}); give "
                "the options that its shard was run with"
            )
        yield cell, run
