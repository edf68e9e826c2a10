"""One file from one address into a partial file that outlives a cut connection or a killed process."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from handful.data.get.web import Failed, Patience, ask, refuse_page
from handful.files import read_json

BLOCK = 1 << 16
LEAST = 1024
HEAD = 512
# A connection that brings less than this counts as one without progress.
WORTH = 1 << 16
Progress = Callable[[int], None]


class Download:
    """What has come so far (``FILE.part``) and whose it is (``FILE.part.json``: address, validator, total)."""

    def __init__(self, target: Path):
        self.path = target.with_name(target.name + ".part")
        self.note = target.with_name(target.name + ".part.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def facts(self) -> dict[str, Any]:
        try:
            known = read_json(self.note)
            return known if isinstance(known, dict) else {}
        except (OSError, ValueError):
            return {}

    def describe(self, url: str, headers: Any, total: int | None) -> None:
        tag = headers.get("ETag") or ""
        # A weak tag does not promise equal bytes, so it must not go into If-Range (RFC 9110, 13.1.5).
        validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified") or ""
        text = json.dumps({"url": url, "validator": validator, "total": total})
        self.note.write_text(text, encoding="utf-8")

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def fetch(
    url: str, part: Download, file: str, size: int | None, sure: bool, patience: Patience, advance: Progress
) -> bool:
    """Ask until the whole file is there, and say whether it came in several pieces; `Failed` when this mirror is given up.

    ``sure`` says that a checksum will judge the whole, so that a beginning from elsewhere may be continued.
    """
    if urlsplit(url).scheme.lower() == "file":
        _copy(url, part, file, advance)
        return False
    idle, pause, pieces = 0, patience.pause, 0
    while True:
        before = part.size
        pieces += before > 0
        try:
            _once(url, part, file, size, sure, patience, advance)
            return pieces > 0
        except Failed as failed:
            idle = 0 if part.size - before >= WORTH else idle + 1
            if not failed.retry or idle >= patience.tries:
                raise
        pause = patience.pause if not idle else min(2 * pause, 30.0)
        time.sleep(pause)


def _once(
    url: str, part: Download, file: str, size: int | None, sure: bool, patience: Patience, advance: Progress
) -> None:
    have, known = part.size, part.facts()
    validator = known.get("validator") if known.get("url") == url else None
    headers: dict[str, str] = {}
    if have and (validator or sure):
        headers["Range"] = f"bytes={have}-"
        if validator:
            headers["If-Range"] = str(validator)
    with ask(url, headers, patience) as answer:
        if answer.status == 416:
            if _total(answer.headers.get("Content-Range"), r"bytes \*/(\d+)") == have == (size or have) and have:
                return
            part.clear()
            advance(-have)
            raise Failed("has another length than the part that was here", retry=True)
        first = _head(answer, patience)
        refuse_page(answer.headers.get("Content-Type"), first if answer.status == 200 else b"", file)
        if answer.headers.get("Content-Encoding", "identity") not in ("identity", ""):
            raise Failed("sends the file in another encoding than it was asked for")
        start, total = _place(answer, have)
        if start and _changed(known if validator else {}, answer.headers, total):
            part.clear()
            advance(-have)
            raise Failed("changed the file between two connections", retry=True)
        if size is not None and total is not None and total != size:
            raise Failed(f"offers {total:,} bytes, but the file has {size:,}")
        if start != have:
            advance(-have)
        part.describe(url, answer.headers, total)
        got = _write(answer, first, part, start, total if size is None else size, patience, advance)
        if total is not None and got < total:
            raise Failed(f"was cut off after {got:,} of {total:,} bytes", retry=True)
        if size is not None and got < size:
            raise Failed(f"ended after {got:,} of {size:,} bytes", retry=True)


def _place(answer: Any, have: int) -> tuple[int, int | None]:
    """Where the bytes of this answer begin, and how long the whole file is."""
    length = answer.headers.get("Content-Length")
    if answer.status == 200:
        return 0, int(length) if length and length.isdigit() else None
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", (answer.headers.get("Content-Range") or "").strip())
    if not found or int(found[1]) != have:
        raise Failed("continues at another place than it was asked to")
    return have, None if found[3] == "*" else int(found[3])


def _changed(known: dict[str, Any], headers: Any, total: int | None) -> bool:
    """Whether a continuation is of another version, sent by a server that does not honour If-Range."""
    tag, old = headers.get("ETag"), str(known.get("validator") or "")
    other_tag = bool(tag) and old.startswith('"') and tag != old
    return other_tag or (total is not None and known.get("total") not in (None, total))


def _total(text: str | None, pattern: str) -> int | None:
    found = re.fullmatch(pattern, (text or "").strip())
    return int(found[1]) if found else None


def _head(answer: Any, patience: Patience) -> bytes:
    """Enough of the beginning to know a page from an archive, read before anything that is there is given up."""
    start, since = b"", time.monotonic()
    while len(start) < HEAD and (block := _read(answer, patience)):
        start += block
        if len(start) < HEAD and time.monotonic() - since > patience.stall:
            raise Failed(f"sent less than {HEAD} bytes in {patience.stall:g} s", retry=True)
    return start


def _read(answer: Any, patience: Patience) -> bytes:
    try:
        return answer.read1(BLOCK)
    except TimeoutError as error:
        raise Failed(f"sent nothing for {patience.stall:g} s", retry=True) from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise Failed(f"broke off ({error or type(error).__name__})", retry=True) from error


def _write(
    answer: Any, first: bytes, part: Download, start: int, limit: int | None, patience: Patience, advance: Progress
) -> int:
    got, since, mark = start, time.monotonic(), start
    with open(part.path, "r+b" if start else "wb") as stream:
        stream.seek(start)
        block = first
        while block:
            if limit is not None and got + len(block) > limit:
                raise Failed(f"sends more than the {limit:,} bytes of the file")
            stream.write(block)
            got += len(block)
            advance(len(block))
            if got - mark >= LEAST:
                since, mark = time.monotonic(), got
            elif time.monotonic() - since > patience.stall:
                raise Failed(f"sent less than {LEAST} bytes in {patience.stall:g} s", retry=True)
            block = _read(answer, patience)
        stream.flush()
        os.fsync(stream.fileno())
    return got


def _copy(url: str, part: Download, file: str, advance: Progress) -> None:
    """A file: address of the manifest; servers cannot redirect here."""
    place = Path(url2pathname(urlsplit(url).path))
    advance(-part.size)
    part.clear()
    try:
        with open(place, "rb") as source, open(part.path, "wb") as stream:
            block = source.read(BLOCK)
            refuse_page(None, block, file)
            while block:
                stream.write(block)
                advance(len(block))
                block = source.read(BLOCK)
    except OSError as error:
        if error.filename is not None and Path(error.filename) != place:
            raise
        raise Failed(f"cannot be read ({error.strerror})") from error
