"""The durable queue: submissions are taken under a lease, kept by heartbeats, and finished exactly once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, or_, select, update

from handful.challenge.db import Database, Submission, now
from handful.challenge.failures import CODES

LEASE = dt.timedelta(seconds=60)
ATTEMPTS = 3


@dataclass(frozen=True)
class Lease:
    """The right to run one submission; ``worker`` is unique to this taking."""

    submission: int
    worker: str
    phase: str
    league: str
    archive: str
    sha256: str = ""


def take(
    database: Database, worker: str, lease: dt.timedelta = LEASE, leagues: Sequence[str] | None = None
) -> Lease | None:
    """Take the oldest submission (of these leagues) that waits, or whose worker has gone silent.

    A submission whose workers died too often is the platform's failure and is closed.
    """
    with database.writing() as session:
        at = now()
        stale = and_(Submission.status == "running", Submission.lease < at)
        query = select(Submission).where(or_(Submission.status == "queued", stale))
        if leagues is not None:
            query = query.where(Submission.league.in_(leagues))
        query = query.order_by(Submission.created, Submission.id).limit(1).with_for_update(skip_locked=True)
        found = session.scalars(query).first()
        while found is not None and found.attempts >= ATTEMPTS:
            found.status, found.code, found.finished = "failed", "PLATFORM", at
            found.told = {"code": "PLATFORM", "meaning": CODES["PLATFORM"], "message": "every worker that ran it died"}
            session.flush()
            found = session.scalars(query).first()
        if found is None:
            return None
        found.status, found.attempts, found.progress = "running", found.attempts + 1, ""
        found.worker, found.lease = f"{worker}#{found.attempts}", at + lease
        return Lease(found.id, found.worker, found.phase, found.league, found.archive, found.sha256)


def heartbeat(database: Database, lease: Lease, progress: str = "", length: dt.timedelta = LEASE) -> bool:
    """Keep a lease; False if it was lost, in which case the run is another worker's."""
    with database.writing() as session:
        mine = and_(
            Submission.id == lease.submission, Submission.worker == lease.worker, Submission.status == "running"
        )
        change = update(Submission).where(mine).values(lease=now() + length, progress=progress)
        return session.execute(change).rowcount == 1  # type: ignore[attr-defined]


def finish(database: Database, lease: Lease, values: dict[str, Any], move: Callable[[], None] = lambda: None) -> bool:
    """Record the outcome, if the lease is still ours; a submission is finished by one worker only.

    ``move`` puts the result's files in place; the record is committed after it, so that a worker killed in between
    leaves a submission that another runs again, never a score without its files.
    """
    with database.writing() as session:
        mine = and_(
            Submission.id == lease.submission, Submission.worker == lease.worker, Submission.status == "running"
        )
        change = update(Submission).where(mine).values(lease=None, finished=now(), progress="", **values)
        if session.execute(change).rowcount != 1:  # type: ignore[attr-defined]
            return False
        move()
        return True


def give_back(database: Database, lease: Lease) -> bool:
    """Put a submission back without counting the attempt, when a worker stops in order."""
    with database.writing() as session:
        mine = and_(
            Submission.id == lease.submission, Submission.worker == lease.worker, Submission.status == "running"
        )
        values = {"status": "queued", "lease": None, "progress": "", "attempts": Submission.attempts - 1}
        return session.execute(update(Submission).where(mine).values(values)).rowcount == 1  # type: ignore[attr-defined]
