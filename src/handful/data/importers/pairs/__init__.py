"""Importers of pair collections: an image with two primitives, such as attribute and object or action and object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from handful.data.sources import Source
from handful.errors import BadInput
from handful.files import parse_json


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


def read_object(source: Source, name: str) -> dict[str, Any]:
    """A JSON file that holds one object; one that cannot be read is refused with its line."""
    try:
        facts = parse_json(source.text(name))
    except json.JSONDecodeError as error:
        raise _not_json(source, name, error.lineno, error.msg) from error
    except ValueError as error:
        raise BadInput(f"{source.where(name)} is not usable JSON ({error}); fetch the file again") from error
    if not isinstance(facts, dict):
        raise BadInput(f"{source.where(name)} holds no JSON object; fetch the file again")
    return facts


def read_records(source: Source, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSON list, one at a time: all of Visual Genome at once would take many times its text's memory."""
    text, decoder = _text(source, name), json.JSONDecoder()

    def after_blanks(at: int) -> int:
        while at < len(text) and text[at].isspace():
            at += 1
        return at

    at = after_blanks(0)
    if text[at : at + 1] != "[":
        raise BadInput(f"{source.where(name)} holds no JSON list; fetch the file again")
    at = after_blanks(at + 1)
    while text[at : at + 1] != "]":
        try:
            record, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _not_json(source, name, error.lineno, error.msg) from error
        except (RecursionError, ValueError) as error:
            raise BadInput(f"{source.where(name)} is not usable JSON ({error}); fetch the file again") from error
        if not isinstance(record, dict):
            raise BadInput(f"{source.where(name)} holds {str(record)[:40]!r} among its records; fetch the file again")
        yield record
        at = after_blanks(at)
        if text[at : at + 1] == ",":
            at = after_blanks(at + 1)
        elif text[at : at + 1] != "]":
            raise _not_json(source, name, text.count("\n", 0, at) + 1, "the list is not closed")


def _text(source: Source, name: str) -> str:
    """A text file of any length: a source refuses very long files for fear of bombs in zips, and Visual Genome's are such."""
    file = source.path / name
    if not file.is_file():
        return source.text(name)
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{source.where(name)} is not UTF-8 text (byte {error.start}); fetch the file again") from error


def _not_json(source: Source, name: str, line: int, why: str) -> BadInput:
    return BadInput(f"{source.where(name)}, line {line} is not JSON ({why}); fetch the file again")


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
