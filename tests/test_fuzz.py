"""Damaged files for every reader: each is read, or refused in one sentence with nothing left behind; never anything else."""

from __future__ import annotations

import os
import time

import pytest

from fuzz.engine import Tally, fuzz
from fuzz.readers import READERS

SEED = int(os.environ.get("HANDFUL_TEST_SEED", "0"))


def judge(tally: Tally) -> None:
    found = [f"scripts/fuzz --only {tally.reader} --seed {SEED} --input {n}: {why}" for n, why in tally.faults.items()]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["recipe", "run", "submission", "features-npz", "episodes", "image-png"])
def test_what_was_found_once_and_some_more(name):
    tally = fuzz(name, SEED, 0, len(READERS[name].known) + 20)
    judge(tally)
    assert tally.inputs >= 20 and tally.came["refused"]


@pytest.mark.slow
def test_a_minute_over_every_reader():
    """At least the known cases and some damage each, then as much as the minute holds."""
    until = time.monotonic() + 60
    share = 60 / len(READERS)
    for name, reader in READERS.items():
        least = len(reader.known) + 5
        judge(fuzz(name, SEED, 0, least))
        if time.monotonic() < until:
            judge(fuzz(name, SEED, least, 10**9, min(until, time.monotonic() + share)))


def test_a_reader_that_breaks_litters_or_says_too_much_is_found(tmp_path, monkeypatch):
    """The finder itself: a reader that fails in each way is caught in each."""
    from fuzz import work
    from fuzz.reader import Reader
    from handful.errors import BadInput

    def breaks(folder):
        raise KeyError("x")

    def litters(folder):
        (folder / "half").write_text("")
        raise BadInput("no")

    def talks(folder):
        error = BadInput("no")
        error.__class__ = type("Loud", (BadInput,), {"__str__": lambda self: "two\nlines"})
        raise error

    for read, word in ((breaks, "KeyError"), (litters, "half"), (talks, "not one sentence")):
        reader = Reader("made", lambda folder: None, read)
        came = work.attempt(reader, tmp_path, {"a.json": b'{"a": 1}'}, 0, 0)
        assert came["came"] == "fault" and word in came["why"]
