"""The service under many and under hostile connections, on a real server with SQLite and with PostgreSQL."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")
import httpx
from sqlalchemy import event, select

from handful.challenge.db import Submission, User

from .serving import Served, served
from .test_queue import Postgres, find
from .test_service import PASSWORD, Site, archive, root, token  # noqa: F401


@pytest.fixture(scope="module")
def postgres_url():
    if not find("initdb"):
        yield None
        return
    server = Postgres()
    server.control("start")
    yield server.url
    server.control("stop")
    shutil.rmtree(server.place, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request, root, tmp_path, postgres_url):  # noqa: F811
    """Makes a served site with the options of ``make_app``, on either database."""
    from contextlib import ExitStack

    from handful.challenge.db import Base, Database

    with ExitStack() as stack:

        def go(**options) -> Served:
            url = None
            if request.param == "postgresql":
                pytest.importorskip("psycopg", reason="needs handful[serve]")
                if postgres_url is None:
                    pytest.skip("PostgreSQL is not installed; tested on SQLite only")
                url = postgres_url
                old = Database(url)
                Base.metadata.drop_all(old.engine)
                old.engine.dispose()
            return stack.enter_context(served(Site(root, tmp_path, url, options)))

        yield go


def open_phase(server: Served) -> None:
    boss = server.site.organiser()
    server.site.advance(boss)


POST = "POST {path} HTTP/1.1\nHost: x\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 100\n{more}\n"


def test_connections_that_go_silent_stop_nobody_else(make):
    server = make(patience=600)
    with server.client(follow_redirects=True) as ann:
        assert server.register(ann, "ann").status_code == 200
        cookie = f"Cookie: handful_session={ann.cookies['handful_session']}\n"
        # More than the pool has connections and than the pages have threads, half of them logged in.
        paths = ["/account", "/login", "/register", "/submissions", "/api/submissions", "/organiser/advance"]
        lines = [
            server.raw(POST.format(path=paths[i % len(paths)], more=cookie if i % 2 else ""), b"name=a")
            for i in range(60)
        ]
        time.sleep(1)
        try:
            with server.client(timeout=15) as bob:
                assert server.register(bob, "bob").status_code == 303
            assert ann.get("/account").status_code == 200
            form = {"pseudonym": "Anna", "csrf": server.csrf(ann, "/account")}
            assert ann.post("/account", data=form, timeout=15).status_code == 200
        finally:
            for line in lines:
                line.close()


def test_a_form_that_comes_too_slowly_is_sent_away(make):
    server = make(patience=0.5)
    line = server.raw(POST.format(path="/login", more=""), b"name=a")
    answer = line.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408") and b"too slowly" in answer


@pytest.mark.slow
def test_many_posts_at_once_end_in_an_answer_each(make):
    server = make()
    open_phase(server)

    def come(i: int) -> list[int]:
        with server.client() as client:
            codes = [server.register(client, f"team{i}x").status_code]
            for wrong in ("wrong password!", PASSWORD):
                form = {"name": f"team{i}x", "password": wrong, "csrf": server.csrf(client, "/login")}
                codes.append(client.post("/login", data=form).status_code)
            form = {"league": "free-style", "csrf": server.csrf(client, "/submissions")}
            codes.append(client.post("/submissions", data=form, files={"archive": ("s.zip", archive())}).status_code)
            return codes

    with ThreadPoolExecutor(25) as threads:
        found = list(threads.map(come, range(25)))
    assert all(codes == [303, 401, 303, 303] for codes in found), found
    with server.site.database.reading() as session:
        assert len(list(session.scalars(select(Submission)))) == 25


def test_a_line_that_is_too_long_is_told_to_come_back(make):
    from threading import Event

    server = make()
    site = server.site.app.state.site
    site.crowd.line = 3
    gate = Event()
    held = [site.crowd.threads.submit(gate.wait) for _ in range(2)]

    def come(i: int) -> httpx.Response:
        with server.client() as client:
            return server.register(client, f"bird{i}")

    with ThreadPoolExecutor(10) as threads:
        waiting = [threads.submit(come, i) for i in range(10)]
        end = time.monotonic() + 60
        while sum(each.done() for each in waiting) < 7 and time.monotonic() < end:
            time.sleep(0.05)
        gate.set()
        answers = [each.result() for each in waiting]
    assert all(each.result() for each in held)
    turned = [answer for answer in answers if answer.status_code == 503]
    assert len(turned) == 7 and sorted({answer.status_code for answer in answers}) == [303, 503]
    assert all(int(answer.headers["retry-after"]) > 0 for answer in turned)


def test_quotas_are_exact_when_one_account_uploads_many_times_at_once(make):
    server = make()
    open_phase(server)
    server.site.app.state.site.seats.each = 50
    with server.client() as client:
        server.register(client, "ann")
        form = {"league": "free-style", "csrf": server.csrf(client, "/submissions")}
        files = {"archive": ("s.zip", archive())}
        with ThreadPoolExecutor(20) as threads:
            codes = list(
                threads.map(lambda _: client.post("/submissions", data=form, files=files).status_code, range(20))
            )
    assert sorted(codes) == [303] * 2 + [400] * 18
    with server.site.database.reading() as session:
        kept = {row.archive for row in session.scalars(select(Submission))}
    assert {path.name for path in (server.site.state / "submissions").iterdir()} == kept and len(kept) == 2


def test_the_answer_leaves_after_the_commit(make):
    server = make()

    @event.listens_for(server.site.database.engine, "commit")
    def slow(_) -> None:
        time.sleep(0.5)

    with server.client() as client:
        answer = server.register(client, "ann")
        assert answer.status_code == 303 and client.get(answer.headers["location"]).status_code == 200
        client.post("/logout", data={"csrf": server.csrf(client, "/account")})
        form = {"name": "ann", "password": PASSWORD, "csrf": server.csrf(client, "/login")}
        answer = client.post("/login", data=form)
        assert answer.status_code == 303 and client.get(answer.headers["location"]).status_code == 200


def test_a_commit_that_fails_is_not_reported_as_success(make):
    from sqlalchemy.exc import OperationalError

    server = make()

    @event.listens_for(server.site.database._write, "before_commit")
    def broken(session) -> None:
        if any(isinstance(each, User) for each in session.identity_map.values()):
            raise OperationalError("commit", {}, Exception("disk I/O error"))

    with server.client() as client:
        answer = server.register(client, "ann")
    assert answer.status_code == 503 and "location" not in answer.headers and "handful_session" not in answer.cookies
    with server.site.database.reading() as session:
        assert list(session.scalars(select(User))) == []


def test_parallel_guesses_are_counted_exactly(make, monkeypatch):
    from handful.challenge import accounts

    server = make()
    # The clock that the delays are measured by stands still, so that no delay passes while slow guesses come in.
    moment = accounts.now()
    monkeypatch.setattr(accounts, "now", lambda: moment)
    with server.client() as ann:
        server.register(ann, "ann")

    def come(_: int) -> int:
        with server.client() as client:
            form = {"name": "ann", "password": "wrong password", "csrf": server.csrf(client, "/login")}
            return client.post("/login", data=form).status_code

    with ThreadPoolExecutor(30) as threads:
        codes = list(threads.map(come, range(30)))
    assert sorted(codes) == [401] * 10 + [429] * 20, "without an exact count more would be checked"


def test_a_length_and_chunks_together_are_refused_and_the_body_is_not_kept(make):
    server = make()
    with server.client() as ann:
        server.register(ann, "ann")
        cookie = f"handful_session={ann.cookies['handful_session']}"
    head = f"POST /submissions HTTP/1.1\nHost: x\nCookie: {cookie}\nContent-Length: 1\nTransfer-Encoding: chunked\n"
    head += "Content-Type: multipart/form-data; boundary=b\n\n"
    line = server.raw(head, b"4\r\nabcd\r\n" * 3, b"0\r\n\r\n")
    assert line.makefile("rb").readline().split()[1] in (b"400", b"411")
    line.close()
    with server.client() as anyone:
        answer = anyone.post("/login", content=(b"x" for _ in range(3)))
    assert answer.status_code == 411


def test_the_login_is_checked_before_an_upload_is_taken(make):
    server = make()
    for path in ("/submissions", "/api/submissions"):
        head = (
            f"POST {path} HTTP/1.1\nHost: x\nContent-Type: multipart/form-data; boundary=b\nContent-Length: 9000000\n\n"
        )
        line = server.raw(head, b"--b\r\n")
        assert line.makefile("rb").readline().startswith(b"HTTP/1.1 401"), "answered while the body is still to come"
        line.close()


@pytest.mark.slow
def test_the_load_of_a_few_participants_ends_without_a_500(tmp_path):
    """The load test of benchmarks/, small and without a limit on the times."""
    import json
    import subprocess
    import sys
    from pathlib import Path

    script = Path(__file__).parents[2] / "benchmarks" / "challenge_load.py"
    command = [sys.executable, str(script), "--participants", "4", "--uploads", "8"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout)
    assert report["statuses"]["register"]["303"] == 4 and report["statuses"]["upload"]["303"] == 8
    assert not [code for codes in report["statuses"].values() for code in codes if code.startswith("5")]
    assert sum(report["submissions"].values()) == 8
