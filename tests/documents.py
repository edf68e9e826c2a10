"""The commands of the documents: found in the text, made small, and run in a folder that has what they mention."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    str(p.relative_to(ROOT)) for p in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
)
PROGRAMS = ("handful", "python", "make", "pip", "tensorboard")
SHELLS = ("bash", "sh", "console", "shell")

# What is shown and not run, by how it begins, and why. Each must be somewhere in the documents.
NOT_RUN = {
    "make demo": "makes a virtual environment; the verb behind it is run by the tests of the command line",
    "make test": "would run these tests inside themselves",
    "pip install": "changes the environment; the plug-in is put on the path instead",
    "tensorboard --logdir": "serves until it is stopped; the event files are read back by the tests of tracking",
    "python benchmarks/": "measured runs of minutes to hours; the scripts and their options are checked to exist",
    "handful data get ": "downloads, or needs an archive; run against a server of their own by the tests of downloading",
    "handful data verify": "needs what was downloaded; run by the tests of downloading",
    "handful run spine/omniglot": "36 minutes; the recipe is checked to exist",
    "handful train protonet packed/omniglot": "half an hour; training from the command line is run by its own tests",
    "handful run rlcl/table1": "a table of minutes; the recipe is checked to exist",
    "handful data pack CIFAR-FS": "needs the data set; packed by the tests of the models that come with the library",
    "handful data pack uoft-cs/cifar100": "asks the hub; names of the hub are tried by the tests of tables",
    "handful run cifar-fs/table": "trains for hours; the recipe is checked to exist",
    "handful audit packed/pacs packed/mine --only image-text": "needs a CLIP checkpoint; run by the tests of image-text similarity",
    "handful data stats packed/pacs --clip": "needs a CLIP checkpoint; run by the tests of image-text similarity",
    "handful audit COLLECTION --only cscc": "trains networks for half a minute; run by the tests of clustering",
    "handful studio": "serves until it is stopped; run by the tests of the studio",
    "handful predict model --serve": "serves until it is stopped; run by the tests of the studio",
    "handful challenge serve": "serves until it is stopped; run by the tests of challenges",
    "handful challenge work": "works until it is stopped; run by the tests of challenges",
    "handful challenge submit": "needs a service; run by the tests of challenges",
    "handful challenge export": "needs a challenge that has been run; run by the tests of challenges",
    "handful challenge run": "needs containment and the organiser's data; run by the tests of challenges",
    "handful challenge clone": "needs a challenge; run by the tests of challenges",
    "handful challenge codabench": "needs a bundle; run by the tests of challenges",
    "handful challenge password": "needs an account; run by the tests of challenges",
    "handful challenge validate": "needs the organiser's data; run by the tests of challenges",
}

# What makes a command small, in order; each is used somewhere.
SMALLER = (
    (r"--(tasks|n) (\d{3,})", r"--\1 3"),
    (r"schedule\.steps=\d+", "schedule.steps=2"),
    (r"schedule\.validate_every=\d+", "schedule.validate_every=1 -s schedule.validate_tasks=2"),
    (r"(handful eval (?:pair-protonet|protonet|matchingnet) (?!.*schedule).*)", r"\1 -s schedule.steps=2"),
    (r"(handful eval nearest-centroid (?!.*--tasks).*)", r"\1 --tasks 3"),
    (r"--minutes \d+", "--minutes 0.02"),
    (r"run metacoco/table6", "run spine/quick"),
    (r"(handful run \S+)", r"\1 --tasks 2 --steps 1"),
    (r"\bOMNIGLOT\b", "omniglot"),
    (r"\bCOLLECTION\b", "packed/tiny"),
    (r"net=lite0", "net=lite0:size=32"),
    (r"-n 500", "-n 5"),
    (r"mask=0.16", "mask=0.6"),
    (r"trivial,eszsl,sgcn", "trivial,eszsl"),
)


def commands(text: str) -> list[str]:
    """Lines of shell blocks, and lines of indented blocks that begin with a program's name; comments are cut off."""
    found: list[str] = []
    fence: str | None = None
    joined = ""
    for line in text.splitlines():
        if (mark := re.match(r"\s*```+\s*(\w*)", line)) is not None:
            fence = (mark[1] or "text") if fence is None else None
            continue
        bare = line.strip().removeprefix("$ ")
        shown = fence in SHELLS or (
            fence is None and line.startswith("    ") and bool(joined or bare.split(" ")[0].split("=")[0] in PROGRAMS)
        )
        if not shown or not bare or bare.startswith("#"):
            continue
        joined += bare
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        found.append(shlex.join(shlex.split(joined, comments=True)))
        joined = ""
    return found


def of_words(command: str) -> bool:
    """Whether a command needs WordNet's class lists and features."""
    return any(w in command for w in ("zero-shot", "structural-bias", "features.npz"))


def reason_not_to_run(command: str) -> str | None:
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


def smaller(command: str, used: set[str] | None = None) -> str:
    for pattern, instead in SMALLER:
        new = re.sub(pattern, instead, command)
        if new != command and used is not None:
            used.add(pattern)
        command = new
    return command


def assignments(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """``NAME=value program ...`` as the environment and the rest."""
    at = next((i for i, w in enumerate(words) if not re.fullmatch(r"[A-Z_]+=.*", w)), len(words))
    return dict(w.split("=", 1) for w in words[:at]), words[at:]


def call(command: str) -> int:
    """Run a ``handful`` command in this process; its exit code."""
    from handful.cli import main

    environment, words = assignments(shlex.split(command))
    before = {k: os.environ.get(k) for k in environment}
    os.environ.update(environment)
    try:
        main(words[1:])
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    return 0


def python_blocks(text: str) -> list[str]:
    """Python that is shown to be run: blocks without a title (those with one are files)."""
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def files(text: str) -> dict[str, str]:
    """Blocks with ``title="path"``: whole files."""
    return {m[1]: m[2] for m in re.finditer(r'```\w+ title="([^"]+)"\n(.*?)```', text, flags=re.S)}
