"""The file of a challenge: reading it, naming what is wrong in it with its line, and the one that `challenge new` writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from handful.challenge.spec import (
    Challenge,
    EnvironmentSpec,
    LeagueSpec,
    LimitSpec,
    PhaseSpec,
    Protocol,
    QuotaSpec,
    TaskSpec,
)
from handful.errors import BadInput, nearest
from handful.files import parse_toml, read_text


def line_of(text: str, path: tuple[Any, ...]) -> int:
    """The line of challenge.toml on which a key (or, failing that, its table) stands."""
    table: list[Any] = []
    counts: dict[str, int] = {}
    best, best_line = 0, 1
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip().replace('"', "", 2) if line.strip().startswith(('"', "[")) else line.strip()
        if match := re.match(r"^\[\[([\w.\-]+)\]\]", stripped):
            counts[match.group(1)] = counts.get(match.group(1), -1) + 1
            here = table = [*match.group(1).split("."), counts[match.group(1)]]
        elif match := re.match(r"^\[([\w.\-]+)\]", stripped):
            here = table = match.group(1).split(".")
        elif match := re.match(r"^([\w.\-]+)\s*=", stripped):
            here = [*table, *match.group(1).split(".")]
        else:
            continue
        shared = _shared(here, path)
        if shared > best and shared in (len(here), len(path)):
            best, best_line = shared, number
    return best_line


def _shared(one: list[Any], two: tuple[Any, ...]) -> int:
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def read(path: Path) -> Challenge:
    """Read and check a challenge's file; what is wrong is named with file and line."""
    try:
        text = read_text(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); make one with: handful challenge new") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise BadInput(f"{path}: {error}; repair that line") from error
    try:
        return Challenge.model_validate(values)
    except ValidationError as error:
        raise BadInput(_sentence(path, text, error)) from error


def _sentence(path: Path, text: str, error: ValidationError) -> str:
    first = error.errors()[0]
    where = tuple(first["loc"])
    line = line_of(text, where)
    key = ".".join(str(part) for part in where) or "the file"
    if first["type"] == "extra_forbidden":
        return f"{path}, line {line}: {key} is not a setting; {nearest(str(where[-1]), _known(where[:-1]))}"
    problem = first["msg"].removeprefix("Value error, ")
    return f"{path}, line {line}: {key}: {problem[0].lower() + problem[1:]}"


def _known(where: tuple[Any, ...]) -> list[str]:
    model: Any = Challenge
    tables = {"tasks": TaskSpec, "protocol": Protocol, "phases": PhaseSpec, "leagues": LeagueSpec, "quota": QuotaSpec}
    tables["environments"] = EnvironmentSpec
    tables["limits"] = LimitSpec
    if where:
        model = tables.get(str(where[0]), Challenge)
    return list(model.model_fields)


TEMPLATE = """\
name = "{name}"
title = "{title}"
text = "Learn any task from a few images: 2 to 20 classes, 1 to 20 examples of each, from data sets you have not seen."
image_size = 128
# score: mean normalised accuracy over all tasks; ranks: ranks by data set, averaged (as at NeurIPS 2021)
ranking = "score"
scrutiny_days = 14
# Markdown beside this file, shown as a page. approval = true: an organiser lets each account in.
rules = "rules.md"
approval = false

# Any rule of the library that shows labelled images (handful ls rules), with its options.
[tasks]
rule = "any-way"
ways = [2, 20]
shots = [1, 20]
queries = 20

[protocol]
# cross-domain: meta-train on the public data sets, meta-test on others.
# within-domain: split the classes of each data set into train, valid and test.
kind = "cross-domain"

# A folder (or packed collection) of data sets in Meta-Album's layout for each phase, in their order. A phase has a role:
# public (data to train on), feedback (open for submissions; there may be several, each with a name of its own and
# role = "feedback"), final. The final data are not read before the final phase has begun.
# begins = 2026-03-01T12:00:00Z and ends = ... open and close a phase by themselves; without them the organiser does.
[phases.public]
data = "data/public"
log = "full"

[phases.feedback]
data = "data/feedback"
tasks_per_dataset = 100
hours = 5
log = "tail"

[phases.final]
data = "data/final"
tasks_per_dataset = 600
hours = 9
seeds = 3
log = "code"

[quota]
per_day = 2
total = 100
failures_per_day = 20
failures_total = 500
compute_hours = 500

[limits]
memory_mb = 16384
processes = 128
threads = 1
load_seconds = 60
train_hours = 5
fit_seconds = 120
predict_seconds = 120

[[leagues]]
name = "free-style"
title = "Free-style"
baseline = 0.587

[[leagues]]
name = "meta-learning"
title = "Meta-learning"
baseline = 0.361
# no weights in the archive, and packages that carry weights are hidden; packages = ["scipy"] would show these alone
pretrained = false

[[leagues]]
name = "new-in-ml"
title = "New in ML"
baseline = 0.361
members = "every member of the team has fewer than ten machine-learning papers"

[[leagues]]
name = "women"
title = "Women"
baseline = 0.361
members = "every member of the team is a woman"

[[leagues]]
name = "rare-country"
title = "Rarely represented countries"
baseline = 0.361
members = "every member of the team is from a country outside the ten most represented"
"""
