"""A recipe as it is written: rows once, and what differs by scale or variant beside them.

``[scale.NAME]`` and ``[variant.NAME]`` are layers: each may hold any of a recipe's keys and lies over the file's own. The
tables ``[rule]`` (shared by training, validation and tests), ``[tests]`` (shared by every test) and ``[options]``,
``[options-tasks]``, ``[options-batches]`` (of every method that has such options, of those that train on tasks, on batches)
are defaults. A layer whose name joins others by ``+`` lies on top when all of them are chosen. A row may hold a table of a
layer's name: a partial row that counts in that layer. ``only`` keeps a row to some layers. ``like`` takes layers and the rows' options from another recipe.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from handful import registry
from handful.errors import BadInput, nearest

Facts = dict[str, Any]

LAYERS = ("scale", "variant")
DEFAULTS = ("rule", "tests", "options", "options-tasks", "options-batches")
MERGED = ("train", "valid", *DEFAULTS)
ROW = ("name", "model", "label", "options", "train", "valid", "trained", "tests", "reported")


def flatten(name: str, facts: Facts, scale: str | None, variants: Iterable[str], find: Callable[[str], Facts]) -> Facts:
    """One plain recipe (see `Recipe`) from a file's facts, for one scale and any variants."""
    facts = inherit(name, facts, find)
    known = {kind: list(facts.get(kind) or {}) for kind in LAYERS}
    chosen = [check(name, "variant", v, [k for k in known["variant"] if "+" not in k]) for v in variants]
    if scale is not None:
        chosen.append(check(name, "scale", scale, known["scale"]))
    elif known["scale"]:
        chosen.append("quick" if "quick" in known["scale"] else known["scale"][0])
    on = [(key, layer) for kind in LAYERS[::-1] for key, layer in (facts.get(kind) or {}).items()]
    on = [(key, layer) for key, layer in on if set(key.split("+")) <= set(chosen)]
    on.sort(key=lambda pair: (pair[0].count("+"), max(chosen.index(part) for part in pair[0].split("+"))))
    flat = {k: v for k, v in facts.items() if k not in (*LAYERS, "like")}
    exclusive = set()
    for key, layer in on:
        if layer.get("exclusive"):
            exclusive |= set(key.split("+"))
        flat = overlay(flat, {k: v for k, v in layer.items() if k not in ("exclusive", "help")})
    options = {kind: usual(kind, [facts, *(layer for _, layer in on)]) for kind in ("tasks", "batches", "no")}
    defaults = {key: flat.pop(key, {}) for key in DEFAULTS}
    for part in ("train", "valid"):
        if part in flat:
            flat[part] = merge(defaults["rule"], flat[part])
    flat["test"] = [merge(defaults["rule"], merge(defaults["tests"], test)) for test in flat.get("test", [])]
    names = {part for kind in LAYERS for key in known[kind] for part in key.split("+")}
    labels = [test.get("label", "test") for test in flat["test"]]
    rows = [
        row_in(name, row, names, [key for key, _ in on], chosen, exclusive, labels) for row in flat.get("method", [])
    ]
    flat["method"] = [with_defaults(row, options) for row in rows if row is not None]
    unused(name, defaults, {str(row["name"]) for row in facts.get("method", []) if row.get("name")})
    return flat


def check(recipe: str, kind: str, asked: str, known: list[str]) -> str:
    if asked not in known:
        has = f"{nearest(asked, known)}" if known else f"it has no {kind}s"
        raise BadInput(f"{recipe} has no {kind} {asked!r}; {has}")
    return asked


def inherit(name: str, facts: Facts, find: Callable[[str], Facts]) -> Facts:
    """A recipe with ``like``: the other's layers and defaults below its own, and the other's options for the same rows."""
    if "like" not in facts:
        return facts
    base = find(str(facts["like"]))
    if "like" in base:
        raise BadInput(f"{name}: like = {facts['like']!r} is itself like another recipe; name that one")
    out = overlay({k: v for k, v in base.items() if k in (*LAYERS, *MERGED, "collection", "seeds", "threads")}, facts)
    for kind in LAYERS:
        layers = {
            **base.get(kind, {}),
            **{k: overlay(base.get(kind, {}).get(k, {}), v) for k, v in facts.get(kind, {}).items()},
        }
        if layers:
            out[kind] = layers
    rows = []
    for row in facts.get("method", []):
        same = [r for r in base.get("method", []) if r.get("name") == row.get("name")]
        same = [r for r in same if r.get("label") == row.get("label")] or same
        # what the other paper table reports is not this one's
        rows.append(merge(strip(same[0], ("reported", "only", "tests")), row) if same else row)
    out["method"] = rows
    return out


def strip(row: Facts, keys: Iterable[str]) -> Facts:
    return {k: strip(v, keys) if isinstance(v, dict) else v for k, v in row.items() if k not in keys}


def overlay(facts: Facts, layer: Facts) -> Facts:
    """A layer over a recipe: tables of defaults are merged, notes are joined, everything else is replaced."""
    out = dict(facts)
    for key, value in layer.items():
        if key in MERGED:
            out[key] = merge(out.get(key, {}), value)
        elif key == "note" and out.get("note"):
            out[key] = f"{out['note']} {value}"
        else:
            out[key] = value
    return out


def merge(below: Facts, above: Facts) -> Facts:
    out = copy.deepcopy(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merge(out[key], value) if both else copy.deepcopy(value)
    return out


def row_in(
    recipe: str, row: Facts, names: set[str], on: list[str], chosen: list[str], exclusive: set[str], labels: list[str]
) -> Facts | None:
    """A row under the chosen layers, or None where it does not belong to them."""
    only = set(row.get("only", ()))
    if unknown := only - names:
        raise BadInput(
            f"{recipe}: a row is only for {sorted(unknown)[0]!r}; {nearest(sorted(unknown)[0], sorted(names))}"
        )
    if (exclusive or only) and not (only & set(chosen) if not exclusive else only & exclusive):
        return None
    out = {k: v for k, v in row.items() if k in ROW}
    for key, value in row.items():
        if key in ROW or key == "only":
            continue
        if not set(key.split("+")) <= names:
            known = [*ROW, "only", *sorted(names)]
            raise BadInput(
                f"{recipe}: method.{key} is not a known key; {nearest(key, known)} (known: {', '.join(known)})"
            )
        if key in on or set(key.split("+")) <= set(chosen):
            out = merge(out, value)
    reported = out.get("reported")
    if isinstance(reported, list):
        if len(reported) != len(labels):
            title = out.get("label") or out.get("name")
            raise BadInput(
                f"{recipe}: {title} reports {len(reported)} numbers for {len(labels)} tests; give one for each"
            )
        out["reported"] = dict(zip(labels, reported, strict=True))
    return out


def usual(kind: str, layers: Iterable[Facts]) -> Facts:
    """The options of every method that trains on ``kind``: a layer's own for that kind over its own for all, layer by layer."""
    out: Facts = {}
    for layer in layers:
        out = merge(merge(out, layer.get("options", {})), layer.get(f"options-{kind}", {}))
    return out


def with_defaults(row: Facts, options: dict[str, Facts]) -> Facts:
    """The usual options below a row's own, as far as the method has such options."""
    if not row.get("name") or not any(options.values()):
        return row
    method = registry.make("methods", row["name"])
    own = {k: v for k, v in options[method.trains].items() if k in method.__dataclass_fields__}
    return {**row, "options": merge(own, row.get("options", {}))}


def unused(recipe: str, defaults: dict[str, Facts], methods: set[str]) -> None:
    """Refuse a default that no method can take: a misspelt one would otherwise change nothing, silently."""
    for key in DEFAULTS:
        for option in defaults[key] if key.startswith("options") else ():
            if not any(option in registry.get("methods", method).__dataclass_fields__ for method in methods):
                raise BadInput(f"{recipe}: no method of it has the option {option!r} that [{key}] sets; remove it")
