"""What participants download: a starting kit with a tutorial that runs offline, and the public data."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from handful.challenge.sources import Data
from handful.challenge.spec import Challenge

SAMPLE = Path(__file__).parent / "starting_kit" / "model.py"
TUTORIAL = """\
# {title}: a first submission

Everything here runs on your machine, without a network. You need `pip install handful` and, to build the same walls as the
service, bubblewrap (`apt install bubblewrap`); without it add `--trust` to run your own code without walls.

1. Unpack `public.zip` (the public data, from the page Data) into `data/{public}` beside this file.
2. `sample/model.py` is a whole submission: read it, it is short. `MyMetaLearner.meta_fit` gets generators of tasks and
   gives a `MyLearner`; `MyLearner.fit` learns one task and gives a `MyPredictor`; `MyPredictor.predict` answers its queries.
3. Try it on tasks of the public data:

       handful challenge run . sample --phase {public} --tasks 5

   It prints the score (0 is guessing, 1 is perfect) and the secret that the tasks came from; `--secret` repeats them.
4. Change something, run again with the same secret, compare.
5. Or pack one of the library's learners, and look at it the same way:

       handful challenge pack protonet protonet.zip -s net=conv4 -s schedule.steps=200
       handful challenge run . protonet.zip --phase {public} --tasks 5

6. Hand in `model.py` and whatever stands beside it as a zip, on the page My submissions or with

       handful challenge submit ADDRESS sample --league {league} --wait
"""


def starting_kit(challenge: Challenge) -> bytes:
    """A zip with the tutorial, the sample and a challenge.toml that says all but where hidden data are."""
    words = {"title": challenge.title, "public": challenge.public, "league": challenge.leagues[0].name}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("starting-kit/README.md", TUTORIAL.format(**words))
        target.writestr("starting-kit/challenge.toml", shared_toml(challenge))
        target.writestr("starting-kit/sample/model.py", SAMPLE.read_text(encoding="utf-8"))
    return out.getvalue()


def shared_toml(challenge: Challenge) -> str:
    """The challenge's file as participants may have it: each phase's data under its own name, no dates, no texts."""
    facts = challenge.model_dump(mode="json", exclude={"phases", "text", "rules", "fact_sheet"})
    phases = challenge.model_dump(mode="json", include={"phases"})["phases"]
    for name, phase in phases.items():
        phase |= {"data": f"data/{name}", "begins": None, "ends": None}
    plain = {key: value for key, value in facts.items() if not isinstance(value, (dict, list))}
    lines = [*_lines(plain)]
    for key, value in facts.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *_lines(value)]
    for name, phase in phases.items():
        lines += ["", f"[phases.{name}]", *_lines(phase)]
    for league in facts["leagues"]:
        lines += ["", "[[leagues]]", *_lines(league)]
    return "\n".join(lines) + "\n"


def _lines(table: dict[str, Any]) -> list[str]:
    # JSON's texts, numbers, switches and flat lists are TOML's too.
    return [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]


def public_data(data: Data) -> Path:
    """The public data as a zip, made once; images are packed already, so they are stored as they are."""
    phase = data.challenge.public
    collection = data.collection(phase, phase)
    assert collection.path is not None
    place = data.state / "downloads" / f"public-{collection.id.rpartition('#')[2]}.zip"
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".public-", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w") as target:
                for path in sorted(collection.path.rglob("*")):
                    if path.is_file() and not path.name.startswith("."):
                        target.write(path, path.relative_to(collection.path).as_posix())
            os.chmod(name, 0o644)
            os.replace(name, place)
        except BaseException:
            os.unlink(name)
            raise
    return place
