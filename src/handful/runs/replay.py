"""The tasks of a finished run, drawn again: for pictures of them, and for what else the table of scores does not hold."""

from __future__ import annotations

from handful.data.collection import Collection, Part
from handful.data.opening import open_collection
from handful.errors import Mismatch, Missing
from handful.runs.run import Run
from handful.runs.store import digest
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


def replay_rule(run: Run, collection: Collection | None = None) -> Rule:
    """The rule that a run's tasks were drawn by, checked to draw the same tasks.

    ``collection`` is needed only if it no longer lies where the run found it.
    """
    identity = run.identity
    if not {"n", "repeats", "part", "rule"} <= set(identity) or not isinstance(identity["seed"], int):
        raise Mismatch(f"the tasks of the run of {run.method} cannot be drawn again: its run.json does not say how")
    if collection is None:
        place = run.facts.get("source")
        if not place or not isinstance(place, str):
            raise Missing(f"the run of {run.method} does not say where its collection lies; name the collection")
        collection = open_collection(place)
    if collection.id != identity["collection"]:
        raise Mismatch(
            f"the run was on {identity['collection']}, not on {collection.id}; name the collection it was on"
        )
    part = replay_part(collection, identity["part"], run.facts.get("rows"))
    rule = Rule.from_options(identity["rule"], {"part": part})
    if digest([rule.tasks_id(identity["seed"]), identity["n"], identity["repeats"]]) != identity["tasks_id"]:
        raise Mismatch(f"the tasks of the run of {run.method} cannot be drawn again from its run.json")
    return rule


def replay_episode(run: Run, rule: Rule, repeat: int, task: int) -> Episode:
    """One task of a run."""
    return rule.draw(run.identity["seed"] + repeat, task)


def replay_part(collection: Collection, name: str, rows: str | None = None) -> Part:
    """The part of a collection by its id, ``collection:scheme/split#hash``; ``rows`` if it is not simply a split."""
    body = name.removeprefix(f"{collection.id}:").rpartition("#")[0]
    scheme, _, split = body.partition("/")
    if rows is not None:
        part = collection.rows_part(scheme, split, rows)
    elif "[" in split:
        raise Mismatch(f"{name} cannot be cut out of {collection.id} again; its run does not say which images it has")
    else:
        part = collection.part(split, scheme) if scheme else collection.whole
    if part.id != name:
        raise Mismatch(f"{name} cannot be cut out of {collection.id} again; it was chosen by other means than a split")
    return part
