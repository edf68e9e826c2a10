"""Wrong command lines, made from the command line's own definitions: a right one for each verb, with one thing spoilt."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from handful.cli import VERBS, app

# A right command line of each verb; words in braces are places that the tests make.
RIGHT = {
    "demo": "--out {new}",
    "ls": "methods",
    "data get": "wordnet --to {new} --from {folder}",
    "data verify": "wordnet",
    "data pack": "{photos} {new} --size 8",
    "data check": "{packed}",
    "data stats": "{packed}",
    "data split": "{packed}",
    "data show": "{packed} --out {new}.png",
    "data export": "{packed} {new} --as folders",
    "tasks draw": "{packed} --ways 3 --shots 1 --queries 2 --tasks 2",
    "fit": "{photos} --out {new} --net pixels",
    "predict": "{model} {photos}",
    "studio": "{photos} --no-browser --net pixels",
    "train": "protonet {packed} --out {new} --ways 3 --shots 1 --queries 2 -s schedule.steps=1",
    "eval": "nearest-centroid {packed} --ways 3 --shots 1 --queries 2 --tasks 2",
    "run": "{recipe} --collection {packed} --out {new} --tasks 2",
    "compare": "{run} {run}",
    "report": "{run} --out {new}.html",
    "report figures": "{packed} --out {new} --tasks 2 --steps 1",
    "zero-shot build": "--train {list} --candidates {list} -n 2 --out {new}.txt",
    "zero-shot hops": "--train {list} --candidates {list} --out {new}.txt",
    "zero-shot analyse": "eszsl {packed}",
    "zero-shot select": "{packed} --out {new}",
    "challenge new": "{new}",
    "challenge clone": "{challenge} {new}",
    "challenge codabench": "{folder} {new}",
    "challenge validate": "{challenge}",
    "challenge run": "{challenge} {folder}",
    "challenge pack": "protonet {new}.zip",
    "challenge serve": "{challenge}",
    "challenge work": "{challenge}",
    "challenge submit": "nowhere {list} --league free",
    "challenge export": "{challenge}",
    "challenge password": "{challenge} somebody",
    "audit": "{packed} --net pixels --minutes 0.01",
    "repair": "{packed} --out {new} --net pixels --minutes 0.05 --no-certificate",
    "verify-certificate": "{fixed} --quick",
    "court": "tip-adapter {packed} --tasks 2",
    "cache ls": "",
    "cache clear": "",
}


@dataclass(frozen=True)
class Wrong:
    """A command line with one thing wrong, and what that is."""

    what: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return self.what


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command by its words, as the command line itself knows it."""
    root = typer.main.get_command(app)
    for verb in VERBS:
        command = root.get_command(None, verb)  # type: ignore[attr-defined]
        for name, inner in getattr(command, "commands", {"": command}).items():
            yield f"{verb} {name}".strip(), inner


def kinds(command: Any) -> dict[str, type]:
    """The plain type of each parameter: of ``Annotated[list[str] | None, ...]`` that is str."""
    found = {}
    for name, hint in typing.get_type_hints(inspect.unwrap(command.callback)).items():
        while args := [a for a in typing.get_args(hint) if a is not types.NoneType]:
            hint = args[0]
        found[name] = hint
    return found


# What looks wrong to the generator and is right, or is answered later and otherwise.
RIGHT_AFTER_ALL = {
    ("data split", "scheme"): "names a new one",
    ("predict", "sort_into", "{folder}"): "an empty folder is taken",
    ("challenge run", "submission"): "a submission's fault is the submitter's: exit code 1, as the service tells it",
    ("challenge pack", "out", "{folder}"): "an empty folder is taken",
    ("challenge export", "tables", "{folder}"): "a folder is wanted",
    ("repair", "out", "{folder}"): "a folder is wanted",
    ("studio", "folder", "{folder}"): "an empty folder waits for photos",
    ("challenge export", "site", "{folder}"): "a folder is wanted",
    ("audit", "clip"): "may be a hub's name; only image-text asks for it",
    ("data stats", "clip"): "may be a hub's name, which only the network knows",
    **{
        (f"challenge {v}", "state", "{folder}"): "a folder is wanted"
        for v in ("run", "serve", "work", "export", "password")
    },
    **{(f"challenge {v}", "storage"): "an address, perhaps of a folder yet to be made" for v in ("serve", "work")},
}

# Text that can be anything, or is checked only by another machine.
FREE = {"title", "name", "data_version", "licence", "template", "token", "url", "organiser", "host", "address"}
FREE |= {"behind_proxy", "environment"}


def spoilt() -> list[Wrong]:
    """Every verb with an option that is none, with a word too many or too few, and each parameter with values it cannot have."""
    found = []
    for verb, command in leaves():
        right = RIGHT[verb].split()
        start = (*verb.split(), *right)
        found.append(Wrong(f"{verb}: an option that is none", (*start, "--no-such-option")))
        if not any(p.nargs == -1 for p in command.params) and verb != "ls":
            found.append(Wrong(f"{verb}: a word too many", (*start, "too-many")))
        if any(p.required and p.param_type_name == "argument" for p in command.params):
            found.append(Wrong(f"{verb}: no argument", tuple(verb.split())))
        kind_of = kinds(command)
        for p in command.params:
            if p.name == "help" or getattr(p, "is_flag", False) or p.name not in kind_of:
                continue
            for value in values(p.name, kind_of[p.name], p.help or ""):
                if {(verb, p.name), (verb, p.name, value)} & RIGHT_AFTER_ALL.keys():
                    continue
                if p.param_type_name == "argument":
                    at = [q.name for q in command.params if q.param_type_name == "argument"].index(p.name)
                    words = (*verb.split(), *right[:at], value, *right[at + 1 :])
                else:
                    words = (*start, p.opts[0], value)
                found.append(Wrong(f"{verb}: {p.opts[0] if p.opts else p.name} {value}", words))
    return found


def values(name: str, kind: type, text: str) -> tuple[str, ...]:
    """What a parameter of that name and type must refuse."""
    if kind is int:
        return ("many", "1.5") if name == "seed" else ("many", "-1")
    if kind is float:
        return ("much", "-1", "nan")
    if kind is Path:
        return ("{file}/below/it.html", "{file}" if "older" in text else "{folder}")
    return () if name in FREE else ("no/such-thing",)
