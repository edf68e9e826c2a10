"""handful demo"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import Seed

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for index.html.")] = Path("demo"),
    seed: Seed = 0,
    steps: Annotated[int, typer.Option("--steps", help="Training steps of each method.")] = 150,
) -> None:
    """Run every setting on the embedded world (two to three minutes) and write one page.

    Example: handful demo --out demo
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from handful._version import __version__
    from handful.report.demo.sections import SECTIONS
    from handful.report.page import page, write_page

    started = time.monotonic()
    sections = []
    bar = Progress(
        TextColumn("{task.description:<34}"), BarColumn(), TimeElapsedColumn(), console=Console(file=sys.stderr)
    )
    with bar:
        work = bar.add_task("demo", total=len(SECTIONS))
        for name, section in SECTIONS.items():
            bar.update(work, description=name)
            sections.append(section(seed, steps))
            bar.advance(work)
        bar.update(work, description="done")
    seconds = time.monotonic() - started
    lead = "Five settings on one embedded world, drawn on the fly: every number below was measured in this run."
    foot = f"handful {__version__}, seed {seed}, {steps} training steps a method, {seconds:.0f} seconds."
    write_page(out / "index.html", page("handful: a first look", lead, sections, foot))
    print(f"{out / 'index.html'} ({seconds:.0f} s); open it in a browser")
