"""The small family of errors that a user can act on.

Whatever is raised from here is printed by the command line as one sentence and ends with exit code 2;
anything else is a bug and shows its traceback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST = 1500
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class HandfulError(Exception):
    """Base of every error whose message is written for the person at the keyboard.

    What it quotes from a file may be a stranger's: whatever would steer a terminal is spelt out, and what is too long is cut.
    """

    def __str__(self) -> str:
        said = _CONTROL.sub(lambda found: ascii(found.group())[1:-1], super().__str__())
        return said if len(said) <= LONGEST else f"{said[: LONGEST - 400]} ... {said[-380:]}"


class BadInput(HandfulError):
    """A file, row, option or array that cannot be used as it is."""


class Infeasible(HandfulError):
    """A rule asks for more classes or images than a collection holds."""


class Mismatch(HandfulError):
    """Two things that do not belong together: a method and a rule, a checkpoint and a backbone, two runs."""


class Missing(HandfulError):
    """An optional package, program or file that the request needs."""


def nearest(name: str, known: Iterable[str], n: int = 3) -> str:
    """Say which known names come closest to ``name``, as the tail of a sentence."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=n, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(names)}" if names else "none are known"


def install_hint(extra: str) -> str:
    """How to get an extra: from the clone that runs, or from the package index."""
    from pathlib import Path

    clone = Path(__file__).resolve().parents[2]
    what = f"-e '{clone}[{extra}]'" if (clone / "pyproject.toml").is_file() else f"'handful[{extra}]'"
    return f"install it with: pip install {what}"


def require(module: str, extra: str):
    """Import an optional package, or say which extra brings it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"{module} is not installed; {install_hint(extra)}") from error
