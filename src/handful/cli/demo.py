"""handful demo"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Seed, usable_folder

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for index.html, report.html and audit.html.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps of each method.")] = 90,
) -> None:
    """Run every setting on the embedded world (two to three minutes) and write pages to look at.

    Examples:

    handful demo --out demo

    handful demo --out demo --seed 1 --steps 200
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from handful._version import __version__
    from handful.demo.sections import AUDIT, SETTINGS, run_part
    from handful.report.page import page, write_page
    from handful.report.report import Report
    from handful.runs.engine import make_engine

    usable_folder(out)
    started = time.monotonic()
    done: dict[str, Any] = {}
    bar = Progress(
        TextColumn("{task.description:<34}"), BarColumn(), TimeElapsedColumn(), console=Console(file=sys.stderr)
    )
    with bar:
        names = [*SETTINGS, AUDIT]
        work = bar.add_task("demo", total=len(names) + 1)
        for name, part in make_engine(workers=min(2, os.cpu_count() or 1)).map(run_part, (seed, steps, out), names):
            done[name] = part
            bar.update(work, description=f"{name}: done")
            bar.advance(work)
        parts = [done[name] for name in SETTINGS]
        for part in parts:
            part.keep(out / "runs")
        entries = [entry for part in parts for entry in part.entries]
        Report(entries, title="The demo's methods compared", pictures=1).save(out / "report.html")
        bar.advance(work)
    seconds = time.monotonic() - started
    lead = "Five settings on one embedded world, drawn on the fly, and what is beyond accuracy: every number below was measured in this run."
    foot = f"handful {__version__}, seed {seed}, {steps} training steps per method, {seconds:.0f} seconds."
    links = {"The methods compared": "report.html", "A benchmark audited": "audit.html"}
    write_page(out / "index.html", page("handful: a first look", lead, [p.section for p in parts], foot, links))
    print(f"{out / 'index.html'}, report.html and audit.html ({seconds:.0f} s); open them in a browser")
