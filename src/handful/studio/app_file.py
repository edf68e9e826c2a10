"""One HTML file that is a classifier: network, runtime and head inside, no server, no network access (its own rules forbid it)."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import BadInput
from handful.files import write_atomically
from handful.photos.answers import NONE
from handful.photos.model import PhotoModel
from handful.report.page import CSS
from handful.studio.carry import directions
from handful.studio.graph import has_maps, net_side, network
from handful.studio.runtime import runtime

CARRIED = Path(__file__).parent / "carried"
LARGEST = 40 << 20
_RULES = (
    "default-src 'none'; script-src 'unsafe-inline' blob: 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src blob: data:; connect-src data: blob:; base-uri 'none'; form-action 'none'"
)


def app_html(model: PhotoModel, title: str = "", runtime_file: Path | None = None) -> bytes:
    """The file's text."""
    graph = network(model.encoder)
    code, machine = runtime(runtime_file)
    parts = {"net": graph, "code": code, "machine": machine}
    blocks = "\n".join(
        f'<script type="text/plain" id="{name}">{base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()}</script>'
        for name, data in parts.items()
    )
    facts = json.dumps(facts_of(model), ensure_ascii=False).replace("<", "\\u003c")
    title = escape(title or f"{', '.join(model.classes[:4])}{', ...' * (len(model.classes) > 4)}")
    script = "\n".join((CARRIED / name).read_text(encoding="utf-8") for name in ("resample.js", "app.js"))
    html = (CARRIED / "app.html").read_text(encoding="utf-8")
    style = CSS.read_text(encoding="utf-8") + (CARRIED / "app.css").read_text(encoding="utf-8")
    promise = escape(f"Expect {model.report.expected.sentence}.")
    values = {"rules": _RULES, "title": title, "style": style, "promise": promise, "script": script}
    values |= {"facts": facts, "blocks": blocks}
    data = re.sub(r"\{\{ (\w+) \}\}", lambda found: values[found[1]], html).encode()
    if len(data) > LARGEST:
        raise BadInput(
            f"the app file would have {len(data) >> 20} MB, more than {LARGEST >> 20}; use a smaller net, lite2"
        )
    return data


def write_app(model: PhotoModel, path: Path, runtime_file: Path | None = None) -> Path:
    """Write the file, whole or not at all."""
    data = app_html(model, path.stem, runtime_file)
    write_atomically(path, lambda p: Path(p).write_bytes(data))
    return path


def facts_of(model: PhotoModel) -> dict[str, Any]:
    """Everything that comes before and after the network, as plain values."""
    c, net = model.classifier, model.encoder.backbone
    linear = c.head == "linear"
    tensors = {k: packed(c.tensors[k]) for k in ("means", "inflation", *(("weight", "bias") if linear else ()))}
    return {
        "classes": list(model.classes),
        "none": NONE,
        "square": model.encoder.size,
        "side": net_side(model.encoder),
        "mean": list(net.mean),
        "std": list(net.std),
        "width": int(net.width),
        "head": c.head,
        "tensors": tensors,
        "directions": packed(directions(c)) if has_maps(net) else None,
        "temperature": c.temperature,
        "threshold": c.threshold if math.isfinite(c.threshold) else None,
    }


def packed(values: np.ndarray) -> str:
    """Doubles, little-endian, base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()
