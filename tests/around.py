"""What the machine has beside Python, looked up in this one place; HANDFUL_TEST_WITHOUT=bubblewrap,wordnet hides it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

PROGRAMS = {
    "bubblewrap": ("bwrap",),
    "postgresql": ("initdb", "pg_ctl", "postgres", "psql"),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
}
KNOWN = (*PROGRAMS, "wordnet", "data")
WITHOUT = frozenset(filter(None, os.environ.get("HANDFUL_TEST_WITHOUT", "").split(",")))
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data() -> Path | None:
    """The folder of real data beside the project."""
    return DATA if DATA.is_dir() and "data" not in WITHOUT else None


def program(name: str) -> str | None:
    """Where a program is: on the PATH, or where Debian keeps PostgreSQL's."""
    found = shutil.which(name)
    if found is None and name in PROGRAMS["postgresql"] and "postgresql" not in WITHOUT:
        found = next((str(p) for p in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None)
    return found


def hide() -> None:
    """Take what is to be missing out of sight, for this process and for those that it starts."""
    if wrong := WITHOUT - set(KNOWN):
        raise SystemExit(f"HANDFUL_TEST_WITHOUT knows {', '.join(KNOWN)}, not {', '.join(sorted(wrong))}")
    gone = {file for name in WITHOUT for file in PROGRAMS.get(name, ())}
    places = []
    for number, place in enumerate(os.environ["PATH"].split(os.pathsep)):
        if any(Path(place, file).exists() for file in gone):
            copy = Path(tempfile.mkdtemp(prefix=f"handful-path-{number}-"))
            for file in Path(place).iterdir():
                if file.name not in gone:
                    (copy / file.name).symlink_to(file)
            place = str(copy)
        places.append(place)
    os.environ["PATH"] = os.pathsep.join(places)
    if "wordnet" in WITHOUT:
        from handful.data import wordnet

        wordnet.places = lambda: iter(())


def not_tried(reasons: list[str]) -> str:
    """One line of what skipped tests lacked; their reasons say "needs this: and why"."""
    counts = Counter(r.removeprefix("Skipped: ").removeprefix("needs ").partition(":")[0] for r in reasons)
    shown = [f"{what} ({n} test{'s' if n > 1 else ''})" for what, n in counts.most_common()]
    return f"not tried here: {', '.join(shown)}" if shown else ""
