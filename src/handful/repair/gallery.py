"""Pages of the gallery: what a certificate says of a collection, and what its hierarchy says of a zero-shot split, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handful.audits.zero_shot.builder import Built, build
from handful.audits.zero_shot.split_audit import audit_split
from handful.data.class_splits import ClassSplit
from handful.data.wordnet import wordnet
from handful.errors import Infeasible
from handful.repair.certificate_page import before_and_after, order_of, said, slopes

SPLITS = ("1-hop", "2-hops", "all", "goz_v1")
COLUMNS = {
    "labels needed (CSCC)": ("cscc", "cscc-frozen"),
    "context gap": ("context-gap",),
    "shortcuts": ("shortcuts",),
    "copies": ("copies-across-splits", "copies-across-classes"),
    "label errors": (),
    "structural ratio": ("structural-bias",),
    "power": ("power",),
}
"""The columns of the summary, and the findings that each is taken from, the first that is there."""
MOST = 500
"""Classes that a split is rebuilt with at most, as many as goz_v1 has."""


def collection_page(name: str, title: str, about: str, facts: Mapping[str, Any], out: Path) -> dict[str, str]:
    """Write one collection's page and figure; its row of the summary."""
    audits, source, fixed = facts["audits"], facts["source"], facts["repaired"]
    before = {f["name"]: f for f in audits["before"]["findings"]}
    lines = [f"# {title}", "", f"`{source['id']}`: {about}.", "", f"> {audits['before']['verdict']}", ""]
    lines += [f"Repaired: `{fixed['id']}`, {fixed['images']:,} of {source['images']:,} images.", ""]
    lines += ["| repair | found | done | the first |", "|---|---|---|---|"]
    for kind, one in facts["removed"].items():
        lines.append(f"| {kind} | {one['found']:,} | {one['done']:,} | {cell(one['first'][0]['why'])} |")
    if not facts["removed"]:
        lines.append("| none | 0 | 0 | no fault was found by the repairs that were asked |")
    lines += ["", *(f"- {kind} was not asked: {why}." for kind, why in facts["plan"]["left_out"].items())]
    lines += [f"- {note}" for note in facts["plan"]["notes"]]
    lines += ["", "## Before and after", "", "| diagnosis | before | after |", "|---|---|---|"]
    lines += [f"| {r['name']} | {said(r['before'])} | {said(r['after'])} |" for r in before_and_after(dict(audits))]
    lines += [
        "",
        "Not run in the time, or not to be asked of this collection: "
        + (", ".join(audits["before"]["left_out"]) or "none")
        + ".",
        "",
    ]
    lines += [f"- {f['sentence']} ({f['threshold']})." for f in audits["before"]["findings"]]
    if "methods" in facts["panel"]:
        t = facts["panel"]["tau"]
        (out / f"{name}.svg").write_text(plain_svg(slopes(dict(facts["panel"]))), encoding="utf-8")
        lines += ["", "## Eight methods", ""]
        lines += [
            f"{order_of(t)} There were {facts['panel']['sides']['before']['tasks']} tasks on either side.",
            "",
            f"![Accuracy of eight methods before and after]({name}.svg)",
        ]
    lines += [
        "",
        f"handful {facts['version']}; seed {facts['asked']['seed']}, {facts['asked']['minutes']:g} minutes for looking and as many for the certificate; "
        f"collection sha256 `{source['hash'][:16]}`, repaired `{fixed['hash'][:16]}`, plan `{facts['plan']['sha256'][:16]}`.",
    ]
    (out / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    row = {"": f"[{title}]({name}.md)"}
    for column, names in COLUMNS.items():
        found = next((before[n] for n in names if n in before), None)
        row[column] = "not measured" if found is None else said(found)
    listed, out_of = facts["removed"].get("labels", {}).get("found", 0), facts["plan"]["left_out"]
    seen = [re.match(r"Labels were looked at of ([\d,]+) of", note) for note in facts["plan"]["notes"]]
    looked = next((m[1] for m in seen if m), f"{source['images']:,}")
    row["label errors"] = (
        "not looked at" if "labels" in out_of or looked == "0" else f"{listed} listed of {looked} images"
    )
    if row["copies"] == "not measured" and "duplicates" not in out_of:
        row["copies"] = f"{facts['removed'].get('duplicates', {}).get('found', 0)} images, by the repair's search"
    return row


def split_page(name: str, lists: Path, out: Path) -> dict[str, str]:
    """Audit a list of test classes against the training classes, rebuild it, and write both."""
    tree = wordnet()
    train, test = ((lists / f"{n}.txt").read_text(encoding="utf-8").split() for n in ("train", name))
    found = audit_split(tree, ClassSplit(name, tuple(train), tuple(test)))
    built = largest(tree, train, test)
    title = f"ImageNet's zero-shot split {name}"
    lines = [
        f"# {title}",
        "",
        f"{len(train):,} training and {len(test):,} test classes, WordNet ids, {tree.source}. Classes alone: no image was looked at.",
        "",
    ]
    lines += ["| | as published | rebuilt |", "|---|---|---|"]
    again = None if built is None else audit_split(tree, ClassSplit(name, tuple(train), built.classes))
    for what, value in (
        ("test classes", lambda a: f"{a.as_dict()['test_classes']:,}"),
        ("structural ratio", lambda a: f"{a.ratio.value:.2f}"),
        ("naming after the nearest training class could reach", lambda a: f"{a.trivial:.1%}"),
        ("test classes with a relative among the test classes", lambda a: f"{a.kin.in_test.mean():.1%}"),
        ("test classes with a relative among the training classes", lambda a: f"{a.kin.in_train.mean():.1%}"),
        ("mean distance to the nearest training class", lambda a: f"{a.as_dict()['mean_distance_to_train']:.2f}"),
    ):
        lines.append(f"| {what} | {value(found)} | {'none left' if again is None else value(again)} |")
    if built is None:
        lines += ["", "Every test class is above or below a training class, so that no two of them can be kept."]
    else:
        lines += [
            "",
            "The rebuilt split: no class above or below another of the split or a training class, as many as fit up to "
            f"{MOST}, chosen for the largest structural ratio.",
            "",
            "```",
            str(built),
            "```",
        ]
    lines += ["", "Made by `scripts/gallery`, which repeats it."]
    (out / f"split-{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    row = {"": f"[{title}](split-{name}.md)", **dict.fromkeys(COLUMNS, "no images")}
    row["structural ratio"] = f"{found.ratio.value:.2f}" + (
        "" if again is None else f"; rebuilt {again.ratio.value:.2f}"
    )
    return row


def largest(tree: Any, train: Sequence[str], test: Sequence[str]) -> Built | None:
    """The split rebuilt with as many classes, up to `MOST`, as fit together; None where no two do."""
    for n in (MOST, 400, 300, 200, 100, 50, 20, 10, 5, 2):
        try:
            return build(tree, train, test, n)
        except Infeasible:
            continue
    return None


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """The gallery's first page."""
    head = ["", *COLUMNS]
    lines = [
        "# Gallery", "",
        "Benchmarks of the field, audited, repaired and certified by `scripts/gallery`, one page each. A cell is a number with its 95% interval and its light (red: a warning, "
        "amber: a note, green: in order, grey: not judged) before the repair; what the columns mean is under [what is asked](../audit.md#what-is-asked). "
        "Where only a part of a data set was at hand, its page says so, and the numbers are of that part. Not measured: the minutes of that page ran out before (more minutes, more numbers). A net that has seen ImageNet's classes looked at all images.", "",
        "| " + " | ".join(head) + " |", "|" + "---|" * len(head),
    ]  # fmt: skip
    lines += ["| " + " | ".join(row.get(c, "") for c in head) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")


def plain_svg(text: str) -> str:
    """A drawing as a file of its own."""
    if "xmlns=" not in text[:400]:
        text = re.sub(
            r"<svg ",
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ',
            text,
            count=1,
        )
    return text
