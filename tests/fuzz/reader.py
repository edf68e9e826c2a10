"""Every reader of files that a stranger may have written: a sound example of what it reads, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Files = dict[str, bytes]


@dataclass(frozen=True)
class Reader:
    """``make`` writes a sound example into a folder that is not there, ``read`` reads all that is in such a folder.

    Files whose names match ``damages`` are damaged. ``known`` are cases that were found once: each gives the files of an
    example that differ in it; they are the first inputs. ``share`` is how many turns it takes: slow readers take several.
    """

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    damages: str = ""
    known: Mapping[str, Callable[[Files], Files]] = field(default_factory=dict)
    share: int = 1
