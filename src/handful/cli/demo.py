"""handful demo"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Seed

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for index.html.")] = Path("demo"),
    seed: Seed = 0,
    steps: Annotated[int, typer.Option("--steps", help="Training steps of each method.")] = 120,
) -> None:
    """Run every setting on the embedded world (two to three minutes) and write one page.

    Example: handful demo --out demo
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from handful._version import __version__
    from handful.report.demo.sections import SECTIONS, run_section
    from handful.report.page import page, write_page
    from handful.runs.engine import engine

    started = time.monotonic()
    done: dict[str, Any] = {}
    bar = Progress(
        TextColumn("{task.description:<34}"), BarColumn(), TimeElapsedColumn(), console=Console(file=sys.stderr)
    )
    with bar:
        work = bar.add_task("demo", total=len(SECTIONS))
        names = list(SECTIONS)
        for name, section in engine(min(2, os.cpu_count() or 1)).map(run_section, (seed, steps), names):
            done[name] = section
            bar.update(work, description=f"{name}: done")
            bar.advance(work)
    seconds = time.monotonic() - started
    lead = "Five settings on one embedded world, drawn on the fly: every number below was measured in this run."
    foot = f"handful {__version__}, seed {seed}, {steps} training steps a method, {seconds:.0f} seconds."
    write_page(out / "index.html", page("handful: a first look", lead, [done[n] for n in SECTIONS], foot))
    print(f"{out / 'index.html'} ({seconds:.0f} s); open it in a browser")
