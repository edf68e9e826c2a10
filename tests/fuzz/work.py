"""The process that reads damaged files: it can die of one, and whoever started it then knows of which.

    python work.py READER SEED FIRST LAST ROOM

It says which input it begins, and what came of it, in lines of JSON on its standard output.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import shutil
import sys
import traceback
import warnings
import zlib
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MEMORY = 4 << 30
# What reading may leave beside its input.
MARKS = {"verified.json"}


def main() -> None:
    name, seed, first, last = sys.argv[1], *map(int, sys.argv[2:5])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(TESTS))

    from fuzz.readers import READERS

    reader = READERS[name]
    room = Path(sys.argv[5])
    os.environ["HANDFUL_CACHE"] = str(room / "cache")
    reader.make(room / "sound")
    files = content(room / "sound")
    reader.read(room / "sound")
    os.dup2(quiet, 2)
    _limit()
    for number in range(first, last):
        print(json.dumps({"begin": number}), file=out, flush=True)
        print(json.dumps({"end": number, **attempt(reader, room, files, seed, number)}), file=out, flush=True)


def attempt(reader, room: Path, files: dict[str, bytes], seed: int, number: int, quiet: bool = True) -> dict[str, str]:
    """Read one damaged copy: what came of it, and why that is a fault if it is."""
    import numpy as np

    from fuzz.damage import damaged
    from handful.errors import HandfulError

    place = room / "copy"
    shutil.rmtree(place, ignore_errors=True)
    rng = np.random.default_rng([seed, zlib.crc32(reader.name.encode()), number])
    chosen = [n for n in sorted(files) if re.search(reader.damages, n)]
    known = list(reader.known.values())
    made = dict(files)
    if number < len(known):
        made |= known[number](files)
    else:
        for name in rng.choice(chosen, size=1 if rng.random() < 0.9 or len(chosen) < 2 else 2, replace=False):
            made[name] = damaged(name, made[name], rng)
    for name, data in made.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    try:
        reader.read(place)
    except HandfulError as error:
        said = str(error)
        if "\n" in said or "\x1b" in said or len(said) > 1600:
            return {"came": "fault", "why": f"not one sentence: {said[:300]!r} ({len(said)} characters)"}
        left = {p.relative_to(place).as_posix() for p in _files(place)} - set(made)
        if left := {n for n in left if n.rpartition("/")[2] not in MARKS}:
            return {"came": "fault", "why": f"refused, but left {sorted(left)[:5]}"}
        return {"came": "refused", "said": said.replace(str(place), "")[:100]}
    except BaseException as error:
        if not quiet:
            traceback.print_exc()
        at = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)][-4:]
        return {"came": "fault", "why": f"{type(error).__name__}: {str(error)[:200]} at {' < '.join(reversed(at))}"}
    return {"came": "read"}


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in _files(folder)}


def _files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file()]


def _limit() -> None:
    """No more memory than this beside what is in use, no core files: what takes more is a fault that is found."""
    faulthandler.disable()
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
