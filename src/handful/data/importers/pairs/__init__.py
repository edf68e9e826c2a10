"""Importers of pair collections: an image with two primitives, such as attribute and object or action and object."""

from __future__ import annotations

import json
from typing import Any

from handful.data.sources import Source
from handful.errors import BadInput


def shallowest(names: list[str]) -> list[str]:
    """Those of the names that lie least deep, in order."""
    least = min((n.count("/") for n in names), default=0)
    return sorted(n for n in names if n.count("/") == least)


def one_named(source: Source, *endings: str) -> str:
    """The one file of a name (the least deep one); `BadInput` if there is none."""
    found = shallowest(source.named(*endings))
    if not found:
        raise BadInput(f"{source.path} holds no {' nor '.join(endings)}; give the folder that the data set unpacks to")
    return found[0]


def read_json(source: Source, name: str) -> Any:
    """A JSON file; one that cannot be read is refused with its line."""
    try:
        return json.loads(source.text(name))
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{source.where(name)}, line {error.lineno} is not JSON ({error.msg}); fetch the file again"
        ) from error


class ImageNames:
    """Finds an image by the last parts of its path, however folders spell spaces."""

    def __init__(self, source: Source):
        self.source = source
        self.whole = {_plain(n): n for n in source.images}
        self.tails: dict[str, list[str]] = {}
        for plain, name in self.whole.items():
            self.tails.setdefault(plain.rsplit("/", 1)[-1], []).append(name)

    def find(self, path: str) -> str | None:
        wanted = _plain(path)
        if wanted in self.whole:
            return self.whole[wanted]
        found = [n for n in self.tails.get(wanted.rsplit("/", 1)[-1], []) if _plain(n).endswith("/" + wanted)]
        return min(found, key=lambda n: (n.count("/"), n)) if found else None


def _plain(path: str) -> str:
    return path.replace("\\", "/").replace(" ", "_").removeprefix("./")
