"""repair: a plan for a collection, and the collection that the plan makes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful import registry
from handful.audits.context import Context
from handful.data.collection import Collection, Part, open_packed
from handful.data.store import BESIDE, OVER, Over, write_over
from handful.data.taxonomy_csv import from_csv
from handful.errors import BadInput, HandfulError, Infeasible
from handful.files import fresh_folder
from handful.nets.compute import Compute
from handful.progress import bar
from handful.repair.kinds import Repair
from handful.repair.look import Look
from handful.repair.masking import masked, task_part
from handful.repair.plan import PLAN, Plan
from handful.tasks.files import write_episodes
from handful.tasks.rule import Rule

EPISODES, TASKS = "episodes.jsonl", 600
LEAST, CHEAP = 0.5, 0.5
"""Seconds below which a repair is not begun, unless its cost is no more than this."""


def propose(
    collection: Collection,
    *,
    only: Sequence[str] = (),
    keep: Sequence[str] = (),
    confirm: Sequence[str] = (),
    copy: str = "test",
    ways: int = 5,
    shots: int = 5,
    queries: int = 15,
    taxonomy: str | os.PathLike[str] | None = None,
    net: str = "",
    seed: int = 0,
    minutes: float = 5.0,
    compute: Compute | None = None,
) -> Plan:
    """What repairs are found for a collection.

    Parameters
    ----------
    only, keep
        Kinds of repair that alone are asked; kinds that are not, or images by row number or file name that nothing is done to.
    confirm
        Kinds that are done though they are only listed by default (labels, splits).
    copy
        The split whose copy is kept where an image is in two: test or train.
    ways, shots, queries
        The protocol that classes must be large enough for and tasks are balanced at.
    taxonomy
        A child,parent file of the classes' hierarchy; the collection's own without.
    """
    if copy not in ("test", "train"):
        raise BadInput(f"the copy that is kept is that of test or of train, not of {copy!r}")
    if not minutes > 0:
        raise BadInput(f"minutes must be above 0, not {minutes:g}")
    names = list(only or registry.table("repairs"))
    for name in (*names, *confirm):
        registry.get("repairs", name)
    rows, kinds = kept(collection, keep)
    budget = 60 * minutes
    context = Context(collection, net, None, seed, budget, budget, split="all", compute=compute or Compute())
    if taxonomy is not None:
        from_csv(Path(taxonomy))
    context.view  # noqa: B018  a net that is none is refused before anything else
    look = Look(context, copy, ways, shots, queries, None if taxonomy is None else Path(taxonomy))
    asked = {
        "net": context.net,
        "seed": seed,
        "minutes": minutes,
        "copy": copy,
        "ways": ways,
        "shots": shots,
        "queries": queries,
    }
    made = Plan(collection.id, collection.place or "", look.entries, asked)
    with context.pinned(), bar(f"looking for faults in {collection.card.name}", len(names)) as advance:
        repairs: list[Repair] = [
            registry.get("repairs", n)() for n in registry.table("repairs") if n in names and n not in kinds
        ]
        deadline = time.monotonic() + budget
        for i, repair in enumerate(repairs):
            left = deadline - time.monotonic()
            context.seconds = max(LEAST, left) * repair.cost / sum(r.cost for r in repairs[i:])
            lacking = repair.missing(collection) if not (taxonomy and repair.name in ("relatives", "splits")) else ""
            if lacking:
                if only:
                    raise Infeasible(f"{repair.name} cannot be repaired in {collection.card.name}: {lacking}")
                made.left_out[repair.name] = lacking
            elif left <= LEAST and repair.cost > CHEAP:
                made.left_out[repair.name] = f"the {minutes:g} minutes were used up"
            else:
                try:
                    found = repair.find(look)
                except HandfulError as error:
                    if only:
                        raise
                    found, made.left_out[repair.name] = [], str(error)
                found = Plan("", "", found).keeping(rows).entries if rows else found
                found = Plan("", "", found).confirming(confirm).entries
                look.entries += found
            advance(1)
    made.notes = look.said
    return made


def kept(collection: Collection, keep: Sequence[str]) -> tuple[set[int], set[str]]:
    """Images and kinds that nothing is done to, from row numbers, file names and names of repairs."""
    rows: set[int] = set()
    kinds: set[str] = set()
    column = next((c for c in ("file", "source_file") if c in collection.table.columns), None)
    files = {} if column is None or not keep else {f: i for i, f in enumerate(collection.table[column].to_list())}
    for one in keep:
        if one in registry.table("repairs"):
            kinds.add(one)
        elif one.isdigit() and int(one) < len(collection):
            rows.add(int(one))
        elif one in files:
            rows.add(files[one])
        else:
            raise BadInput(
                f"{one!r} to keep is neither a repair ({', '.join(registry.table('repairs'))}) nor an image of "
                f"{collection.card.name}; give a row number below {len(collection)} or a file name"
            )
    return rows, kinds


def apply(collection: Collection, made: Plan, out: str | os.PathLike[str], force: bool = False) -> Collection:
    """Write the repaired collection into a folder: table, mask, rule, episodes and the plan, over images that stay where they are."""
    made.check(collection)
    result = masked(collection, made.entries)
    root = result.over if result.over is not None else result
    if root.place is None:
        raise BadInput(f"{collection.card.name} lives in this process's memory only; save it first")
    place = Path(out)
    if place.exists() and root.path is not None and place.resolve() == root.path.resolve():
        raise BadInput(f"{place} holds the images themselves; name another folder for what is repaired")
    with fresh_folder(place, force) as folder:
        rows = result.mask if result.mask is not None else np.arange(len(result))
        over = Over(root.place, root.id, root.card.hash, rows, result.table, result.rule)
        write_over(folder, place.resolve(), result.card, over)
        (folder / PLAN).write_text(made.text(collection), encoding="utf-8")
        if root.path is not None:
            for name in BESIDE:
                if (root.path / name).is_file():
                    shutil.copy(root.path / name, folder / name)
        if result.rule is not None:
            rule = rule_on(result.rule, task_part(result))
            rule.check()
            write_episodes(folder / EPISODES, rule.draw_block(0, 0, TASKS), result)
    return open_packed(place)


def undone(fixed: str | os.PathLike[str], kinds: Sequence[str] = ()) -> Collection:
    """The repaired folder with some kinds of repair (all without any) taken back; its plan keeps them, unconfirmed."""
    place = Path(fixed)
    if not (place / OVER).is_file() or not (place / PLAN).is_file():
        raise BadInput(f"{place} was not made by handful repair; there is nothing to undo")
    made, collection = Plan.read(place / PLAN), source_of(open_packed(place))
    every = sorted({e.kind for e in made.entries})
    for kind in kinds:
        if kind not in every:
            raise BadInput(f"the plan of {place} has no repair {kind!r}; it has {', '.join(every) or 'none'}")
    # A certificate or a picture page of before would speak of another collection.
    return apply(collection, made.confirming(kinds or every, False), place, force=True)


def source_of(fixed: Collection) -> Collection:
    """The collection that a repaired one is a mask over."""
    if fixed.over is None:
        raise BadInput(
            f"{fixed.card.name} is no repaired collection; make one with: handful repair COLLECTION --out FIXED"
        )
    return fixed.over


def rule_on(rule: Mapping[str, Any], part: Part) -> Rule:
    """A rule from what a plan says of it."""
    return registry.make("rules", rule["rule"], {k: v for k, v in rule.items() if k != "rule"}, part)
