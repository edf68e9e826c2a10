"""Making a submission out of any learner of the library."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from handful.challenge.archive import pack_folder
from handful.errors import BadInput, Mismatch
from handful.methods.contract import Method, make

MODEL = '''"""A learner of the library `handful` as a submission; method.json says which."""

from handful.challenge.bridge import bridge

MyMetaLearner, MyLearner = bridge(__file__)
'''


def pack_method(
    method: Method | str,
    out: Path,
    *,
    options: dict[str, Any] | None = None,
    weights: Path | None = None,
    train: dict[str, Any] | None = None,
    valid: dict[str, Any] | None = None,
    validation_datasets: int = 0,
) -> Path:
    """Write a zip that any challenge of this kind accepts.

    ``train`` and ``valid`` are the ways, shots and queries of the tasks that the method meta-trains and validates on
    (5-way 10-shot and 5-way 5-shot, 20 queries, as in the paper). ``weights`` is a state dict for the backbone; the
    method's ``net`` refers to it as ``NAME:weights={archive}/FILE``, which is filled in.
    """
    chosen = make(method, **(options or {})) if isinstance(method, str) else method
    if not {"images", "labels"} >= chosen.needs or chosen.axes != 1:
        raise Mismatch(f"{chosen.name} does not learn from labelled images alone; choose another method")
    facts: dict[str, Any] = {
        "method": chosen.name,
        "options": chosen.options(),
        "train": {"ways": 5, "shots": 10, "queries": 20, **(train or {})},
        "valid": {"ways": 5, "shots": 5, "queries": 20, **(valid or {})},
    }
    with tempfile.TemporaryDirectory(prefix="handful-pack-") as place:
        folder = Path(place)
        if weights is not None:
            if not weights.is_file():
                raise BadInput(f"{weights} is not a file; give a state dict of the backbone")
            facts["options"]["net"] = f"{facts['options']['net']}:weights={{archive}}/{weights.name}"
            shutil.copyfile(weights, folder / weights.name)
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        (folder / "method.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        config = {"train_data_format": "batch", "validation_datasets": validation_datasets}
        (folder / "config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
        return pack_folder(folder, out)
