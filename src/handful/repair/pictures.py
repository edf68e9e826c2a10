"""Pages of the pictures that a person has to look at before a plan is confirmed."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from handful.data.collection import Collection
from handful.repair.kinds import Entry
from handful.repair.plan import Plan
from handful.report.page import Section, page, write_page

PAGE = "labels.html"
MOST = 300
SIDE = 96


def save_pictures(collection: Collection, made: Plan, folder: Path) -> Path | None:
    """A page of likely label errors and of copies, beside the plan; none where there is nothing to look at."""
    shown = {k: [e for e in made.entries if e.kind == k and e.rows] for k in ("labels", "duplicates")}
    if collection.card.kind != "images" or not any(shown.values()):
        return None
    sections = []
    if shown["labels"]:
        sections.append(_section(collection, "Likely label errors", shown["labels"], LABELS))
    if shown["duplicates"]:
        sections.append(_section(collection, "Copies", shown["duplicates"], COPIES))
    lead = f"Look at these before plan.toml is applied to {collection.card.name}."
    write_page(folder / PAGE, page(f"To confirm: {collection.card.name}", lead, sections, f"{collection.id}."))
    return folder / PAGE


LABELS = (
    "A net sees another class than the label says. A hard image and a wrong label look alike to it: set confirm = true in the plan for those "
    "that are wrong, and take the others out."
)
COPIES = "Each pair is an image that is left out and the one that it is a copy of. Take an entry out of the plan to keep its image."


def _section(collection: Collection, title: str, entries: list[Entry], words: str) -> Section:
    cards = "".join(_card(collection, e) for e in entries[:MOST])
    more = [f"The first {MOST} of {len(entries):,} are shown."] if len(entries) > MOST else []
    return Section(title, [words, *more], raw=f'<div class="pictures" style="{GRID}">{cards}</div>')


GRID = "display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1rem"


def _card(collection: Collection, e: Entry) -> str:
    rows = [e.rows[0], *([int(e.facts["copy_of"])] if isinstance(e.facts.get("copy_of"), int) else [])]
    rows = [r for r in rows if 0 <= r < len(collection)]
    images = "".join(
        f'<img src="{data_url(collection, r)}" alt="image {r}" width="{SIDE}" height="{SIDE}">' for r in rows
    )
    files = next((c for c in ("file", "source_file") if c in collection.table.columns), None)
    name = f"<br><code>{escape(str(collection.table[files][rows[0]]))}</code>" if files else ""
    number = f"{escape(e.measure)}: {e.evidence:g}"
    return f"<figure>{images}<figcaption>{escape(e.why)}{name}<br><small>{number}</small></figcaption></figure>"


def data_url(collection: Collection, row: int) -> str:
    """One image as a PNG inside the page."""
    pixels = np.asarray(collection.read(np.asarray([row]))[0])
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels[..., :3])
    stream = io.BytesIO()
    picture.save(stream, format="PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
