"""Work that costs processor or disk, a few pieces at a time; a line that is too long is turned away, not stalled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from handful.challenge.web.refused import Refused

T = TypeVar("T")
BUSY = Refused(503, "Too many people are here at once; try again in a few seconds.", retry=5)


class Crowd:
    """Hashing and unzipping: ``at_once`` threads of their own, at most ``line`` pieces of work waiting or running."""

    def __init__(self, at_once: int = 2, line: int = 128) -> None:
        self.threads = ThreadPoolExecutor(at_once, "handful-heavy")
        self.line, self.inside = line, 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work when its turn comes."""
        if self.inside >= self.line:
            raise BUSY
        self.inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        finally:
            self.inside -= 1


class Seats:
    """Uploads under way: so many in all and so many of one account, so that slow senders cannot fill the disk."""

    def __init__(self, total: int = 64, each: int = 3) -> None:
        self.total, self.each = total, each
        self.taken: Counter[int] = Counter()

    @contextmanager
    def one(self, account: int) -> Iterator[None]:
        """A seat for one upload, or a refusal."""
        if self.taken.total() >= self.total:
            raise BUSY
        if self.taken[account] >= self.each:
            raise Refused(503, f"{self.each} uploads of yours are under way; wait until one is done.", retry=10)
        self.taken[account] += 1
        try:
            yield
        finally:
            self.taken[account] -= 1
