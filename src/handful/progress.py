"""Progress bars with time left, on stderr, for anything over two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
_silent = False


def silence() -> None:
    """No bars in this process: a worker leaves the terminal to the process that asked."""
    global _silent
    _silent = True


@contextmanager
def bar(title: str, total: int | None, done: int = 0, unit: str = "") -> Iterator[Callable[[int], None]]:
    """A bar that appears only once the work has taken two seconds, and only on a terminal; ``unit`` may be bytes."""
    if _silent or not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if unit == "bytes" else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(title, total=total, completed=done)
    start, shown = time.monotonic(), False

    def advance(n: int) -> None:
        nonlocal shown
        progress.advance(task, n)
        if not shown and time.monotonic() - start > PATIENCE:
            progress.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            progress.stop()
