"""A plan: what is to be repaired, in a file that a person can read and edit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from handful import registry
from handful.data.collection import SPLITS, Collection
from handful.errors import BadInput, Mismatch, nearest
from handful.files import parse_toml, read_text, write_atomically
from handful.repair.kinds import ACTIONS, Entry

PLAN = "plan.toml"
FILES = 20
"""File names that are written beside the rows of one entry."""
TOML_SAFE = 3_500_000
"""Letters that a plan may have; beyond, file names are left out."""


@dataclass
class Plan:
    """What was found in a collection, and what of it is to be done.

    Attributes
    ----------
    collection, place
        Its id, and what opens it.
    asked
        The options under which it was made.
    left_out
        Why a kind of repair was not asked.
    notes
        How images were looked at.
    """

    collection: str
    place: str
    entries: list[Entry] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def counted(self) -> dict[str, tuple[int, int]]:
        """By kind: entries, and those of them that are confirmed."""
        out: dict[str, tuple[int, int]] = {}
        for e in self.entries:
            found, done = out.get(e.kind, (0, 0))
            out[e.kind] = found + 1, done + e.confirm
        return out

    def __str__(self) -> str:
        lines = [f"plan for {self.collection}"]
        for kind in registry.table("repairs"):
            mine = [e for e in self.entries if e.kind == kind]
            if kind in self.left_out:
                lines.append(f"  {kind}: not asked: {self.left_out[kind]}")
            elif mine:
                images = {r for e in mine for r in e.rows}
                done = sum(e.confirm for e in mine)
                lines.append(
                    f"  {kind}: {len(mine):,} found ({len(images):,} images), {done:,} to be done; first: {mine[0].why}"
                )
            elif not self.entries or kind not in self.asked.get("only", [kind]):
                continue
        return "\n".join([*lines, *(f"  {n}" for n in self.notes)])

    def only(self, kinds: Sequence[str]) -> Plan:
        return dataclasses.replace(self, entries=[e for e in self.entries if e.kind in kinds])

    def confirming(self, kinds: Sequence[str], confirm: bool = True) -> Plan:
        """The plan with all entries of these kinds confirmed (or none of them)."""
        entries = [
            dataclasses.replace(e, confirm=confirm) if e.kind in kinds and e.action != "name" else e
            for e in self.entries
        ]
        return dataclasses.replace(self, entries=entries)

    def keeping(self, rows: set[int]) -> Plan:
        """The plan without anything that is done to these images."""
        entries = []
        for e in self.entries:
            left = tuple(r for r in e.rows if r not in rows)
            if left or not e.rows:
                entries.append(dataclasses.replace(e, rows=left))
        return dataclasses.replace(self, entries=entries)

    def text(self, collection: Collection | None = None) -> str:
        """TOML; file names beside the rows where the collection has them."""
        files = None
        if collection is not None:
            column = next((c for c in ("file", "source_file") if c in collection.table.columns), None)
            files = None if column is None else collection.table[column].fill_null("").to_list()
        whole = self._text(files)
        return whole if len(whole) < TOML_SAFE else self._text(None)

    def _text(self, files: list[str] | None) -> str:
        lines = [HEAD, 'handful = "plan"', f"collection = {toml(self.collection)}", f"place = {toml(self.place)}"]
        for name, table in (("asked", self.asked), ("left_out", self.left_out)):
            if table:
                lines += ["", f"[{name}]", *(f"{toml(k)} = {toml(v)}" for k, v in table.items())]
        lines += ["", "[notes]", f"lines = {toml(self.notes)}"]
        for e in self.entries:
            lines += [
                "",
                "[[repair]]",
                f"kind = {toml(e.kind)}",
                f"action = {toml(e.action)}",
                f"confirm = {toml(e.confirm)}",
            ]
            lines += [f"why = {toml(e.why)}", f"measure = {toml(e.measure)}", f"evidence = {toml(e.evidence)}"]
            lines.append(f"rows = {toml(list(e.rows))}")
            if files is not None and e.rows:
                lines.append(f"files = {toml([files[r] for r in e.rows[:FILES]])}")
            lines += [
                f"{k} = {toml(getattr(e, k))}"
                for k, usual in (("to", ""), ("weight", 1.0), ("rule", {}), ("facts", {}))
                if getattr(e, k) != usual
            ]
        return "\n".join(lines) + "\n"

    def save(self, path: Path, collection: Collection | None = None) -> Path:
        write_atomically(path, lambda t: t.write_text(self.text(collection), encoding="utf-8"))
        return path

    @classmethod
    def read(cls, path: Path) -> Plan:
        """A plan that may have been edited; whatever is wrong with it is said with the number of its entry."""
        try:
            facts = parse_toml(read_text(path))
        except (OSError, ValueError) as error:
            raise BadInput(
                f"{path} cannot be read as a plan ({error}); write one with: handful repair COLLECTION --out F --plan-only"
            ) from error
        if facts.get("handful") != "plan" or not isinstance(facts.get("collection"), str):
            raise BadInput(
                f"{path} is no plan of repairs; write one with: handful repair COLLECTION --out FOLDER --plan-only"
            )
        found = facts.get("repair", [])
        if not isinstance(found, list):
            raise BadInput(f"{path}: entries are written [[repair]], with two brackets")
        entries = [entry(one, f"{path}, repair {i}") for i, one in enumerate(found, start=1)]
        tables: list[dict[str, Any]] = [
            facts[k] if isinstance(facts.get(k), dict) else {} for k in ("asked", "left_out", "notes")
        ]
        notes = tables[2].get("lines", [])
        return cls(
            facts["collection"], str(facts.get("place", "")), entries, tables[0],
            {str(k): str(v) for k, v in tables[1].items()}, [str(n) for n in notes] if isinstance(notes, list) else [],
        )  # fmt: skip

    def check(self, collection: Collection) -> None:
        """Refuse a plan of another collection, or one that names images or splits that are not there."""
        if self.collection != collection.id:
            raise Mismatch(
                f"the plan is for {self.collection}, not for {collection.id}; make a new one for this collection"
            )
        for i, e in enumerate(self.entries, start=1):
            if e.rows and not 0 <= min(e.rows) <= max(e.rows) < len(collection):
                wrong = next(r for r in e.rows if not 0 <= r < len(collection))
                raise BadInput(
                    f"repair {i} of the plan names image {wrong}; {collection.card.name} has images 0 to {len(collection) - 1}"
                )


HEAD = """# What handful repair found. Nothing here is deleted from the collection: what is applied is a mask, a split and weights over it.
# Edit: confirm = true applies an entry, confirm = false only lists it; take out an entry, or rows of it, to keep those images.
# Then: handful repair COLLECTION --out FIXED --plan THIS_FILE"""


def entry(facts: Any, where: str) -> Entry:
    """One entry of a plan, checked."""
    if not isinstance(facts, dict):
        raise BadInput(f"{where} is no table; entries are written [[repair]]")
    known = {f.name: f for f in dataclasses.fields(Entry)}
    given = {k: v for k, v in facts.items() if k != "files"}
    for name in given:
        if name not in known:
            raise BadInput(f"{where} has {name!r}, which is no part of an entry; {nearest(name, known)}")
    for name in ("kind", "action"):
        if not isinstance(given.get(name), str):
            raise BadInput(f'{where} has no {name}; write {name} = "..."')
    if given["kind"] not in registry.table("repairs"):
        raise BadInput(
            f"{where}: there is no repair {given['kind']!r}; {nearest(given['kind'], registry.table('repairs'))}"
        )
    if given["action"] not in ACTIONS:
        raise BadInput(f"{where}: there is no action {given['action']!r}; {nearest(given['action'], ACTIONS)}")
    rows = given.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(r, int) and not isinstance(r, bool) for r in rows):
        raise BadInput(f"{where}: rows must be a list of image numbers")
    if not isinstance(given.setdefault("confirm", True), bool):
        raise BadInput(f"{where}: confirm must be true or false")
    for name in ("evidence", "weight"):
        value = given.get(name, 1.0)
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise BadInput(f"{where}: {name} must be a number")
        given[name] = float(value)
    if given["weight"] <= 0:
        raise BadInput(f"{where}: weight must be above 0, not {given['weight']:g}; drop an image to leave it out")
    for name in ("why", "measure", "to"):
        if not isinstance(given.setdefault(name, ""), str):
            raise BadInput(f"{where}: {name} must be text")
    for name in ("rule", "facts"):
        if not isinstance(given.setdefault(name, {}), dict):
            raise BadInput(f'{where}: {name} must be a table, such as {{rule = "balanced"}}')
    if given["action"] == "move" and given["to"] not in SPLITS:
        raise BadInput(f"{where} moves images to {given['to']!r}; {nearest(given['to'], SPLITS)}")
    if given["action"] == "draw" and given["rule"].get("rule") not in registry.table("rules"):
        raise BadInput(
            f"{where} draws by no known rule; {nearest(str(given['rule'].get('rule')), registry.table('rules'))}"
        )
    return Entry(**{**given, "rows": tuple(rows)})


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value) if isfinite(value) else ("nan" if value != value else ("inf" if value > 0 else "-inf"))
    return str(value)
