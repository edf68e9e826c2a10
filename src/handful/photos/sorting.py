"""Photos copied into one folder for each answer."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from handful.errors import BadInput
from handful.files import fresh_folder
from handful.photos.answers import Answers


def sort_into(answers: Answers, target: str | os.PathLike[str]) -> dict[str, int]:
    """Copy every photo into ``target/ANSWER/``, all of them or none; how many went into each folder.

    Two photos of one name keep both: the second gets a number. The folder must not exist yet, so that nothing is mixed.
    """
    target = Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target} is there already; name a folder that does not exist yet")
    lost = [p for p in answers.photos if not Path(p).is_file()]
    if lost:
        raise BadInput(f"{lost[0]} is no file of its own, so it cannot be copied; give photos or folders of photos")
    counts: dict[str, int] = {}
    with fresh_folder(target, force=False) as folder:
        for photo, answer in zip(answers.photos, answers, strict=True):
            place = folder / folder_name(answer)
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy2(photo, _free(place / Path(photo).name))
            counts[answer] = counts.get(answer, 0) + 1
    return counts


def folder_name(answer: str) -> str:
    """A class as the name of one folder: nothing that leads elsewhere."""
    name = re.sub(r"[/\\:\x00-\x1f]+", "-", answer).strip(" .") or "class"
    return name[:100]


def _free(path: Path) -> Path:
    number = 2
    chosen = path
    while chosen.exists():
        chosen, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return chosen
