"""Certificates: what a repair changed, measured before and after, with all that it takes to repeat it."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handful._version import __version__
from handful.audits.audit import audit
from handful.audits.context import Context
from handful.audits.finding import plain
from handful.data.collection import Collection, open_packed
from handful.errors import BadInput, HandfulError
from handful.files import WRONG, read_json, write_atomically
from handful.nets.compute import Compute
from handful.repair import panel
from handful.repair.certificate_page import before_and_after, certificate_page, order_of, said
from handful.repair.masking import masked
from handful.repair.plan import PLAN, Plan
from handful.repair.repair import source_of
from handful.report.page import write_page

CERTIFICATE, PAGE = "certificate.json", "certificate.html"
AUDIT, REST = 0.35, 0.3
"""Shares of the minutes: each audit, and the panel."""
CLOSE = 1e-4
"""By how much a score may differ where it is computed again (on one machine it does not)."""
SAMPLES = 20


@dataclass
class Certificate:
    """The facts of one repair; `save` writes them and a page."""

    facts: dict[str, Any]

    def save(self, folder: Path) -> None:
        text = json.dumps(self.facts, indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / CERTIFICATE, lambda t: t.write_text(text, encoding="utf-8"))
        write_page(folder / PAGE, certificate_page(self.facts))

    @classmethod
    def read(cls, folder: Path) -> Certificate:
        place = folder / CERTIFICATE
        try:
            facts = read_json(place)
            if facts["handful"] != "certificate":
                raise ValueError("it says nothing of a repair")
            for key in ("source", "repaired", "plan", "asked", "audits", "panel", "removed"):
                if not isinstance(facts[key], dict):
                    raise ValueError(f"{key} is no table")
            return cls(facts)
        except (OSError, *WRONG) as error:
            raise BadInput(
                f"{place} is no certificate that can be read ({error}); make one with: handful repair COLLECTION --out FIXED"
            ) from error

    def __str__(self) -> str:
        lines = [f"certificate of {self.facts['repaired']['id']} over {self.facts['source']['id']}"]
        for row in before_and_after(self.facts["audits"]):
            lines.append(f"  {row['name']}: {said(row['before'])} -> {said(row['after'])}")
        t = self.facts["panel"].get("tau")
        if t:
            lines.append(f"  ranks of eight methods: {order_of(t)}")
        return "\n".join(lines)


def certify(
    source: Collection,
    fixed: Collection,
    made: Plan,
    *,
    minutes: float,
    net: str = "",
    seed: int = 0,
    compute: Compute | None = None,
    command: str = "",
) -> Certificate:
    """Audit both sides on the same minutes and ask the panel on both."""
    compute = compute or Compute()
    asked = {"minutes": minutes, "net": net or str(made.asked.get("net", "")), "seed": seed}
    contexts = views(source, fixed, asked, compute)
    try:
        ranks = panel.both(*contexts, seconds=60 * minutes * REST)
    except HandfulError as error:
        ranks = {"left_out": str(error)}
    kinds: dict[str, Any] = {}
    for e in made.entries:
        one = kinds.setdefault(e.kind, {"found": 0, "done": 0, "images": 0, "first": []})
        one["found"] += 1
        one["done"] += e.confirm
        one["images"] += len(e.rows) if e.confirm else 0
        if len(one["first"]) < SAMPLES:
            one["first"].append({"why": e.why, "done": e.confirm, "measure": e.measure, "evidence": e.evidence})
    facts = {
        "handful": "certificate",
        "version": __version__,
        "command": command or said_command(),
        "asked": {**made.asked, **asked},
        "source": {"id": source.id, "hash": source.card.hash, "images": len(source), "place": source.place},
        "repaired": {"id": fixed.id, "hash": fixed.card.hash, "images": len(fixed), "rule": fixed.rule},
        "plan": {"sha256": digest(made, source), "left_out": made.left_out, "notes": made.notes},
        "removed": kinds,
        "audits": audited(source, fixed, asked, compute),
        "panel": ranks,
    }
    return Certificate(plain(facts))


def views(source: Collection, fixed: Collection, asked: dict[str, Any], compute: Compute) -> tuple[Context, Context]:
    """What the panel sees of both sides."""
    budget = 60 * asked["minutes"] * REST
    made = [Context(c, asked["net"], None, asked["seed"], budget, budget, compute=compute) for c in (source, fixed)]
    return made[0], made[1]


def audited(source: Collection, fixed: Collection, asked: dict[str, Any], compute: Compute) -> dict[str, Any]:
    """The findings of both audits, on the same minutes."""
    out = {}
    for side, collection in (("before", source), ("after", fixed)):
        found = audit(
            collection, net=asked["net"], seed=asked["seed"], minutes=AUDIT * asked["minutes"], compute=compute
        )
        facts = found.as_dict()
        for f in facts["findings"]:
            f.pop("details", None)
        out[side] = {k: facts[k] for k in ("verdict", "findings", "left_out", "notes")}
    return out


def digest(made: Plan, source: Collection) -> str:
    return hashlib.sha256(made.text(source).encode()).hexdigest()


def said_command() -> str:
    """The command line, as a person would type it."""
    return shlex.join(["handful", *sys.argv[1:]]) if Path(sys.argv[0]).stem in ("handful", "__main__") else ""


def verify(folder: Path, *, quick: bool = False, compute: Compute | None = None) -> list[str]:
    """Repeat a repair and its certificate; what differs, one sentence each, nothing where all is equal.

    Hashes, mask, split, weights and the panel must be the same; an audit's number may move with the time that it had, and is called
    different where its light changes and its interval does not meet the certified one. ``quick`` leaves out the audits.
    """
    compute = compute or Compute()
    certificate = Certificate.read(folder)
    facts, fixed = certificate.facts, open_packed(folder)
    source, made = source_of(fixed), Plan.read(folder / PLAN)
    out = []
    for what, now, then in (
        ("the collection", source.card.hash, facts["source"].get("hash")),
        ("the repaired collection", fixed.card.hash, facts["repaired"].get("hash")),
        ("the plan", digest(made, source), facts["plan"].get("sha256")),
        (
            "what the plan makes of the collection",
            masked(source, made.entries).card.hash,
            facts["repaired"].get("hash"),
        ),
        ("the code's version", __version__, facts.get("version")),
    ):
        if now != then:
            out.append(f"{what} is {str(now)[:12]}, certified was {str(then)[:12]}")
    if out:
        return out
    asked = facts["asked"]
    try:
        if "tau" in facts["panel"]:
            again = plain(panel.again(*views(source, fixed, asked, compute), facts["panel"]))
            out += differences(facts["panel"], again)
        if not quick:
            out += moved(facts["audits"], plain(audited(source, fixed, asked, compute)))
    except WRONG as error:
        raise BadInput(f"{folder / CERTIFICATE} is damaged ({error}); repair the collection again") from error
    return out


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Where the panel's scores are not those that were certified."""
    out = []
    for name, one in then["methods"].items():
        for side in ("before", "after"):
            a, b = one[side]["value"], now["methods"][name][side]["value"]
            if not abs(a - b) <= CLOSE:
                out.append(f"{name} {side} the repair scores {b:.4f}, certified was {a:.4f}")
    a, b = then["tau"]["value"], now["tau"]["value"]
    if (a is None) != (b is None) or (a is not None and not abs(a - b) <= CLOSE):
        out.append(f"Kendall's tau is {b}, certified was {a}")
    return out


def moved(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Where an audit says something else than was certified."""
    out = []
    for side in ("before", "after"):
        mine = {f["name"]: f for f in now[side]["findings"]}
        for f in then[side]["findings"]:
            g = mine.get(f["name"])
            if g is None or f["light"] == g["light"] or None in (f["low"], f["high"], g["low"], g["high"]):
                continue
            if f["high"] < g["low"] or g["high"] < f["low"]:
                out.append(f"{f['name']} {side} the repair is {said(g)}, certified was {said(f)}")
    return out
