"""What a bucket holds: the one request of the S3 protocol that a public MinIO store (OpenML's) answers to strangers."""

from __future__ import annotations

import re
from html import unescape
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

from handful.data.get.fetch import BLOCK
from handful.data.get.web import Failed, Patience, ask

CAP = 1 << 20
CONTENTS = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)


def look_up(listing: str, file: str, patience: Patience) -> tuple[str, int | None, str | None]:
    """Address, length and MD5 (where the store tells them) of the archive ``file`` in a bucket's listing.

    Names differ in case and underscores between versions (``INS2_Mini.zip``, ``INS_2_Mini.zip``); anything beyond that is
    another data set and refused, so that a wrong number in the manifest cannot pass.
    """
    text = _text(listing, patience)
    if "<ListBucketResult" not in text:
        raise Failed("gave something that is not a bucket's listing")
    found = [_object(c) for c in CONTENTS.findall(text)]
    zips = [(key, size, tag) for key, size, tag in found if key.lower().endswith(".zip")]
    same = [z for z in zips if _plain(z[0]) == _plain(file)]
    if len(same) != 1:
        names = ", ".join(PurePosixPath(key).name for key, _, _ in zips[:3]) or "no zip"
        raise Failed(f"lists {names}, not {file}")
    key, size, tag = same[0]
    bucket = urlsplit(listing)._replace(query="", fragment="").geturl().rstrip("/")
    # The tag of an object that was uploaded in pieces has a dash and is no MD5.
    md5 = tag if re.fullmatch(r"[0-9a-f]{32}", tag) else None
    return f"{bucket}/{quote(key)}", size, md5


def _text(listing: str, patience: Patience) -> str:
    with ask(listing, {}, patience) as answer:
        data = b""
        try:
            while block := answer.read1(BLOCK):
                data += block
                if len(data) > CAP:
                    raise Failed("gave a listing of more than a megabyte")
        except OSError as error:
            raise Failed(f"broke off ({error or type(error).__name__})", retry=True) from error
    return data.decode("utf-8", errors="replace")


def _object(text: str) -> tuple[str, int | None, str]:
    facts = {k: unescape(v).strip() for k, v in re.findall(r"<(Key|Size|ETag)>(.*?)</\1>", text, re.DOTALL)}
    size = facts.get("Size", "")
    return facts.get("Key", ""), int(size) if size.isdigit() else None, facts.get("ETag", "").strip('"').lower()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", PurePosixPath(name).stem.lower())
