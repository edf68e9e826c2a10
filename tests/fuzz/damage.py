"""Ways to damage a file: its bytes, and, where its format is known, what it says while it stays well-formed."""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import polars as pl

Rng = np.random.Generator
Damage = Callable[[bytes, Rng], bytes]

EXTREME = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
WORDS = (
    "",
    "0",
    "-1",
    "1e999",
    "nan",
    "inf",
    "9" * 30,
    "9" * 5000,
    "\0",
    "\n",
    "\x1b]52;c;eA==\a",
    "a" * 5000,
    "../..",
    "é\u202e",
)


def nested(levels: int, inside: Any = 0) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308, float("nan"), float("inf"), *WORDS,
    [], {}, [[]], [None], [0], ["a"], {"": ""}, {"a": {"b": 1}}, nested(70), nested(900), [0] * 2000,
)  # fmt: skip


def damaged(name: str, data: bytes, rng: Rng) -> bytes:
    """The bytes of a file with one to three things wrong."""
    for _ in range(int(rng.integers(1, 4))):
        ways = [*ANY, *_aware(name, data) * 3]
        data = ways[rng.integers(len(ways))](data, rng)
    return data


def _aware(name: str, data: bytes) -> list[Damage]:
    """What can be done to the content of a file of this kind."""
    suffix = PurePosixPath(name).suffix
    if data[:4] == b"PK\x03\x04":
        return [archive]
    if suffix in (".parquet",):
        return [parquet]
    if data[:2] == b"\x1f\x8b":
        return [lambda d, r: gzipped(name.removesuffix(".gz"), d, r)]
    if suffix == ".safetensors":
        return [safetensors]
    if suffix == ".npy":
        return [npy_header]
    if suffix in (".json", ".jsonl"):
        return [json_value, words]
    if suffix in (".csv", ".txt", ".toml", ".noun"):
        return [words, lines]
    return [integers]


def gzipped(name: str, data: bytes, rng: Rng) -> bytes:
    """Damage below a compression that is sound."""
    try:
        inside = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return flips(data, rng)
    return gzip.compress(damaged(name, inside, rng), 1)


def flips(data: bytes, rng: Rng) -> bytes:
    out = bytearray(data)
    for at in rng.integers(len(out), size=rng.integers(1, 9)) if out else ():
        out[at] ^= 1 << int(rng.integers(8))
    return bytes(out)


def noise(data: bytes, rng: Rng) -> bytes:
    start, stop = _span(data, rng, 64)
    return data[:start] + rng.bytes(stop - start) + data[stop:]


def cut(data: bytes, rng: Rng) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def remove(data: bytes, rng: Rng) -> bytes:
    start, stop = _span(data, rng, 200)
    return data[:start] + data[stop:]


def repeat(data: bytes, rng: Rng) -> bytes:
    start, stop = _span(data, rng, 200)
    return data[:stop] + data[start:stop] * int(rng.integers(1, 20)) + data[stop:]


def integers(data: bytes, rng: Rng) -> bytes:
    """An extreme number in the place of another, of any width and order."""
    width = int(rng.choice([1, 2, 4, 8]))
    if len(data) < width:
        return data
    # Half of them early: that is where lengths and offsets are.
    reach = len(data) if rng.random() < 0.5 else min(len(data), 256)
    at = int(rng.integers(max(reach - width, 0) + 1))
    value = EXTREME[rng.integers(len(EXTREME))] & ((1 << 8 * width) - 1)
    return data[:at] + value.to_bytes(width, "little" if rng.random() < 0.5 else "big") + data[at + width :]


ANY: list[Damage] = [flips, noise, cut, remove, repeat, integers]


def words(data: bytes, rng: Rng) -> bytes:
    """Another word or number in the place of one, an odd one or one from elsewhere in the file."""
    found = list(re.finditer(rb"[\w.+-]+", data))
    if not found:
        return data
    place = found[rng.integers(len(found))]
    if rng.random() < 0.3:
        other = found[rng.integers(len(found))].group()
    else:
        other = WORDS[rng.integers(len(WORDS))].encode()
    return data[: place.start()] + other + data[place.end() :]


def lines(data: bytes, rng: Rng) -> bytes:
    """A line taken out, doubled, moved, or with a cell more or less."""
    rows = data.split(b"\n")
    at, to = (int(n) for n in rng.integers(len(rows), size=2))
    match rng.integers(5):
        case 0:
            del rows[at]
        case 1:
            rows.insert(to, rows[at])
        case 2:
            rows[at], rows[to] = rows[to], rows[at]
        case 3:
            rows[at] += b",x"
        case _:
            rows[at] = rows[at].rpartition(b",")[0]
    return b"\n".join(rows)


def json_value(data: bytes, rng: Rng) -> bytes:
    """Another value somewhere in one of the file's JSON documents (lines of a .jsonl)."""
    rows = data.split(b"\n")
    many = len([r for r in rows if r.strip()]) > 1 and _parses(rows[0])
    at = int(rng.integers(len(rows))) if many else 0
    try:
        value = json.loads(rows[at] if many else data)
    except (ValueError, RecursionError):
        return words(data, rng)
    text = json.dumps(_changed(value, rng)).encode()
    return b"\n".join([*rows[:at], text, *rows[at + 1 :]]) if many else text


def _parses(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _changed(value: Any, rng: Rng) -> Any:
    """The value with one thing in it another, taken out, or under another name."""
    inside = isinstance(value, dict | list) and len(value) > 0
    if not inside or rng.random() < 0.15:
        return ODD[rng.integers(len(ODD))] if rng.random() < 0.8 else [value]
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[rng.integers(len(keys))]
    out = dict(value) if isinstance(value, dict) else list(value)
    match rng.integers(8):
        case 0:
            del out[key]
        case 1 if isinstance(out, dict):
            out[WORDS[rng.integers(len(WORDS))]] = out.pop(key)
        case 1:
            out.append(out[key])  # type: ignore[union-attr]
        case _:
            out[key] = _changed(out[key], rng)
    return out


def archive(data: bytes, rng: Rng) -> bytes:
    """A zip whose checksums hold, with a member damaged, missing, doubled or under another name."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            members = [(i.filename, old.read(i)) for i in old.infolist()]
    except Exception:
        return flips(data, rng)
    if not members:
        return data
    at = int(rng.integers(len(members)))
    name, content = members[at]
    match rng.integers(8):
        case 0:
            del members[at]
        case 1:
            members.append((name, cut(content, rng)))
        case 2:
            members[at] = (WORDS[rng.integers(len(WORDS))][:60] or "x", content)
        case _:
            members[at] = (name, damaged(name, content, rng))
    out = io.BytesIO()
    kind = zipfile.ZIP_STORED if rng.random() < 0.7 else zipfile.ZIP_DEFLATED
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", kind) as new:
        warnings.simplefilter("ignore")
        for name, content in members:
            new.writestr(zipfile.ZipInfo(name), content, kind)
    return out.getvalue()


def parquet(data: bytes, rng: Rng) -> bytes:
    """A table that opens, with a column of another kind, name or length, or empty."""
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except BaseException:
        return flips(data, rng)
    if not frame.width:
        return data
    try:
        frame = _other_table(frame, rng)
    except pl.exceptions.PolarsError:  # a second change of a column that cannot be changed so
        return flips(data, rng)
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def _other_table(frame: pl.DataFrame, rng: Rng) -> pl.DataFrame:
    name = frame.columns[rng.integers(frame.width)]
    column = pl.col(name)
    match rng.integers(9):
        case 0:
            frame = frame.drop(name)
        case 1:
            frame = frame.rename({name: name + "?"})
        case 2:
            frame = frame.with_columns(column.cast(pl.String))
        case 3:
            frame = frame.with_columns(pl.lit(None).alias(name))
        case 4:
            frame = frame.with_columns(pl.concat_list(name).alias(name))
        case 5:
            frame = frame.head(int(rng.integers(frame.height + 1)))
        case 6:
            frame = pl.concat([frame, frame])
        case 7:
            frame = frame.with_columns(column.shuffle(seed=int(rng.integers(1000))))
        case _:
            value = [float("nan"), -1, 2**40, "odd", 1e300][rng.integers(5)]
            frame = frame.with_columns(pl.lit(value).alias(name))
    return frame


def safetensors(data: bytes, rng: Rng) -> bytes:
    """A header that says other things of the same numbers."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.dumps(_changed(json.loads(data[8 : 8 + size]), rng)).encode()
    except (ValueError, RecursionError):
        return integers(data, rng)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def npy_header(data: bytes, rng: Rng) -> bytes:
    """Another shape or type of the same numbers."""
    head, body = data[:10], data[10:]
    text = body[: int.from_bytes(data[8:10], "little")] if len(data) > 10 else b""
    if not text:
        return flips(data, rng)
    kinds = (b"'|O'", b"'<f8'", b"'|u1'", b"'<c16'", b"'<U9999'", b"[('a', '<f4')]", b"'<m8[s]'")
    if rng.random() < 0.5:
        new = re.sub(rb"'descr': '[^']*'", b"'descr': " + kinds[rng.integers(len(kinds))], text)
    else:
        shapes = (
            b"()",
            b"(0,)",
            b"(-1,)",
            b"(1,)",
            b"(2000000000, 2000000000)",
            b"(99999999999999999999,)",
            b"(3, 3, 3)",
        )
        new = re.sub(rb"'shape': \([^)]*\)", b"'shape': " + shapes[rng.integers(len(shapes))], text)
    return head[:8] + len(new).to_bytes(2, "little") + new + body[len(text) :]


def _span(data: bytes, rng: Rng, most: int) -> tuple[int, int]:
    start = int(rng.integers(len(data) + 1))
    return start, min(len(data), start + int(rng.integers(1, most)))
