"""The default engine: every core of this machine, by threads or by processes, whichever is sooner done.

Threads cost nothing to start and share memory, but take turns at Python itself, so that work of many small operations may be slower
on two than on one; processes do not, and cost seconds to start. So the first items are worked here and timed, the next ones on
threads, which go on if they help, and processes are started, once, only where they would save more than they cost. Which it is changes no number: an item is worked on one core with one thread on either.
"""

from __future__ import annotations

import functools
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import local
from typing import Any

from handful.clock import add, measuring
from handful.cores import cores, stay_on_one
from handful.runs.engine import Processes, Work, at_least_one

BRIEF = 0.2
"""Seconds of work that are not worth a thread."""
USELESS = 0.9
"""Threads that take this much of one core's time an item, or more, are given up."""
STARTING, STARTED = 6.0, 1.0
"""Seconds that processes must save: more than starting them takes, and more than a context takes to reach them later."""


class EveryCore:
    """As many items at a time as this process has cores.

    A context whose items may be worked on threads of one process has a method ``for_thread``, which gives each of them a context
    of its own, or None.
    """

    name, local, here = "cores", True, True

    def __init__(self, workers: int | None = None):
        at_least_one(workers)
        self.workers = workers or cores()
        self._processes: Processes | None = None

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()
            self._processes = None

    def map(self, work: Work, context: Any, items: Sequence[Any]) -> Iterator[Any]:
        waiting, took = deque(items), 0.0
        for _ in range(2):  # the first also pays for imports and caches, so that a brief one says little
            if waiting and took < 1:
                start = time.perf_counter()
                result = work(context, waiting.popleft())
                took = time.perf_counter() - start
                yield result
        several = self.workers > 1 and len(waiting) > 1 and took * len(waiting) > BRIEF

        def processes_pay(each: float) -> bool:
            """Whether processes would sooner be done than now, when an item is done every ``each`` seconds."""
            saved = each * len(waiting) - took * -(-len(waiting) // self.workers)
            return saved > (STARTED if self._processes else STARTING)

        if several and (own := getattr(context, "for_thread", lambda: None)()) is not None:
            yield from on_threads(
                self.workers, work, context, own, waiting, lambda each: each > USELESS * took or processes_pay(each)
            )
        if several and waiting and processes_pay(took) and can_be_sent(context):
            yield from self._on_processes(work, context, waiting)
        while waiting:
            yield work(context, waiting.popleft())

    def _on_processes(self, work: Work, context: Any, waiting: deque[Any]) -> Iterator[Any]:
        self._processes = self._processes or Processes(self.workers)
        items = list(waiting)
        waiting.clear()
        for result, seconds in self._processes.map(functools.partial(clocked, work), context, items):
            add(seconds)
            yield result


def can_be_sent(context: Any) -> bool:
    """Whether processes can be started from the program that runs, and would understand the context.

    They begin by importing its main file, which a script without ``if __name__ == "__main__":`` does not survive, and know
    nothing of what a notebook has defined. Such work stays here; who asks for ``workers`` gets processes all the same.
    """
    try:
        sent = pickle.dumps(context, protocol=5)
    except Exception:  # a lambda, a lock, an open file: whatever a plug-in keeps
        return False
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None:
        return b"__main__" not in sent
    try:
        text = Path(main).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "__name__" in text and "__main__" in text


def on_threads(
    threads: int, work: Work, context: Any, first: Any, waiting: deque[Any], enough: Callable[[float], bool]
) -> Iterator[Any]:
    """Items on threads of this process, each on one core; ends early, with the rest still waiting, when ``enough`` says so of the
    seconds per item."""
    spare, mine = [first], local()

    def begin() -> None:
        import torch

        stay_on_one()
        torch.set_num_threads(1)

    def one(item: Any) -> tuple[Any, dict[str, float]]:
        if not hasattr(mine, "context"):
            mine.context = spare.pop() if spare else context.for_thread()
        return clocked(work, mine.context, item)

    under_way: set[Future[Any]] = set()
    start, done, ends = time.perf_counter(), 0, False
    pool = ThreadPoolExecutor(min(threads, len(waiting)), "handful", begin)
    try:
        while under_way or (waiting and not ends):
            while waiting and not ends and len(under_way) < 2 * threads:
                under_way.add(pool.submit(one, waiting.popleft()))
            # A bounded wait: polars' signal handler restarts system calls, so Ctrl-C would not wake this thread.
            finished, under_way = wait(under_way, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in finished:
                result, seconds = future.result()
                add(seconds)
                done += 1
                yield result
            ends = ends or (done >= threads and enough((time.perf_counter() - start) / done))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def clocked(work: Work, context: Any, item: Any) -> tuple[Any, dict[str, float]]:
    """The work and its phases, where the clock of the one who asks does not see them."""
    with measuring() as clock:
        result = work(context, item)
    return result, dict(clock.seconds)
