"""Engines: where chunks of tasks are worked. An engine never changes a number.

Work is cut into items that can be done again without harm, so an engine may lose a worker and ask another.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from handful import registry
from handful.cores import cores
from handful.errors import BadInput, HandfulError

RETRIES = 3

Work = Callable[[Any, Any], Any]


class Engine(Protocol):
    """Calls ``work(context, item)`` for every item, in any order and anywhere.

    ``workers`` is how many items are worked at a time; ``local`` says that the workers see this machine's files, ``here`` that
    the work runs in this very process, whose clock has seen it and whose memory it shares. Plug-ins register theirs under the
    entry-point group ``handful.engines``.
    """

    name: str
    local: bool
    here: bool

    @property
    def workers(self) -> int: ...

    def map(self, work: Work, context: Any, items: Sequence[Any]) -> Iterator[Any]: ...

    def close(self) -> None: ...


def at_least_one(workers: int | None) -> None:
    if workers is not None and workers < 1:
        raise BadInput(f"workers must be at least 1, not {workers}")


class Inline:
    """This process."""

    name, local, here = "inline", True, True

    def __init__(self, workers: int = 1):
        at_least_one(workers)
        if workers > 1:
            raise BadInput(f"the inline engine has one worker, not {workers}; use --engine processes")
        self.workers = 1

    def close(self) -> None:
        pass

    def map(self, work: Work, context: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            yield work(context, item)


_HELD: tuple[str, Any] | None = None


def _begin() -> None:
    """A worker has one core: its siblings have the others."""
    os.environ["HANDFUL_CORES"] = "1"
    import torch

    from handful.progress import silence

    silence()
    torch.set_num_threads(1)


def _call(parcel: str, work: Work, item: Any) -> Any:
    """One item, in a worker, which unpacks a context once."""
    global _HELD
    if _HELD is None or _HELD[0] != parcel:
        _HELD = None
        _HELD = (parcel, pickle.loads(Path(parcel).read_bytes()))
    return work(_HELD[1], item)


class Processes:
    """Worker processes on this machine, kept from one map to the next; a context reaches each of them once.

    When a worker dies (killed, out of memory) the items under way are given to new workers, each at most ``retries`` times
    again.
    """

    name, local, here = "processes", True, False

    def __init__(self, workers: int | None = None, retries: int = RETRIES):
        at_least_one(workers)
        self.workers, self.retries = workers or cores(), retries
        self._pool: ProcessPoolExecutor | None = None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def map(self, work: Work, context: Any, items: Sequence[Any]) -> Iterator[Any]:
        waiting: deque[tuple[Any, int]] = deque((item, 0) for item in items)
        if not waiting:
            return
        with tempfile.TemporaryDirectory(prefix="handful-") as folder:
            parcel = Path(folder) / "context"
            # By value: what multiprocessing would make of tensors are handles that one worker can open once.
            parcel.write_bytes(pickle.dumps(context, protocol=5))
            while waiting:
                lost: list[tuple[Any, int]] = []
                yield from self._until_one_dies(work, str(parcel), waiting, lost)
                if lost:
                    self.close()
                waiting.extendleft((item, self._again(tries)) for item, tries in reversed(lost))

    def _until_one_dies(
        self, work: Work, parcel: str, waiting: deque[tuple[Any, int]], lost: list[tuple[Any, int]]
    ) -> Iterator[Any]:
        """Results until all is done or a worker has died; then ``lost`` holds what was under way."""
        pool = self._pool = self._pool or ProcessPoolExecutor(self.workers, get_context("spawn"), _begin)
        under_way: dict[Future[Any], tuple[Any, int]] = {}
        try:
            while (waiting or under_way) and not lost:
                while waiting and len(under_way) < 2 * self.workers:
                    entry = waiting.popleft()
                    try:
                        under_way[pool.submit(_call, parcel, work, entry[0])] = entry
                    except BrokenProcessPool:
                        lost.append(entry)
                        break
                # A bounded wait: polars' signal handler restarts system calls, so Ctrl-C would not wake this thread.
                done, _ = wait(under_way, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in [f for f in under_way if f in done]:
                    entry = under_way.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        lost.append(entry)
                    else:
                        yield future.result()
        finally:
            for future in under_way:
                future.cancel()
        lost += under_way.values() if lost else []

    def _again(self, tries: int) -> int:
        if tries >= self.retries:
            raise died("a worker process", tries + 1)
        return tries + 1


def died(what: str, times: int) -> HandfulError:
    """The one sentence when retrying did not help."""
    return HandfulError(
        f"{what} died {times} times over the same work (out of memory, or killed); lower --workers or --batch and run the "
        "same command again to go on"
    )


def make_engine(name: str | Engine | None = None, workers: int | None = None, address: str | None = None) -> Engine:
    """The engine of a name: ``cores``, ``inline``, ``processes`` or ``ray``; without one, every core, or as many processes as workers.

    Parameters
    ----------
    workers
        Items at a time: 1 inline; by default all cores of this machine, or the cluster's for Ray.
    address
        Of a Ray cluster: ``auto`` for the one on this machine, HOST:PORT; without it a cluster of this machine is started.
    """
    if name is not None and not isinstance(name, str):
        return name
    if name is None:
        name = "ray" if address else "cores" if workers is None else "processes" if workers > 1 else "inline"
    given = {"workers": workers, "address": address}
    return registry.make("engines", name, {k: v for k, v in given.items() if v is not None})
