"""Progress with time left, on standard error, for anything over two seconds: a bar on a terminal, lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 2.0
EVERY = 30.0
_silent = False


class Advance(Protocol):
    """Say that ``n`` more are done; ``note`` stands beside the bar or in the next line."""

    def __call__(self, n: int, note: str = "") -> None: ...


def silence() -> None:
    """No progress from this process: a worker leaves the terminal to the process that asked."""
    global _silent
    _silent = True


def note(text: str) -> None:
    """One line on standard error."""
    if not _silent:
        print(f"handful: {text}", file=sys.stderr, flush=True)


@contextmanager
def bar(title: str, total: int | None, done: int = 0, unit: str = "") -> Iterator[Advance]:
    """A bar that appears once the work has taken two seconds; in a log, a line every half minute. ``unit`` may be bytes."""
    if _silent:
        yield lambda n, note="": None
    elif sys.stderr.isatty():
        with _on_terminal(title, total, done, unit) as advance:
            yield advance
    else:
        yield lines(title, total, done, unit)


def lines(
    title: str, total: int | None, done: int = 0, unit: str = "", clock: Callable[[], float] = time.monotonic
) -> Advance:
    """Progress for a log: a line every half minute, the first after that time."""
    start = last = clock()
    first = done

    def advance(n: int, note: str = "") -> None:
        nonlocal done, last
        done += n
        now = clock()
        if now - last < EVERY:
            return
        last = now
        rate = (done - first) / (now - start)
        text = f"{title}: {done:,}"
        if total:
            text += f" of {total:,} ({100 * done / total:.0f}%)"
            text += f", {duration((total - done) / rate)} left" if rate else ""
        text += f" {unit}" if unit else ""
        print(f"handful: {text}{', ' + note if note else ''}", file=sys.stderr, flush=True)

    return advance


def duration(seconds: float) -> str:
    """Time as people write it: 0:42, 12:05, 3:20:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def _on_terminal(title: str, total: int | None, done: int, unit: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if unit == "bytes" else MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(title, total=total, completed=done, note="")
    start, shown = time.monotonic(), False

    def advance(n: int, note: str = "") -> None:
        nonlocal shown
        progress.update(task, advance=n, note=note or progress.tasks[0].fields["note"])
        if not shown and time.monotonic() - start > PATIENCE:
            progress.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            progress.stop()
