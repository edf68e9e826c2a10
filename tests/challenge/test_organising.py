"""What an organiser does in a season: dates, confirmation, approval, disqualification, re-runs, words to everyone."""

from __future__ import annotations

import datetime as dt
import os
import re

import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")
from sqlalchemy import select

from handful.challenge import accounts, db, rules
from handful.challenge.db import Login, Submission, Token, User
from handful.challenge.failures import Failure
from handful.challenge.markdown import render
from handful.challenge.spec_file import read
from handful.errors import BadInput

from .test_service import PASSWORD, Site, end_phase, enter, guess, names, root, site, token, upload  # noqa: F401

DAY = dt.timedelta(days=1)
START = dt.datetime(2031, 5, 1, 12)


class Clock:
    """A clock that stands where the test puts it."""

    def __init__(self, monkeypatch) -> None:
        self.at = START
        monkeypatch.setattr(db, "clock", lambda: self.at.replace(tzinfo=dt.UTC))


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


def dated(root, **dates: tuple[int | None, int | None]):  # noqa: F811
    """The challenge's phases with days after the start at which they begin and end."""

    def day(n: int | None) -> dt.datetime | None:
        return None if n is None else START + n * DAY

    phases = read(root / "challenge.toml").phases
    return {
        name: phase.model_copy(
            update=dict(zip(("begins", "ends"), map(day, dates.get(name, (None, None))), strict=True))
        )
        for name, phase in phases.items()
    }


def back(site: Site, name: str):  # noqa: F811
    """A participant who logs in again, some days later."""
    client = site.client()
    assert guess(client, name, PASSWORD).status_code == 303
    return client


def test_phases_open_and_close_by_the_clock(root, tmp_path, clock):  # noqa: F811
    site = Site(root, tmp_path, phases=dated(root, feedback=(1, 10), final=(12, 20)))  # noqa: F811
    ann = site.participant("ann")
    assert "public phase" in upload(ann).text
    clock.at = START + 2 * DAY
    assert upload(ann).status_code == 303
    clock.at = START + 10 * DAY
    ann = back(site, "ann")
    assert "closed on 2031-05-11" in upload(ann).text, "between two phases nothing is taken"
    clock.at = START + 13 * DAY
    ann = back(site, "ann")
    assert "feedback phase" in upload(ann).text, "what still waits is let finish before the phase turns"
    site.work(0.9)
    with site.database.reading() as session:
        assert rules.current(session) == "final", "a worker turns the phase, nobody needs to look at a page"
        assert [row.phase for row in session.scalars(select(Submission).order_by(Submission.id))] == [
            "feedback",
            "final",
        ]
    assert "final phase" in upload(ann).text
    clock.at = START + 21 * DAY
    ann = back(site, "ann")
    assert "has ended" in ann.get("/").text and "has ended" in upload(ann).text
    with site.database.reading() as session:
        assert rules.ended(session) and not rules.results_are_final(session, site.challenge)
    clock.at = START + 40 * DAY
    with site.database.reading() as session:
        assert rules.results_are_final(session, site.challenge)


def test_a_phase_ends_once_however_often_it_is_confirmed(site):  # noqa: F811
    boss = site.organiser()
    page = boss.get("/organiser/advance").text
    assert "public" in page and "cannot be taken back" in page
    form = {"csrf": token(boss, "/organiser"), "phase": "public"}
    assert boss.post("/organiser/advance", data={"csrf": form["csrf"]}).status_code == 400, "unconfirmed"
    assert boss.post("/organiser/advance", data=form).status_code == 303
    assert boss.post("/organiser/advance", data=form).status_code == 400, "sent twice"
    for _ in range(2):
        assert end_phase(boss).status_code == 303
    assert "has ended" in boss.get("/organiser").text and end_phase(boss).status_code == 400


def test_the_same_organisers_after_a_restart(site):  # noqa: F811
    with site.database.writing() as session:
        drawn = accounts.ensure_organiser(session, "ann", None)
        assert drawn and accounts.ensure_organiser(session, "bob", "given by hand") is None
    with site.database.writing() as session:
        assert accounts.ensure_organiser(session, "ann", None) is None, "the second start changes nothing"
    assert guess(site.client(), "ann", drawn).status_code == 303
    site.participant("eve")
    with site.database.writing() as session, pytest.raises(BadInput, match="participant"):
        accounts.ensure_organiser(session, "eve", None)
    with site.database.writing() as session:
        accounts.ensure_organiser(session, "bob", "another by hand")
    assert guess(site.client(), "bob", "given by hand").status_code == 401
    assert guess(site.client(), "bob", "another by hand").status_code == 303


def test_a_password_is_reset_by_a_link_that_works_once(site, clock):  # noqa: F811
    boss, ann = site.organiser(), site.participant("ann")
    ann.post("/account/token", data={"csrf": token(ann, "/account")})
    with site.database.reading() as session:
        number = session.scalars(select(User.id).where(User.name == "ann")).one()
    assert ann.post(f"/organiser/reset/{number}", data={"csrf": token(ann, "/account")}).status_code == 403

    def link() -> str:
        page = boss.post(f"/organiser/reset/{number}", data={"csrf": token(boss, "/organiser")}).text
        return re.search(r"/reset/[\w-]+", page).group(0)

    first, second = link(), link()
    other = site.client()
    assert other.get(first).status_code == 404, "a newer link voids the older one"
    form = {"password": "a new long password", "csrf": token(other, second)}
    assert other.post(second, data={**form, "password": "short"}).status_code == 400
    assert other.post(second, data={**form, "csrf": "x"}).status_code == 403
    assert other.post(second, data=form).status_code == 303
    assert other.get(second).status_code == 404 and ann.get("/account").status_code == 401
    with site.database.reading() as session:
        assert not list(session.scalars(select(Token)))
        assert len(list(session.scalars(select(Login).where(Login.user_id == number)))) == 1, "the new login alone"
    assert guess(site.client(), "ann", PASSWORD).status_code == 401
    assert guess(site.client(), "ann", "a new long password").status_code == 303
    late = link()
    clock.at = START + 2 * DAY
    assert site.client().get(late).status_code == 404


def decide(boss, site, name: str, state: str, reason: str = ""):  # noqa: F811
    with site.database.reading() as session:
        number = session.scalars(select(User.id).where(User.name == name)).one()
    form = {"csrf": token(boss, "/organiser"), "state": state, "reason": reason}
    return boss.post(f"/organiser/standing/{number}", data=form)


def test_accounts_wait_for_approval_where_the_file_says_so(root, tmp_path):  # noqa: F811
    site = Site(root, tmp_path, approval=True)  # noqa: F811
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    assert "not approved" in upload(ann).text
    own = {"csrf": token(ann, "/account"), "state": "approved"}
    assert ann.post("/organiser/standing/2", data=own).status_code == 403
    assert decide(boss, site, "ann", "approved").status_code == 303
    assert upload(ann).status_code == 303
    assert decide(boss, site, "ann", "king").status_code == 400


def test_a_disqualified_team_is_listed_without_rank_and_submits_no_more(site):  # noqa: F811
    boss, ann, bob = site.organiser(), site.participant("ann"), site.participant("bob")
    site.advance(boss)
    enter(site, ann, 0.9)
    enter(site, bob, 0.8)
    assert decide(boss, site, "ann", "disqualified", "copied <b>code</b>").status_code == 303
    assert names(site, "feedback", "free-style") == [(None, "ann"), (1, "bob")]
    page = upload(ann).text
    assert "disqualified" in page and "copied &lt;b&gt;" in page
    site.advance(boss)
    site.work(0.7)
    assert names(site, "final", "free-style") == [(1, "bob")], "nor does it enter the final"
    assert decide(boss, site, "ann", "approved").status_code == 303
    assert names(site, "feedback", "free-style")[0] == (1, "ann"), "it can be taken back"


def test_submissions_are_run_again_after_a_fix(site):  # noqa: F811
    boss, ann, bob = site.organiser(), site.participant("ann"), site.participant("bob")
    site.advance(boss)
    upload(ann)
    site.work(failure=Failure("PLATFORM", "start", "no room"))
    enter(site, bob, 0.4)
    form = {"csrf": token(boss, "/organiser")}
    assert ann.post("/organiser/again", data={"csrf": token(ann, "/account")}).status_code == 403
    assert boss.post("/organiser/again", data={**form, "number": "1"}).status_code == 303
    site.work(0.8)
    assert names(site, "feedback", "free-style") == [(1, "ann"), (2, "bob")]
    assert boss.post("/organiser/again", data=form).status_code == 303
    with site.database.reading() as session:
        assert {row.status for row in session.scalars(select(Submission))} == {"queued"}
    site.work(0.5)
    with site.database.reading() as session:
        rows = list(session.scalars(select(Submission)))
        assert len(rows) == 2 and [row.score for row in rows] == pytest.approx([0.5, 0.5])
    for wrong in ("99", "x", "-1", "1" * 40):
        assert boss.post("/organiser/again", data={**form, "number": wrong}).status_code == 400


def test_announcements_and_rules_are_safe_markdown(site, root):  # noqa: F811
    boss, ann = site.organiser(), site.participant("ann")
    form = {"csrf": token(boss, "/organiser"), "text": "# News\n\nThe **final** moves: <script>x</script>"}
    assert ann.post("/organiser/announce", data={**form, "csrf": token(ann, "/account")}).status_code == 403
    assert boss.post("/organiser/announce", data=form).status_code == 303
    home = site.client().get("/").text
    assert "<b>final</b>" in home and "<script" not in home and "&lt;script&gt;" in home
    assert "not written" in site.client().get("/rules").text
    (root / "rules.md").write_text("- one\n- two [link](https://example.org)\n")
    try:
        page = site.client().get("/rules").text
    finally:
        os.unlink(root / "rules.md")
    assert "<li>one</li>" in page and 'href="https://example.org"' in page


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("<img src=x onerror=alert(1)>", "<img"),
        ("[x](javascript:alert(1))", "href"),
        ("[x](JaVaScRiPt:alert)", "href"),
        ("[x](data:text/html;base64,AAAA)", "href"),
        ("[x](//evil.example/y)", "href"),
        ('[x](https://a.b/"onmouseover="alert(1))', 'onmouseover="'),
        ("`<b>`", "<b>"),
        ("```\n</code></pre><script>1</script>\n", "<script"),
        ("# <iframe>", "<iframe"),
        ("> <style>*{}</style>", "<style"),
        ("**<svg/onload=1>**", "<svg"),
    ],
)
def test_nothing_dangerous_passes_through_markdown(text, never):
    assert never not in render(text)


def test_markdown_says_what_it_says():
    assert render("a *b* **c** `d`") == "<p>a <i>b</i> <b>c</b> <code>d</code></p>"
    assert render("1. x\n2. y\n   more") == "<ol><li>x</li><li>y more</li></ol>"
    assert render("# T\n\ntext\nmore") == "<h2>T</h2>\n<p>text more</p>"
    assert render("```\na < b\n```") == "<pre><code>a &lt; b</code></pre>"
    assert render("2 * 3 * 4 and a_b_c") == "<p>2 * 3 * 4 and a_b_c</p>"
    assert len(render("*" * 200_000 + "[" * 200_000)) < 1 << 19, "and no text takes long"


def test_team_pages_show_what_leaderboards_show_and_no_account_that_is_on_none(site):  # noqa: F811
    boss, ann = site.organiser(), site.participant("ann")
    ann.post(
        "/account",
        data={"csrf": token(ann, "/account"), "pseudonym": "Wren", "member-0": "Ann Real", "fact-0": "x-ray"},
    )
    site.participant("bob")
    site.advance(boss)
    enter(site, ann, 0.8)
    with site.database.reading() as session:
        numbers = dict(session.execute(select(User.name, User.id)).all())
    page = site.client().get(f"/teams/{numbers['ann']}").text
    assert "Wren" in page and "0.800" in page
    assert "Ann Real" not in page and ">ann<" not in page and "x-ray" not in page, "a pseudonym hides who it is"
    for other in (numbers["bob"], numbers["boss"], 9999):
        assert site.client().get(f"/teams/{other}").status_code == 404


def test_downloads_give_the_kit_and_the_public_data_and_no_hidden_thing(site, root, tmp_path):  # noqa: F811
    import io
    import zipfile

    from handful.data.opening import open_collection

    kit = zipfile.ZipFile(io.BytesIO(site.client().get("/downloads/starting-kit.zip").content))
    kit.extractall(tmp_path / "kit")
    home = tmp_path / "kit/starting-kit"
    assert "handful challenge run . sample --phase public" in (home / "README.md").read_text()
    shared = read(home / "challenge.toml")
    assert shared.tasks == site.challenge.tasks and shared.leagues == site.challenge.leagues
    assert [phase.data for phase in shared.phases.values()] == ["data/public", "data/feedback", "data/final"]
    data = zipfile.ZipFile(io.BytesIO(site.client().get("/downloads/public.zip").content))
    data.extractall(home / "data/public")
    assert open_collection(str(home / "data/public")).id == open_collection(str(root / "data/public")).id
    assert not [name for name in data.namelist() if "hidden" in name]

    from handful.cli import main

    command = [
        "challenge",
        "run",
        str(home),
        str(home / "sample"),
        "--phase",
        "public",
        "--tasks",
        "1",
        "--trust",
        "--json",
    ]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert not end.value.code, "the tutorial runs offline"


def test_winners_code_is_for_participants_and_for_scrutiny_only(site):  # noqa: F811
    boss, ann, bob = site.organiser(), site.participant("ann"), site.participant("bob")
    site.advance(boss)
    for client, score in ((ann, 0.9), (bob, 0.8)):
        enter(site, client, score)
    site.advance(boss)
    site.work(0.7)
    with site.database.reading() as session:
        final = {
            row.user.name: row.id for row in session.scalars(select(Submission).where(Submission.phase == "final"))
        }
        first = session.scalars(select(Submission).where(Submission.phase == "feedback")).first().id
    assert bob.get(f"/winners/{final['ann']}.zip").status_code == 404, "not while the final runs"
    site.advance(boss)
    answer = bob.get(f"/winners/{final['ann']}.zip")
    assert answer.status_code == 200 and answer.content[:2] == b"PK"
    assert site.client().get(f"/winners/{final['ann']}.zip").status_code == 401
    assert bob.get(f"/winners/{first}.zip").status_code == 404, "only what won"
    decide(boss, site, "ann", "disqualified")
    assert bob.get(f"/winners/{final['ann']}.zip").status_code == 404


def test_the_results_are_kept_as_static_files(site, root, tmp_path, capsys):  # noqa: F811
    from handful.cli import main

    boss = site.organiser()
    site.advance(boss)
    for name, score in (("ann", 0.9), ("bob", 0.6)):
        client = site.participant(name)
        upload(client)
        site.work(score, learner={"method": "tpn", "net": "conv4", "pretrained": "", "transductive": True})
    for entry in (tmp_path / "results").iterdir():
        # The made-up worker of these tests writes no table under the data sets' names.
        (entry / "named").mkdir(exist_ok=True)
        (entry / "named/tasks.parquet").write_bytes((entry / "tasks.parquet").read_bytes())
    database = f"sqlite:///{tmp_path / 'db.sqlite'}"
    command = ["challenge", "export", str(root), "--database", database, "--state", str(tmp_path)]
    with pytest.raises(SystemExit) as end:
        main([*command, "--site", str(tmp_path / "out")])
    assert not end.value.code
    page = (tmp_path / "out/index.html").read_text()
    assert "ann †" in page and "Difficulty" in page and page.count("<svg") == 4 and "<script" not in page
    assert "Toy &lt;challenge&gt;" in page and "http://" not in page.replace("http://www.w3.org", "")
    assert (tmp_path / "out/toy-feedback/by-ways.csv").is_file()


def test_a_column_that_is_declared_once_is_on_both_pages_and_in_the_csv(site, monkeypatch):  # noqa: F811
    from handful.challenge import season_page, tables

    tried = tables.Column(
        "tries & errors", lambda line: f"try {line.submission}", {"tries": lambda line: line.submission}
    )
    monkeypatch.setattr(tables, "COLUMNS", (*tables.COLUMNS, tried))
    boss = site.organiser()
    site.advance(boss)
    upload(site.participant("ann"))
    site.work(0.9)
    page = boss.get("/leaderboard?phase=feedback&league=free-style").text
    assert "tries &amp; errors" in page and "try 1" in page
    heading, line = boss.get("/leaderboard.csv?phase=feedback&league=free-style").text.splitlines()
    assert dict(zip(heading.split(","), line.split(","), strict=True))["tries"] == "1"
    with site.database.reading() as session:
        boards = {"free-style": rules.leaderboard(session, site.challenge, "feedback", "free-style")}
    season = season_page.Season(site.challenge, "feedback", boards, {})
    assert "try 1" in season_page.season_page([season])


def test_a_challenge_is_cloned_without_its_dates_and_data(root, tmp_path):  # noqa: F811
    from handful.cli import main

    old = tmp_path / "old"
    old.mkdir()
    text = (root / "challenge.toml").read_text().replace("[phases.final]", "[phases.final]\nbegins = 2026-01-01")
    (old / "challenge.toml").write_text(text)
    (old / "rules.md").write_text("Be kind.")
    with pytest.raises(SystemExit) as end:
        main(["challenge", "clone", str(old), str(tmp_path / "Second Season"), "--title", "Again"])
    assert not end.value.code
    new = read(tmp_path / "Second Season/challenge.toml")
    assert (new.name, new.title) == ("second-season", "Again") and new.phases["final"].begins is None
    assert new.leagues == read(old / "challenge.toml").leagues
    assert (tmp_path / "Second Season/rules.md").read_text() == "Be kind."
    assert not list((tmp_path / "Second Season/data/public").iterdir())


BUNDLE = """
version: 2
title: Faces & "places"
description: Learn from a few.
terms: pages/terms.md
registration_auto_approve: false
docker_image: codalab/codalab-legacy:py3
phases:
- {name: Development, start: 2026-01-01, end: "2026-02-01 10:00:00+01:00", max_submissions_per_day: 5, max_submissions: 40, execution_time_limit: 7200, tasks: [0]}
- {name: Final, start: 2026-02-03, end: 2026-03-01}
leaderboards:
- {title: Results, columns: [{title: Accuracy, key: acc}]}
"""


def test_a_codabench_bundle_becomes_a_challenge_as_far_as_it_maps(tmp_path):
    from handful.challenge.codabench import convert

    folder = tmp_path / "bundle"
    (folder / "pages").mkdir(parents=True)
    (folder / "competition.yaml").write_text(BUNDLE)
    (folder / "pages/terms.md").write_text("# Terms")
    text, terms, left = convert(folder, "faces")
    (tmp_path / "challenge.toml").write_text(text)
    challenge = read(tmp_path / "challenge.toml")
    assert list(challenge.phases) == ["public", "development", "final"] and challenge.approval and terms == "# Terms"
    first, final = challenge.phases["development"], challenge.phases["final"]
    assert (first.role, first.hours, str(first.ends)) == ("feedback", 2.0, "2026-02-01 09:00:00")
    assert str(final.begins) == "2026-02-03 00:00:00" and final.seeds == 3
    assert (challenge.quota.per_day, challenge.quota.total, challenge.title) == (5, 40, "Faces & 'places'")
    assert [
        word for word in ("docker_image", "tasks", "columns", "programs") if not any(word in each for each in left)
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1]\nb: [*a, *a]\nphases: [{}]",
        "phases: !!python/object/apply:os.system ['true']",
        "just words",
        "phases: 3",
        "[" * 5000,
        "phases: [{name: x, start: never}]",
    ],
)
def test_a_hostile_bundle_is_refused_in_a_sentence(tmp_path, text):
    from handful.challenge.codabench import convert

    (tmp_path / "competition.yaml").write_text(text)
    with pytest.raises(BadInput) as caught:
        convert(tmp_path, "x")
    assert "\n" not in str(caught.value)


def test_terms_outside_the_bundle_are_not_read(tmp_path):
    from handful.challenge.codabench import convert

    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/competition.yaml").write_text("title: x\nterms: ../secret.md\nphases: [{name: one}]")
    assert convert(tmp_path / "b", "x")[1] == ""


def test_a_password_is_set_from_the_command_line(site, root, tmp_path, capsys):  # noqa: F811
    from handful.cli import main

    ann = site.participant("ann")
    where = ["--database", f"sqlite:///{tmp_path / 'db.sqlite'}", "--state", str(tmp_path)]
    for name, code in (("ann", 0), ("nobody", 2)):
        with pytest.raises(SystemExit) as end:
            main(["challenge", "password", str(root), name, *where])
        assert int(end.value.code or 0) == code
    new = re.search(r"password (\S+)", capsys.readouterr().out).group(1)
    assert ann.get("/account").status_code == 401 and guess(site.client(), "ann", new).status_code == 303


@pytest.fixture
def bucket(monkeypatch):
    """An S3 of one's own on this machine, with one bucket."""
    for name in ("s3fs", "moto.server"):
        pytest.importorskip(name, reason="an S3 to try needs pip install s3fs 'moto[server]'")
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "of-no-account")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        S3FileSystem.clear_instance_cache()
        S3FileSystem().mkdir("season")
        yield
    finally:
        S3FileSystem.clear_instance_cache()
        server.stop()


@pytest.mark.parametrize(
    "address", ["file://{}", "memory:/{}", "memory://", pytest.param("s3://season/files", marks=pytest.mark.slow)]
)
def test_workers_on_other_machines_share_archives_and_results_by_an_address(root, tmp_path, address, request):  # noqa: F811
    """The service and the worker have a state folder each, and nothing in common but the database and the address."""
    import polars as pl
    from fsspec.core import url_to_fs

    from handful.challenge import results
    from handful.challenge.running import Outcome
    from handful.challenge.storage import Storage
    from handful.challenge.worker import Worker

    from .conftest import row

    if address.startswith("s3"):
        request.getfixturevalue("bucket")
    shared = address.format(tmp_path / "shared")
    files, place_of = url_to_fs(shared)
    site = Site(root, tmp_path / "here", options={"storage": shared}, url=f"sqlite:///{tmp_path / 'db.sqlite'}")  # noqa: F811
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    place = upload(ann).headers["location"]
    elsewhere = tmp_path / "elsewhere"
    seen = []

    def run_at(score: float):
        def run(lease, secret, folder, progress):
            path = worker.storage.file(f"submissions/{lease.archive}", lease.sha256)
            seen.append((path.is_relative_to(elsewhere), path.read_bytes()[:2]))
            frame = pl.DataFrame([row(score), row(score + 0.1, task=1)])
            return Outcome(frame=frame, facts=results.write(frame, folder / "results", 1.0, "T"), seconds=1.0)

        return run

    storage = Storage(elsewhere, shared)
    worker = Worker(site.database, site.challenge, root, elsewhere, run=run_at(0.4), storage=storage)
    assert worker.forever(until_empty=True) == 1 and seen == [(True, b"PK")]
    assert ann.get(f"{place}/scores.json").json()["score"] == pytest.approx(0.45)
    assert ann.get(f"{place}/archive.zip").content[:2] == b"PK" and ann.get(f"{place}/results").status_code == 200
    boss.post("/organiser/again", data={"csrf": token(boss, "/organiser"), "number": "1"})
    worker.run_one = run_at(0.8)
    worker.forever(until_empty=True)
    assert ann.get(f"{place}/scores.json").json()["score"] == pytest.approx(0.85), "not what was fetched before"
    (kept,) = files.ls(f"{place_of.rstrip('/')}/submissions", detail=False)
    files.pipe_file(kept, b"PK another")
    with pytest.raises(BadInput, match="hash differs"):
        Storage(tmp_path / "third", shared).file(f"submissions/{kept.rpartition('/')[2]}", "0" * 64)
    assert not list((tmp_path / "third/submissions").iterdir())
    with pytest.raises(BadInput, match="cannot be used"):
        Storage(tmp_path, "nothing-known://x")


def test_workers_take_what_their_environment_is_for(root, tmp_path):  # noqa: F811
    from handful.challenge import queue
    from handful.challenge.spec import EnvironmentSpec
    from handful.errors import Missing

    challenge = read(root / "challenge.toml")
    leagues = tuple(
        each.model_copy(update={"environment": "large"} if each.name == "meta-learning" else {})
        for each in challenge.leagues
    )
    environments = (EnvironmentSpec(name="large"), EnvironmentSpec(name="cards", gpu=True))
    site = Site(root, tmp_path, leagues=leagues, environments=environments)  # noqa: F811
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    assert upload(ann, "meta-learning").status_code == upload(ann, "free-style").status_code == 303
    chosen = site.challenge
    assert "meta-learning" not in chosen.leagues_in([]) and chosen.leagues_in(["large"]) == ["meta-learning"]
    assert queue.take(site.database, "w", leagues=chosen.leagues_in([])).league == "free-style"
    assert queue.take(site.database, "w", leagues=chosen.leagues_in([])) is None
    assert queue.take(site.database, "w", leagues=chosen.leagues_in(["large"])).league == "meta-learning"
    with pytest.raises(Missing, match="needs a GPU; say which by --devices"):
        chosen.leagues_in(["cards"])
    assert chosen.leagues_in(["cards"], (0,)) == []
    with pytest.raises(BadInput, match="did you mean large"):
        chosen.leagues_in(["larg"])
