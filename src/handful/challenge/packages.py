"""Which installed packages a league shows: all, all without stored weights, or the listed ones with what they need."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
from pathlib import Path

from handful.challenge import walls
from handful.challenge.archive import WEIGHTS
from handful.errors import BadInput

ALWAYS = ("numpy", "torch")
_LARGE = 1 << 20
_SITES = ("site-packages", "dist-packages")


def _fold(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def carriers() -> tuple[Path, ...]:
    """What carries weights among all that submitted code could import: whole packages, or less where that is enough."""
    found: dict[Path, None] = {}
    for root in (*walls.interpreter_roots(), *(place for place in walls.system_folders() if "/python3" in place)):
        for place, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                path = Path(place, name)
                if path.suffix.lower() in WEIGHTS and path.is_file() and path.stat().st_size > _LARGE:
                    found[_top(path)] = None
    return tuple(sorted(found))


def _top(path: Path) -> Path:
    """The package that a file belongs to: what lies right inside the folder of packages, or else the file itself.

    Of a package whose tests alone hold such a file, as scipy's do, the tests: nothing imports them.
    """
    for package in path.parents:
        if package.parent.name in _SITES:
            tests = [parent for parent in path.parents if package in parent.parents and parent.name == "tests"]
            return tests[-1] if tests else package
    return path


def _needs(names: tuple[str, ...]) -> set[str]:
    """Distributions by name, with all that they require without extras."""
    wanted, queue = set(), [_fold(name) for name in names]
    while queue:
        name = queue.pop()
        if name in wanted:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            if name in (_fold(each) for each in names):
                raise BadInput(
                    f"the package {name} of the league is not installed here; install it or leave it out"
                ) from None
            continue
        wanted.add(name)
        queue += [_fold(re.split(r"[ ;<>=!~\[(]", line, maxsplit=1)[0]) for line in requires if "extra ==" not in line]
    return wanted


def hidden(pretrained: bool, listed: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Files and folders of installed packages that a league does not show.

    ``listed`` are distributions that may be imported, besides numpy and torch; none listed: all. Where pretrained weights
    are not allowed, packages that carry some are hidden in any case.
    """
    out = set() if pretrained else set(carriers())
    if listed:
        wanted = _needs((*ALWAYS, *listed))
        shown: set[Path] = set()
        sites: set[Path] = set()
        for each in importlib.metadata.distributions():
            site = Path(str(each.locate_file("")))
            sites.add(site)
            if _fold(each.metadata["Name"]) in wanted:
                shown |= {site / file.parts[0] for file in each.files or () if file.parts[0] != ".."}
        out |= {entry for site in sites if site.name in _SITES for entry in site.iterdir() if entry not in shown}
    return tuple(sorted(path for path in out if not any(parent in out for parent in path.parents)))
