"""Fifty submissions, two workers, one killed in the middle: each ends scored or failed exactly once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from around import program

pytest.importorskip("sqlalchemy", reason="needs handful[serve]")
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from handful.challenge import rules
from handful.challenge.db import Database, Submission, User
from handful.challenge.spec_file import TEMPLATE, read

HERE = Path(__file__).parent
COUNT = 50


def start(url: str, root: Path, state: Path, seconds: float = 0.2, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "queue_worker.py"), url, str(root), str(state), str(seconds), *more]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline().strip() == "ready"
    return process


def fill(url: str, root: Path) -> Database:
    database = Database(url)
    database.create()
    (root / "challenge.toml").write_text(TEMPLATE.format(name="queue", title="Queue"))
    with database.writing() as session:
        rules.begin(session, read(root / "challenge.toml"))
        user = User(name="ann", email="a@example.org", real_name="Ann", password="x")
        session.add(user)
        session.flush()
        for i in range(COUNT):
            row = Submission(user_id=user.id, phase="feedback", league="free-style", name=str(i), sha256="", archive="")
            session.add(row)
    return database


def statuses(database: Database) -> list[Submission]:
    while True:
        try:
            with database.reading() as session:
                return list(session.scalars(select(Submission).order_by(Submission.id)))
        except DBAPIError:
            time.sleep(0.1)


def wait(database: Database, done: int, patience: float = 240) -> list[Submission]:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        rows = statuses(database)
        if sum(row.status in ("scored", "failed") for row in rows) >= done:
            return rows
        time.sleep(0.1)
    raise AssertionError([(row.id, row.status, row.worker, row.attempts) for row in statuses(database)])


def check(rows: list[Submission], state: Path, killed: int) -> None:
    assert len(rows) == COUNT and all(row.status in ("scored", "failed") for row in rows)
    for row in rows:
        planted = row.id % 5 == 0
        assert (row.status, row.code) == (("failed", "FIT_ERROR") if planted else ("scored", "")), row.id
        assert planted or row.score == pytest.approx(row.id / 100)
        assert row.lease is None and row.finished is not None
    began = [int(line.split()[0]) for line in (state / "began.txt").read_text().splitlines()]
    assert set(began) == {row.id for row in rows}
    assert sum(row.attempts >= 2 for row in rows) >= killed, "what a killed worker had in hand was taken again"
    assert sum(row.attempts for row in rows) >= len(began)


def stress(url: str, tmp_path: Path, middle=None) -> None:
    database = fill(url, tmp_path)
    # The first worker is slow, so that it is sure to hold a lease when it is killed.
    victim = start(url, tmp_path, tmp_path, seconds=600)
    workers = [victim]
    try:
        while not any(row.status == "running" for row in statuses(database)):
            time.sleep(0.05)
        workers.append(start(url, tmp_path, tmp_path))
        wait(database, 10)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        if middle is not None:
            wait(database, 20)
            middle()
        workers.append(start(url, tmp_path, tmp_path))
        check(wait(database, COUNT), tmp_path, killed=1)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        database.engine.dispose()


def test_on_sqlite(tmp_path):
    stress(f"sqlite:///{tmp_path / 'queue.sqlite'}", tmp_path)


class Postgres:
    """A PostgreSQL server of the test's own, as its own user where we are root."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="handful-postgres-"))
        self.port = 20000 + os.getpid() % 20000
        self.user = (
            ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.geteuid() == 0 else []
        )
        if self.user:
            shutil.chown(self.place, "postgres", "postgres")
        self.call(
            find("initdb"), "-D", str(self.place / "data"), "-U", "handful", "--auth=trust", "-E", "UTF8", "--no-sync"
        )

    @property
    def url(self) -> str:
        return f"postgresql://handful@127.0.0.1:{self.port}/postgres"

    def call(self, *command: str) -> None:
        subprocess.run(
            [*self.user, *command], check=True, cwd=self.place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def control(self, verb: str) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.place} -c fsync=off"
        more = ["-m", "immediate"] if verb != "start" else []
        log = str(self.place / "log")
        self.call(find("pg_ctl"), "-D", str(self.place / "data"), "-l", log, "-o", options, "-w", *more, verb)


def find(name: str) -> str:
    return program(name) or ""


@pytest.fixture
def postgres():
    pytest.importorskip("psycopg", reason="needs handful[serve]")
    if not find("initdb"):
        pytest.skip("needs PostgreSQL: the queue is tested on SQLite only")
    server = Postgres()
    server.control("start")
    yield server
    server.control("stop")
    shutil.rmtree(server.place, ignore_errors=True)


def test_on_postgresql_with_a_restart_of_the_server(postgres, tmp_path):
    stress(postgres.url, tmp_path, middle=lambda: postgres.control("restart"))


def test_a_worker_that_is_told_to_stop_gives_its_submission_back(tmp_path):
    url = f"sqlite:///{tmp_path / 'queue.sqlite'}"
    database = fill(url, tmp_path)
    worker = start(url, tmp_path, tmp_path, seconds=20)
    while not any(row.status == "running" for row in statuses(database)):
        time.sleep(0.05)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    rows = statuses(database)
    assert {row.status for row in rows} == {"queued"} and {row.attempts for row in rows} == {0}


def test_a_worker_killed_before_its_record_leaves_nothing_half_done(tmp_path):
    """The results are in place before the record is; until then the submission is another worker's to run."""
    import datetime as dt

    from handful.challenge import litter, queue

    database = fill(f"sqlite:///{tmp_path / 'queue.sqlite'}", tmp_path)
    first = queue.take(database, "first", dt.timedelta(seconds=-1))
    order = []

    def move() -> None:
        order.append(statuses(database)[0].status)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.finish(database, first, {"status": "scored", "score": 0.5}, move)
    assert order == ["running"] and statuses(database)[0].status == "running"
    for name in (litter.run_name(first.submission, first.worker), "7-of-a-killed-worker"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    second = queue.take(database, "second")
    assert second.submission == first.submission
    mine = tmp_path / "runs" / litter.run_name(second.submission, second.worker)
    mine.mkdir()
    litter.sweep_runs(database, tmp_path)
    assert list((tmp_path / "runs").iterdir()) == [mine], "only what is held stays"
    moved = []
    assert queue.finish(database, second, {"status": "scored", "score": 0.6}, lambda: moved.append(1)) and moved
    assert not queue.finish(database, first, {"status": "scored", "score": 0.5}, lambda: moved.append(2))
    assert moved == [1], "a worker that lost its lease moves nothing"
    database.engine.dispose()
