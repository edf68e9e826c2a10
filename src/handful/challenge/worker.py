"""A worker: takes submissions from the queue, runs them contained, and records the outcome once."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import secrets
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError, OperationalError

from handful.challenge import litter, queue, results, rules, scores
from handful.challenge.db import Database, Phase
from handful.challenge.queue import Lease
from handful.challenge.running import Outcome, execute
from handful.challenge.sources import Data
from handful.challenge.spec import Challenge
from handful.challenge.storage import Storage

log = logging.getLogger("handful.challenge.worker")
_SWEEP = 600.0
Runner = Callable[[Lease, bytes, Path, Callable[[int, int], None]], Outcome]


class LeaseLost(Exception):
    """Another worker has taken the submission over."""


class Worker:
    """Runs until told to stop; survives the database going away for a while."""

    def __init__(
        self,
        database: Database,
        challenge: Challenge,
        root: Path,
        state: Path,
        *,
        run: Runner | None = None,
        lease: dt.timedelta = queue.LEASE,
        trust: bool = False,
        patience: float = 120.0,
        leagues: Sequence[str] | None = None,
        devices: tuple[int, ...] = (),
        storage: Storage | None = None,
    ) -> None:
        self.database, self.challenge, self.state = database, challenge, state
        self.data = Data(challenge, root, state)
        self.run_one = run or self._execute
        self.lease, self.trust, self.patience = lease, trust, patience
        self.leagues, self.devices, self.storage = leagues, devices, storage or Storage(state)
        self.name = f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"
        self.stopping = threading.Event()

    def _execute(self, lease: Lease, secret: bytes, place: Path, progress: Callable[[int, int], None]) -> Outcome:
        league = self.challenge.league(lease.league)
        own = self.challenge.phase(lease.phase).role == "feedback"
        words: tuple[object, ...] = (lease.submission,) if own else ()
        return execute(
            self.data,
            lease.phase,
            self.storage.file(f"submissions/{lease.archive}", lease.sha256),
            place,
            secret=secret,
            name=f"submission-{lease.submission}",
            now=lease.phase,
            words=words,
            pretrained=league.pretrained,
            packages=league.packages,
            devices=self.devices,
            trust=self.trust,
            progress=progress,
        )

    def _patiently(self, action: Callable[[], Any]) -> Any:
        """Do something with the database, waiting while it is away (restarted, locked)."""
        end, pause = time.monotonic() + self.patience, 0.1
        while True:
            try:
                return action()
            except (OperationalError, DBAPIError) as error:
                if time.monotonic() > end:
                    raise
                log.warning("the database is away (%s); trying again", type(error).__name__)
                self.database.engine.dispose()
                time.sleep(pause)
                pause = min(2.0, 2 * pause)

    def forever(self, idle: float = 1.0, until_empty: bool = False) -> int:
        """Work until ``stop``; gives how many submissions were finished."""
        done, swept = 0, float("-inf")
        while not self.stopping.is_set():
            if time.monotonic() > swept + _SWEEP:
                self._patiently(lambda: litter.sweep_runs(self.database, self.state))
                swept = time.monotonic()
            self._patiently(lambda: rules.keep_time(self.database, self.challenge))
            lease = self._patiently(lambda: queue.take(self.database, self.name, self.lease, self.leagues))
            if lease is None:
                if until_empty:
                    break
                self.stopping.wait(idle)
                continue
            done += self.work(lease)
        return done

    def stop(self, *_: object) -> None:
        """Finish nothing more; the running submission goes back into the queue."""
        self.stopping.set()

    def handle_signals(self) -> None:
        """Stop in order on SIGTERM and Ctrl-C."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self.stop)

    def work(self, lease: Lease) -> bool:
        """Run one submission under its lease; True if its outcome was recorded by this worker."""
        place = self.state / "runs" / litter.run_name(lease.submission, lease.worker)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        lost, ended, said = threading.Event(), threading.Event(), {"progress": ""}

        def beat() -> None:
            while not ended.wait(self.lease.total_seconds() / 4):
                with contextlib.suppress(OperationalError, DBAPIError):
                    if not queue.heartbeat(self.database, lease, said["progress"], self.lease):
                        lost.set()
                        return

        def progress(done: int, total: int) -> None:
            said["progress"] = f"{done} of {total} tasks"
            if lost.is_set() or self.stopping.is_set():
                raise LeaseLost

        began = time.monotonic()
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            secret = self._patiently(lambda: self._secret(lease.phase))
            outcome = self.run_one(lease, secret, place, progress)
            self._number(outcome, lease, place)
            values = _values(outcome)
        except LeaseLost:
            if self.stopping.is_set() and not lost.is_set():
                self._patiently(lambda: queue.give_back(self.database, lease))
            shutil.rmtree(place, ignore_errors=True)
            return False
        except Exception as error:
            # Whatever breaks here is ours: the participant is told so, and it costs them nothing.
            log.exception("submission %d could not be run", lease.submission)
            told = {"code": "PLATFORM", "phase": "", "message": "the platform failed; the organisers were told"}
            values = {
                "status": "failed",
                "code": "PLATFORM",
                "told": told,
                "full_log": f"{type(error).__name__}: {error}",
                "seconds": time.monotonic() - began,
            }
        finally:
            ended.set()
            thread.join()
        final = self.state / "results" / str(lease.submission)

        def move() -> None:
            if (place / "results").is_dir():
                final.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(final, ignore_errors=True)
                os.replace(place / "results", final)
                self.storage.keep(f"results/{lease.submission}")
            elif values["status"] == "failed":
                self.storage.drop(f"results/{lease.submission}")

        recorded = bool(self._patiently(lambda: queue.finish(self.database, lease, values, move)))
        shutil.rmtree(place, ignore_errors=True)
        return recorded

    def _number(self, outcome: Outcome, lease: Lease, place: Path) -> None:
        """Keep the results under the data sets' names for later, and write those that the participant sees until then."""
        if outcome.frame is None or not (place / "results").is_dir():
            return
        os.replace(place / "results", place / "named")
        title = f"{self.challenge.title}: {lease.phase} phase"
        numbered = scores.numbered(outcome.frame)
        results.write(numbered, place / "results", outcome.seconds, title, learner=outcome.learner)
        os.replace(place / "named", place / "results" / "named")

    def _secret(self, phase: str) -> bytes:
        with self.database.reading() as session:
            row = session.get(Phase, phase)
            assert row is not None
            return row.secret


def _values(outcome: Outcome) -> dict[str, Any]:
    told = {key: str(value).replace("\x00", "") for key, value in outcome.told.items()}
    common = {"seconds": outcome.seconds, "told": told}
    if outcome.failure is not None:
        full = outcome.failure.log + "\n" + outcome.failure.message
        return {
            "status": "failed",
            "code": outcome.failure.code,
            "full_log": full[-60_000:].replace("\x00", ""),
            **common,
        }
    logged = outcome.log[-60_000:].replace("\x00", "")
    return {
        "status": "scored",
        "score": outcome.score,
        "scores": outcome.facts,
        "code": "",
        "full_log": logged,
        **common,
    }
