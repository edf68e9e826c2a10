"""Engines: where chunks of tasks are worked. An engine never changes a number."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from handful.errors import BadInput, HandfulError

Work = Callable[[Any], Any]


class Engine(Protocol):
    """Calls ``work(context, item)`` for every item, in any order and anywhere."""

    def map(self, work: Callable[[Any, Any], Any], context: Any, items: Sequence[Any]) -> Iterator[Any]: ...


class Inline:
    """This process."""

    def map(self, work: Callable[[Any, Any], Any], context: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            yield work(context, item)


_CONTEXT: Any = None


def _begin(context: Any) -> None:
    global _CONTEXT
    import torch

    torch.set_num_threads(1)
    _CONTEXT = context


def _call(work: Callable[[Any, Any], Any], item: Any) -> Any:
    return work(_CONTEXT, item)


class Processes:
    """Worker processes on this machine; the context reaches each of them once."""

    def __init__(self, workers: int):
        if workers < 1:
            raise BadInput(f"workers must be at least 1, not {workers}")
        self.workers = workers

    def map(self, work: Callable[[Any, Any], Any], context: Any, items: Sequence[Any]) -> Iterator[Any]:
        spawn = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(self.workers, spawn, _begin, (context,)) as pool:
                waiting = iter(items)
                under_way: set[Any] = set()
                try:
                    while True:
                        while len(under_way) < 2 * self.workers and (item := next(waiting, None)) is not None:
                            under_way.add(pool.submit(_call, work, item))
                        if not under_way:
                            return
                        # A bounded wait: polars' signal handler restarts system calls, so Ctrl-C would not wake this thread.
                        done, under_way = wait(under_way, timeout=0.5, return_when=FIRST_COMPLETED)
                        for future in done:
                            yield future.result()
                finally:
                    for future in under_way:
                        future.cancel()
        except BrokenProcessPool as error:
            raise HandfulError(
                "a worker process died (out of memory, or killed); run the same command again to go on"
            ) from error


def engine(workers: int = 1) -> Engine:
    return Inline() if workers <= 1 else Processes(workers)
