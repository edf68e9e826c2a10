"""500 submissions by 50 participants on PostgreSQL: four workers, two killed, the database restarted twice."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter

import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")
import httpx

from handful.challenge import accounts, rules
from handful.challenge.db import User
from handful.challenge.spec import QuotaSpec

from .serving import served
from .test_queue import postgres, start, statuses, wait  # noqa: F401
from .test_service import Site, archive, root  # noqa: F401

PARTICIPANTS, EACH = 50, 10


def upload_all(url: str, token: str, package: bytes, seen: Counter) -> None:
    """Upload until the quota refuses; a server that is busy or whose database is away is asked again."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        while True:
            try:
                files = {"archive": ("s.zip", package, "application/zip")}
                answer = client.post("/api/submissions", data={"league": "free-style"}, files=files)
            except httpx.HTTPError:
                time.sleep(0.5)
                continue
            seen[answer.status_code] += 1
            if answer.status_code == 400:
                assert "used your 10 submissions" in answer.json()["error"], answer.text
                return
            if answer.status_code != 200:
                assert answer.status_code == 503, answer.text
                time.sleep(0.5)


@pytest.mark.slow
def test_each_of_500_submissions_ends_exactly_once_and_quotas_are_exact(postgres, root, tmp_path):  # noqa: F811
    site = Site(root, tmp_path, postgres.url, quota=QuotaSpec(per_day=EACH, total=EACH))
    (tmp_path / "challenge.toml").write_text((root / "challenge.toml").read_text())
    with site.database.writing() as session:
        rules.advance(session, site.challenge)
        tokens = []
        for i in range(PARTICIPANTS):
            user = User(name=f"team{i}", email="t@example.org", real_name="T", password="x")
            session.add(user)
            session.flush()
            tokens.append(accounts.new_token(session, user))
    # No submission fails here: own failures have a cap of their own and would not count. The first two never finish, so that they are sure to hold a submission when they are killed.
    workers = [start(postgres.url, tmp_path, tmp_path, seconds, "steady") for seconds in (3600, 3600, 0.01, 0.01)]
    seen: Counter = Counter()
    package = archive()
    try:
        with served(site) as server:
            crowd = [threading.Thread(target=upload_all, args=(server.url, token, package, seen)) for token in tokens]
            for each in crowd:
                each.start()
            for done, victim in ((40, workers[0]), (150, workers[1])):
                wait(site.database, done, patience=900)
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                postgres.control("restart")
            for each in crowd:
                each.join(900)
            assert not any(each.is_alive() for each in crowd)
            rows = wait(site.database, PARTICIPANTS * EACH, patience=900)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        site.database.engine.dispose()
    assert Counter(row.user_id for row in rows).most_common()[-1][1] == EACH
    assert len(rows) == PARTICIPANTS * EACH, "no account got one more or one less"
    assert all(row.lease is None and row.finished is not None for row in rows)
    for row in rows:
        assert (row.status, row.code) == ("scored", "") and row.score == pytest.approx(row.id / 100), (row.id, row.code)
    assert sum(row.attempts >= 2 for row in rows) >= 2, "what the two killed workers held was run by others"
    assert set(seen) <= {200, 400, 503} and seen[400] == PARTICIPANTS
    print(dict(seen), "attempts:", Counter(row.attempts for row in rows))
    assert len(statuses(site.database)) == len(rows)
