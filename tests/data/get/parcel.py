"""What tests of downloading share: a body, its checksum, and archives of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from handful.data.get.download import download
from handful.data.get.manifest import Archive
from handful.data.get.record import Fetched
from handful.data.get.web import Patience

BODY = b"PK\x03\x04" + np.random.default_rng(0).bytes(300_000)
SHA = hashlib.sha256(BODY).hexdigest()
CALM = Patience(stall=30, tries=2, pause=0)
HASTY = Patience(stall=1, tries=3, pause=0)


def archive(*urls: str, **facts: object) -> Archive:
    facts = {"size": len(BODY), "sha256": SHA, **facts}
    return Archive("a.zip", urls=urls, **facts)  # type: ignore[arg-type]


def bare(*urls: str) -> Archive:
    """An archive of which nothing is published."""
    return Archive("a.zip", urls=urls)


def get(what: Archive, tmp_path: Path, patience: Patience = CALM, **options) -> Fetched:
    done = download(what, tmp_path / "a.zip", patience, **options)
    assert not list(tmp_path.glob("*.part*")), "nothing half-fetched stays beside a whole file"
    return done
