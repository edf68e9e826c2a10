"""A Codabench bundle (competition.yaml) as a challenge: what maps is taken over, what does not is named."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

from handful.challenge.archive import clean_name
from handful.challenge.spec_file import TEMPLATE
from handful.errors import BadInput, require
from handful.files import read_text

MAPPED = {"title", "description", "version", "phases", "terms", "registration_auto_approve", "leaderboards"}
PHASE = {"name", "description", "start", "end", "index", "max_submissions_per_day", "max_submissions"}
PHASE |= {"execution_time_limit", "auto_migrate_to_this_phase"}
MOST = 1 << 20


def read_bundle(folder: Path) -> dict[str, Any]:
    """What competition.yaml says."""
    path = folder / "competition.yaml" if folder.is_dir() else folder
    yaml = require("yaml", "serve")
    try:
        if path.stat().st_size > MOST:
            raise BadInput(f"{path} is larger than a competition's description; name the right file")
        text = read_text(path)
        # Names that stand for other parts could make a small file a huge one.
        if re.search(r"(?m)(^|[\s\[,:-])[&*][\w-]+", text):
            raise BadInput(f"{path} uses YAML anchors; write the parts out")
        facts = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} cannot be read as YAML ({str(error).splitlines()[0]}); repair it") from error
    if not isinstance(facts, dict) or not isinstance(facts.get("phases"), list) or not facts["phases"]:
        raise BadInput(f"{path} is no Codabench competition: it has no list of phases")
    return facts


def convert(folder: Path, name: str) -> tuple[str, str, list[str]]:
    """challenge.toml, rules.md, and what of the bundle has no counterpart here."""
    facts = read_bundle(folder)
    left = [f"{key} (of the competition)" for key in facts if key not in MAPPED]
    phases = [phase for phase in facts["phases"] if isinstance(phase, dict)]
    text = TEMPLATE.format(name=name, title=_text(facts.get("title"), 120) or name)
    if words := _text(facts.get("description"), 2000):
        text = re.sub(r'^text = ".*"$', lambda _: f'text = "{words}"', text, count=1, flags=re.M)
    if facts.get("registration_auto_approve") is False:
        text = text.replace("approval = false", "approval = true")
    # The last phase decides, the ones before take submissions; Codabench knows no phase of public data alone.
    tables = []
    for i, phase in enumerate(phases):
        left += [f"{key} (of phase {i + 1})" for key in phase if key not in PHASE]
        final = i == len(phases) - 1 and len(phases) > 1
        tables.append(_phase(phase, "final" if final else _slug(phase, i), "final" if final else "feedback"))
    if len(phases) == 1:
        tables.append(
            '[phases.final]\ndata = "data/final"\ntasks_per_dataset = 600\nhours = 9\nseeds = 3\nlog = "code"\n'
        )
    before, rest = text.split("[phases.feedback]", 1)
    text = before + "\n".join(tables) + "\n[quota]" + rest.split("[quota]", 1)[1]
    first = phases[0]
    for ours, theirs in (("per_day", "max_submissions_per_day"), ("total", "max_submissions")):
        if isinstance(first.get(theirs), int) and first[theirs] > 0:
            text = re.sub(rf"(?m)^{ours} = \d+", f"{ours} = {first[theirs]}", text, count=1)
    columns = [
        c for board in facts.get("leaderboards") or [] if isinstance(board, dict) for c in board.get("columns") or []
    ]
    if columns:
        left.append(f"{len(columns)} leaderboard columns: the score is the normalised accuracy of the tasks")
    left.append("scoring and ingestion programs: submissions are scored by the library")
    return text, _rules(folder, facts.get("terms")), left


def _phase(phase: dict[str, Any], name: str, role: str) -> str:
    lines = [f"[phases.{name}]", f'role = "{role}"', f'data = "data/{name}"']
    lines += (
        ["tasks_per_dataset = 600", "seeds = 3", 'log = "code"'] if role == "final" else ["tasks_per_dataset = 100"]
    )
    limit = phase.get("execution_time_limit")
    hours = limit / 3600 if isinstance(limit, (int, float)) and limit > 0 else 9 if role == "final" else 5
    lines.append(f"hours = {hours:g}")
    for ours, theirs in (("begins", "start"), ("ends", "end")):
        if at := _time(phase.get(theirs)):
            lines.append(f"{ours} = {at}")
    return "\n".join(lines) + "\n"


def _time(value: Any) -> str:
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise BadInput(f"{value[:40]!r} is no date; write it as 2026-03-01T12:00:00Z") from error
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    return f"{value.isoformat()}T00:00:00+00:00" if isinstance(value, dt.date) else ""


def _slug(phase: dict[str, Any], i: int) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", _text(phase.get("name"), 40).lower()).strip("-")[:16].strip("-")
    return f"{name or 'phase'}-{i + 1}" if name in ("", "public", "final") or i else name


def _rules(folder: Path, terms: Any) -> str:
    """The page of terms, if it lies inside the bundle."""
    if not isinstance(terms, str) or not folder.is_dir():
        return ""
    path = (folder / terms).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file() or path.stat().st_size > MOST:
        return ""
    return read_text(path)


def _text(value: Any, most: int) -> str:
    """A stranger's text on one line, fit to stand between quotes in a TOML file."""
    return clean_name(value, most).replace("\\", "").replace('"', "'") if isinstance(value, str) else ""
