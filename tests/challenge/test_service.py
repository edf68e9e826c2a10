"""The service: accounts, forms, quotas, leagues, leaderboards; each participant sees their own things only."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import shutil
import zipfile

import numpy as np
import polars as pl
import pytest

from .conftest import row, source

pytest.importorskip("fastapi", reason="needs handful[serve]")
from fastapi.testclient import TestClient
from sqlalchemy import event, select

from handful.challenge import accounts, queue, results, rules, seeds
from handful.challenge.db import Attempt, Database, Login, Phase, Submission, Token, User, now
from handful.challenge.failures import Failure, tell
from handful.challenge.running import Outcome
from handful.challenge.service import make_app
from handful.challenge.spec_file import TEMPLATE, read
from handful.challenge.worker import Worker
from handful.data.collection import Card, Collection, as_table

PASSWORD = "correct horse battery"


def collection(seed: int, names: tuple[str, ...], size: int = 16) -> Collection:
    from .conftest import blobs

    parts = [blobs(seed + i, classes=6, each=12, size=size) for i in range(len(names))]
    table = as_table(
        {
            "dataset": [name for name, (_, labels) in zip(names, parts, strict=True) for _ in labels],
            "category": [f"c{label}" for _, labels in parts for label in labels],
        }
    )
    return Collection(
        Card(f"toy{seed}", "images", (size, size, 3), ("category",)), table, np.concatenate([p[0] for p in parts])
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A challenge on three tiny collections."""
    folder = tmp_path_factory.mktemp("challenge")
    text = TEMPLATE.format(name="toy", title="Toy <challenge>").replace("image_size = 128", "image_size = 16")
    text = text.replace("ways = [2, 20]", "ways = [2, 5]").replace("shots = [1, 20]", "shots = [1, 4]")
    text = text.replace("queries = 20", "queries = 4").replace("tasks_per_dataset = 100", "tasks_per_dataset = 3")
    text = text.replace("tasks_per_dataset = 600", "tasks_per_dataset = 4").replace(
        "memory_mb = 16384", "memory_mb = 2048"
    )
    text = text.replace("failures_per_day = 20", "failures_per_day = 3")
    (folder / "challenge.toml").write_text(text)
    collection(1, ("shapes", "<b>bold</b>")).save(folder / "data/public")
    collection(5, ("hidden-a", "hidden-b")).save(folder / "data/feedback")
    collection(9, ("hidden-c",)).save(folder / "data/final")
    return folder


class Site:
    """A running service with its database and a worker that makes outcomes up."""

    def __init__(self, root, state, url: str | None = None, options: dict | None = None, **changes) -> None:
        challenge = read(root / "challenge.toml")
        self.challenge = challenge.model_copy(update=changes)
        self.database = Database(url or f"sqlite:///{state / 'db.sqlite'}")
        self.app = make_app(self.challenge, self.database, root, state, **(options or {}))
        self.state, self.root, self.outcomes = state, root, {}

    def client(self) -> TestClient:
        return TestClient(self.app, base_url="http://testserver", follow_redirects=False)

    def participant(self, name: str, **form: str) -> TestClient:
        client = self.client()
        values = {
            "name": name,
            "password": PASSWORD,
            "email": f"{name}@example.org",
            "real_name": f"Real {name}",
            **form,
        }
        answer = client.post("/register", data={**values, "csrf": token(client, "/register")})
        assert answer.status_code == 303, answer.text
        return client

    def organiser(self) -> TestClient:
        with self.database.writing() as session:
            accounts.register(session, "boss", PASSWORD, "boss@example.org", "Boss", "organiser")
        client = self.client()
        answer = client.post("/login", data={"name": "boss", "password": PASSWORD, "csrf": token(client, "/login")})
        assert answer.status_code == 303
        return client

    def advance(self, client: TestClient) -> None:
        answer = end_phase(client)
        assert answer.status_code == 303, answer.text

    def work(
        self,
        score: float | None = 0.7,
        failure: Failure | None = None,
        datasets: dict[str, float] | None = None,
        learner: dict | None = None,
    ) -> int:
        def run(lease, secret, place, progress):
            assert len(secret) == 32
            if failure is not None:
                return Outcome(failure=failure, told=tell(failure, "tail"), seconds=3.0)
            each = datasets or {"a": score, "b": score}
            rows = [row(v + d, name, task=i) for i, (name, v) in enumerate(each.items()) for d in (-0.01, 0.01)]
            frame, about = pl.DataFrame(rows), learner or {}
            facts = results.write(frame, place / "results", 5.0, "Results", learner=about)
            return Outcome(frame=frame, facts=facts, learner=about, seconds=5.0, told={"log": "fine"})

        worker = Worker(self.database, self.challenge, self.root, self.state, run=run)
        return worker.forever(until_empty=True)


@pytest.fixture
def site(root, tmp_path):
    place = Site(root, tmp_path)
    yield place
    place.database.engine.dispose()


def end_phase(client: TestClient):
    """Confirm the end of the phase that the organiser's page shows."""
    page = client.get("/organiser/advance").text
    fields = dict(re.findall(r'name="(csrf|phase)" value="([^"]+)"', page))
    return client.post("/organiser/advance", data={**fields, "csrf": token(client, "/organiser")})


def token(client: TestClient, page: str) -> str:
    answer = client.get(page)
    assert answer.status_code == 200, answer.text
    return re.search(r'name="csrf" value="([^"]+)"', answer.text).group(1)


def archive(text: str | None = None, **files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("model.py", text or source())
        for name, content in files.items():
            target.writestr(name, content)
    return out.getvalue()


def upload(client: TestClient, league: str = "free-style", data: bytes | None = None, name: str = "mine"):
    files = {"archive": ("s.zip", data if data is not None else archive(), "application/zip")}
    form = {"league": league, "name": name, "csrf": token(client, "/submissions")}
    return client.post("/submissions", data=form, files=files)


def test_pages_need_no_account_and_escape_what_they_show(site):
    client = site.client()
    for page in ("/", "/leaderboard", "/login", "/register", "/data", "/style.css"):
        answer = client.get(page)
        assert answer.status_code == 200 and "default-src 'none'" in answer.headers["content-security-policy"]
    assert "Toy &lt;challenge&gt;" in client.get("/").text and "<challenge>" not in client.get("/").text
    data = client.get("/data").text
    assert "&lt;b&gt;bold&lt;/b&gt;" in data and "<b>bold" not in data and data.count("data:image/png") >= 10
    assert "hidden" not in data.replace("stay hidden", ""), "hidden data sets are not named"
    assert "<script" not in client.get("/").text
    for page in ("/submissions", "/account", "/organiser", "/submissions/1"):
        assert client.get(page).status_code == 401


def test_passwords_are_hashed_and_tokens_are_kept_as_hashes(site):
    client = site.participant("ann")
    page = client.post("/account/token", data={"csrf": token(client, "/account")}).text
    shown = re.search(r"hf_[\w-]+", page).group(0)
    with site.database.reading() as session:
        user = session.scalars(select(User)).one()
        assert user.password.startswith("$argon2id$") and PASSWORD not in user.password
        assert session.scalars(select(Token)).one().hash == accounts.fingerprint(shown)
        cookie = client.cookies["handful_session"]
        assert session.scalars(select(Login)).one().token == accounts.fingerprint(cookie) != cookie
    assert shown not in client.get("/account").text


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"name": "x"}, "name must"),
        ({"name": "a<b>"}, "name must"),
        ({"password": "short"}, "at least 10"),
        ({"email": "nowhere"}, "e-mail"),
        ({"real_name": " "}, "real name"),
        ({"name": "TAKEN"}, "taken"),
    ],
)
def test_bad_registrations_are_refused_in_a_sentence(site, change, word):
    site.participant("taken")
    client = site.client()
    form = {"name": "bob", "password": PASSWORD, "email": "b@example.org", "real_name": "Bob", **change}
    answer = client.post("/register", data={**form, "csrf": token(client, "/register")})
    assert answer.status_code == 400 and word in answer.text


def test_forms_without_the_right_csrf_token_are_refused(site):
    client = site.participant("ann")
    other = site.participant("eve")
    stolen = token(other, "/account")
    for value in ("", "x", stolen):
        assert client.post("/account", data={"pseudonym": "hacked", "csrf": value}).status_code == 403
        assert client.post("/logout", data={"csrf": value}).status_code == 403
    assert client.get("/account").status_code == 200, "still logged in"
    fresh = site.client()
    assert fresh.post("/login", data={"name": "ann", "password": PASSWORD, "csrf": ""}).status_code == 403


def guess(client: TestClient, name: str, password: str):
    return client.post("/login", data={"name": name, "password": password, "csrf": token(client, "/login")})


def test_wrong_passwords_are_slowed_for_who_guesses_and_not_for_the_owner(site):
    site.participant("ann")
    eve = TestClient(site.app, client=("198.51.100.7", 1), follow_redirects=False)
    codes = [guess(eve, "ann", "wrong password").status_code for _ in range(12)]
    assert codes[0] == 401 and codes[-1] == 429, "guessing is slowed in the end"
    answer = guess(eve, "ann", PASSWORD)
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0 and "too many" in answer.text.lower()
    owner = TestClient(site.app, client=("203.0.113.9", 1), follow_redirects=False)
    assert guess(owner, "ann", PASSWORD).status_code == 303, "the owner, who comes from elsewhere, is not shut out"
    with site.database.writing() as session:
        for row in session.scalars(select(Attempt)):
            row.at = now() - dt.timedelta(minutes=10)
    assert guess(eve, "ann", PASSWORD).status_code == 303, "a delay, not a ban"


def test_an_unknown_name_costs_as_much_hashing_as_a_known_one(site, monkeypatch):
    import argon2

    site.participant("ann")
    guess(site.client(), "warm", "some password")
    made = []
    for verb in ("hash", "verify"):
        old = getattr(argon2.PasswordHasher, verb)
        counted = lambda self, *a, old=old, verb=verb: (made.append(verb), old(self, *a))[1]  # noqa: E731
        monkeypatch.setattr(argon2.PasswordHasher, verb, counted)
    cost = {}
    for name in ("ann", "nobody-of-that-name"):
        made.clear()
        assert guess(site.client(), name, "wrong password").status_code == 401
        cost[name] = sorted(made)
    assert cost["ann"] == cost["nobody-of-that-name"] == ["verify"]


def test_registrations_from_one_address_are_slowed(root, tmp_path):
    site = Site(root, tmp_path, options={"registrations": 3})
    for name in ("ann", "bob", "eve"):
        site.participant(name)
    form = {"name": "joe", "password": PASSWORD, "email": "j@example.org", "real_name": "Joe"}
    client = site.client()
    answer = client.post("/register", data={**form, "csrf": token(client, "/register")})
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
    other = TestClient(site.app, client=("2001:db8::1", 1), follow_redirects=False)
    assert other.post("/register", data={**form, "csrf": token(other, "/register")}).status_code == 303


@pytest.mark.parametrize(
    "name", ["ANN.MAY", "аnn.mау", "ann\u00ad.may", "ann.may\n", "ánn.may", "ａｎｎ.may", "ann.ma\u200by", "Ann .May"]
)
def test_names_that_look_alike_are_one_name(site, name):
    site.participant("ann.may")
    bob, fresh = site.participant("bob"), site.client()
    form = {"name": name, "password": PASSWORD, "email": "x@example.org", "real_name": "X"}
    assert fresh.post("/register", data={**form, "csrf": token(fresh, "/register")}).status_code == 400
    answer = bob.post("/account", data={"csrf": token(bob, "/account"), "pseudonym": name})
    assert answer.status_code == 400 and "taken" in answer.text
    with site.database.reading() as session:
        assert {user.shown for user in session.scalars(select(User))} == {"ann.may", "bob"}


def test_a_name_cannot_be_registered_that_is_anothers_pseudonym_and_is_free_when_given_up(site):
    ann = site.participant("ann")
    assert ann.post("/account", data={"csrf": token(ann, "/account"), "pseudonym": "Ｋestrel"}).status_code == 303
    form = {"name": "kestrel", "password": PASSWORD, "email": "x@example.org", "real_name": "X"}
    fresh = site.client()
    assert fresh.post("/register", data={**form, "csrf": token(fresh, "/register")}).status_code == 400
    assert ann.post("/account", data={"csrf": token(ann, "/account"), "pseudonym": ""}).status_code == 303
    assert fresh.post("/register", data={**form, "csrf": token(fresh, "/register")}).status_code == 303


def test_leagues_and_team_facts_freeze_when_the_final_begins(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    team = {"member-0": "A", "pseudonym": "Wren", "fact-0": "prototypes"}
    assert ann.post("/account", data={"csrf": token(ann, "/account"), **team}).status_code == 303
    enter(site, ann, 0.8)
    site.advance(boss)
    site.work(0.8)
    for change in ({"member-0-women": "yes"}, {"member-1": "B"}, {"pseudonym": "Kite"}, {"fact-0": "other"}):
        answer = ann.post("/account", data={"csrf": token(ann, "/account"), **team, **change})
        assert answer.status_code == 400 and "final phase has begun" in answer.text
    assert names(site, "final", "women") == [] and names(site, "final", "free-style") == [(1, "Wren")]
    more = {**team, "fact-1": "none", "conflicted": "yes"}
    assert ann.post("/account", data={"csrf": token(ann, "/account"), **more}).status_code == 303
    assert names(site, "final", "free-style") == [(None, "Wren")], "a conflict can be declared at any time"


def test_pages_that_break_carry_the_same_headers_and_tell_nothing(site, monkeypatch):
    def broken(*_):
        raise RuntimeError("secret path /hidden/labels")

    monkeypatch.setattr(rules, "leaderboard", broken)
    fine, answer = site.client().get("/login"), site.client().get("/leaderboard")
    assert answer.status_code == 500 and "hidden" not in answer.text
    for name in ("content-security-policy", "x-content-type-options", "x-frame-options", "cache-control"):
        assert answer.headers[name] == fine.headers[name]


def test_redirects_do_not_follow_the_host(site):
    ann = site.participant("ann")
    for path in ("/login/", "/submissions/", "/account/"):
        answer = ann.get(path, headers={"host": "evil.example"})
        assert "evil" not in answer.headers.get("location", "") and answer.status_code == 404
    client = site.client()
    form = {"name": "ann", "password": PASSWORD, "csrf": token(client, "/login")}
    answer = client.post("/login", data=form, headers={"host": "evil.example", "x-forwarded-host": "evil.example"})
    assert answer.headers["location"] == "/submissions"


def test_no_refusal_of_an_upload_shows_a_path_of_the_server(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    for data in (archive(**{"/".join(["é" * 90] * 2): "x"}), archive(**{"x" * 239: "x"}), b"not a zip"):
        answer = upload(ann, data=data)
        page = answer.text.split("<main>")[-1]
        assert answer.status_code in (303, 400)
        assert "/tmp" not in page and str(site.state) not in page and ".partial" not in page


def test_huge_numbers_and_nul_bytes_are_refused(site):
    ann = site.participant("ann")
    for number in (10**9, 2**31, 2**63, 10**30, "9" * 5000, -1, 0):
        for path in (f"/submissions/{number}", f"/submissions/{number}/results", f"/submissions/{number}/scores.json"):
            assert ann.get(path).status_code in (404, 422)
    for path in ("/submissions/%00", "/leaderboard?league=%00", "/leaderboard.csv?phase=final&league=a%00b", "/%00"):
        assert ann.get(path).status_code in (404, 422)
    for page in ("/login", "/register"):
        client = site.client()
        form = {"name": "a\x00b", "password": PASSWORD, "email": "a@b.c", "csrf": token(client, page)}
        assert client.post(page, data=form).status_code == 422
    assert ann.post("/account", data={"csrf": token(ann, "/account"), "pseudonym": "a\x00b"}).status_code == 422


def test_hidden_data_sets_are_numbered_until_the_challenge_ends(site):
    boss, ann, eve = site.organiser(), site.participant("ann"), site.participant("eve")
    secret = {"zebras-in-fog": 0.9, "aardvark-cells": 0.8}
    site.advance(boss)

    def seen(client: TestClient) -> bytes:
        """Everything that a participant can reach: every page, file and call, archives and tables unpacked."""
        pages = ["/", "/data", "/leaderboard", "/account", "/submissions"]
        for league in site.challenge.leagues:
            for phase in ("feedback", "final"):
                pages += [f"/leaderboard{kind}?league={league.name}&phase={phase}" for kind in ("", ".csv")]
        files = ("", "/results", "/archive.zip", "/scores.json", "/scores.txt", "/tasks.parquet")
        pages += [f"/submissions/{number}{name}" for number in range(1, 6) for name in files]
        out, found = [], 0
        page = client.post("/account/token", data={"csrf": token(client, "/account")}).text
        headers = {"Authorization": "Bearer " + re.search(r"hf_[\w-]+", page).group(0)}
        for path in [*pages, *(f"/api/submissions/{number}" for number in range(1, 6))]:
            answer = client.get(path, headers=headers)
            assert answer.status_code in (200, 404)
            found += path.startswith("/submissions/") and answer.status_code == 200
            out.append(answer.content)
            if path.endswith(".parquet") and answer.status_code == 200:
                out.append(pl.read_parquet(io.BytesIO(answer.content)).write_csv().encode())
        assert found or client is eve, "a search that reaches nothing proves nothing"
        return b"\n".join(out)

    enter(site, ann, 0.0, datasets=secret)
    for step in range(2):
        for client in (ann, eve):
            text = seen(client)
            assert not [name for name in secret if name.encode() in text or name.split("-")[0].encode() in text]
        assert b"dataset_1" in seen(ann)
        if step == 0:
            site.advance(boss)
            site.work(datasets=secret)
    assert b"zebras-in-fog" in boss.get("/submissions/1/scores.json").content, "organisers see the names"
    site.advance(boss)
    text = seen(ann)
    assert all(name.encode() in text for name in secret), "named when the challenge has ended"
    columns = site.client().get("/leaderboard.csv?phase=final&league=free-style").text.splitlines()[0]
    assert columns.endswith("aardvark-cells,zebras-in-fog")


def test_results_that_an_older_version_stored_are_shown_to_organisers(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    enter(site, ann, 0.0, datasets={"zebras-in-fog": 0.9, "aardvark-cells": 0.8})
    folder = site.state / "results" / "1"
    shutil.move(folder / "named", site.state / "old")
    shutil.rmtree(folder)
    shutil.move(site.state / "old", folder)
    assert b"zebras-in-fog" in boss.get("/submissions/1/scores.json").content
    assert boss.get("/submissions/1/results").status_code == 200


def test_the_home_page_asks_the_database_as_often_for_many_teams_as_for_one(site):
    boss = site.organiser()
    site.advance(boss)
    asked: list[str] = []
    event.listen(site.database.engine, "before_cursor_execute", lambda *a: asked.append(a[2]))

    def statements() -> int:
        asked.clear()
        assert site.client().get("/").status_code == 200
        assert not [each for each in asked if "full_log" in each], "logs are long, and no leaderboard shows one"
        return len(asked)

    enter(site, site.participant("ann"), 0.5)
    alone = statements()
    for name in ("bob", "eve", "joe"):
        enter(site, site.participant(name), 0.5)
    assert statements() == alone


def test_logging_out_ends_the_session(site):
    client = site.participant("ann")
    cookie = client.cookies["handful_session"]
    client.post("/logout", data={"csrf": token(client, "/account")})
    again = site.client()
    again.cookies.set("handful_session", cookie)
    assert again.get("/account").status_code == 401


def test_submissions_open_with_the_feedback_phase(site):
    ann, boss = site.participant("ann"), site.organiser()
    answer = upload(ann)
    assert answer.status_code == 400 and "public phase" in answer.text
    assert ann.post("/organiser/advance", data={"csrf": token(ann, "/account")}).status_code == 403
    site.advance(boss)
    assert upload(ann).status_code == 303


def test_a_submission_is_scored_and_only_its_owner_sees_it(site):
    boss, ann, eve = site.organiser(), site.participant("ann"), site.participant("eve")
    site.advance(boss)
    place = upload(ann, name="<script>alert(1)</script>\x1b[31m").headers["location"]
    assert "queued" in ann.get(place).text and 'http-equiv="refresh"' in ann.get(place).text
    assert site.work(0.7) == 1
    page = ann.get(place).text
    assert "0.700" in page and "<script>" not in page and "\x1b" not in page and "&lt;script&gt;" in page
    for tail in ("", "/results", "/archive.zip", "/scores.json", "/scores.txt", "/tasks.parquet"):
        assert ann.get(place + tail).status_code == 200
        assert eve.get(place + tail).status_code == 404
        assert site.client().get(place + tail).status_code == 401
    assert ann.get(place + "/../../db.sqlite").status_code == 404
    assert ann.get(place + "/..%2f..%2fdb.sqlite").status_code == 404
    assert boss.get(place).status_code == 200
    assert json.loads(ann.get(place + "/scores.json").text)["score"] == pytest.approx(0.7)


def test_bad_uploads_are_refused_at_the_door(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("model.py", "x")
        for i in range(4):
            target.writestr(f"b{i}", bytes(400 << 20))
    cases = [(b"not a zip", "not a zip"), (archive(**{"../evil": "x"}), "climbs"), (bomb.getvalue(), "unpacks to more")]
    for data, word in cases:
        answer = upload(ann, data=data)
        assert answer.status_code == 400 and word in answer.text, answer.text
    answer = upload(ann, "meta-learning", archive(**{"weights.pt": "x"}))
    assert answer.status_code == 400 and "weights" in answer.text
    assert upload(ann, "women").status_code == 400 and upload(ann, "nothing").status_code == 400
    assert list((site.state / "submissions").iterdir()) == []
    assert ann.post("/submissions", headers={"content-length": str(10**12)}, content=b"x").status_code == 413


def test_quotas_count_scores_and_not_the_platforms_failures(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    assert upload(ann).status_code == 303
    site.work(failure=Failure("PLATFORM", "start", "ours"))
    for _ in range(2):
        assert upload(ann).status_code == 303
        site.work(0.5)
    answer = upload(ann)
    assert answer.status_code == 400 and "2 submissions" in answer.text
    with site.database.writing() as session:
        for row in session.scalars(select(Submission)):
            row.created = now() - dt.timedelta(days=2)
    for _ in range(3):
        assert upload(ann).status_code == 303
        site.work(failure=Failure("FIT_ERROR", "fit", "theirs"))
    answer = upload(ann)
    assert answer.status_code == 400 and "failed in the last 24 hours" in answer.text
    with site.database.reading() as session:
        user = session.scalars(select(User).where(User.name == "ann")).one()
        used = rules.usage(session, user, "feedback")
    assert (used.today, used.total, used.failed_today, used.failed_total) == (0, 2, 3, 3)
    assert used.hours == pytest.approx((3 + 5 + 5 + 3 * 3) / 3600), "hours count whoever is to blame"


def test_open_submissions_count_so_that_two_at_once_do_not_slip_through(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    assert [upload(ann).status_code for _ in range(3)] == [303, 303, 400]


def test_a_failure_tells_its_code_and_a_cleaned_log(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    place = upload(ann).headers["location"]
    log = "\x1b[31mred\x1b[0m <img src=x onerror=alert(1)> \u202eevil"
    site.work(failure=Failure("TIMEOUT_FIT", "fit", "fit was stopped <b>", "", log))
    page = ann.get(place).text
    assert "TIMEOUT_FIT" in page and "&lt;img src=x" in page and "<img src=x" not in page
    assert (
        "\x1b" not in page and "\u202e" not in page and "<b>" not in page.split("<main>")[1].replace("<b>TIMEOUT", "")
    )
    board = site.client().get("/leaderboard").text
    assert "No scored entries" in board, "what has no score is never ranked"


def test_the_api_takes_a_submission_with_a_token(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    page = ann.post("/account/token", data={"csrf": token(ann, "/account")}).text
    secret = re.search(r"hf_[\w-]+", page).group(0)
    client = site.client()
    form = {"data": {"league": "free-style"}, "files": {"archive": ("s.zip", archive(), "application/zip")}}
    assert client.post("/api/submissions", **form).status_code == 401
    assert client.post("/api/submissions", headers={"Authorization": "Bearer hf_wrong"}, **form).status_code == 401
    headers = {"Authorization": f"Bearer {secret}"}
    facts = client.post("/api/submissions", headers=headers, **form).json()
    assert facts["status"] == "queued"
    site.work(0.6)
    facts = client.get(f"/api/submissions/{facts['id']}", headers=headers).json()
    assert facts["status"] == "scored" and facts["score"] == pytest.approx(0.6)


def enter(site: Site, client: TestClient, score: float, league: str = "free-style", datasets=None) -> None:
    assert upload(client, league).status_code == 303
    assert site.work(score, datasets=datasets) == 1


def names(site: Site, phase: str, league: str) -> list[tuple[int | None, str]]:
    with site.database.reading() as session:
        return [(line.rank, line.name) for line in rules.leaderboard(session, site.challenge, phase, league)]


def test_the_leaderboard_ranks_by_score_then_by_time_and_lists_conflicts_without_rank(site):
    boss = site.organiser()
    site.advance(boss)
    ann, bob, eve, joe = (site.participant(name) for name in ("ann", "bob", "eve", "joe"))
    enter(site, bob, 0.6)
    enter(site, ann, 0.6)
    enter(site, eve, 0.9)
    enter(site, joe, 0.7)
    enter(site, joe, 0.5)
    eve.post("/account", data={"csrf": token(eve, "/account"), "conflicted": "yes", "pseudonym": "Nobody"})
    assert names(site, "feedback", "free-style") == [(None, "Nobody"), (1, "bob"), (2, "ann"), (3, "joe")]
    page = site.client().get("/leaderboard").text
    assert "Nobody" in page and "eve" not in page and "<svg" in page and "conflict of interest" in page
    text = site.client().get("/leaderboard.csv?phase=feedback&league=free-style").text.splitlines()
    assert (
        text[0].startswith("rank,name,score,low,high") and text[1].startswith("unranked,Nobody,0.9") and len(text) == 5
    )


def test_a_pseudonym_that_looks_like_a_formula_is_quoted_in_the_csv(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    ann.post("/account", data={"csrf": token(ann, "/account"), "pseudonym": "=1+1"})
    enter(site, ann, 0.6)
    assert ",'=1+1," in site.client().get("/leaderboard.csv?phase=feedback&league=free-style").text.replace('"', "")


def test_ranks_by_data_set_can_decide(root, tmp_path):
    site = Site(root, tmp_path, ranking="ranks")
    boss, ann, bob = site.organiser(), site.participant("ann"), site.participant("bob")
    site.advance(boss)
    enter(site, ann, 0.0, datasets={"a": 0.99, "b": 0.10, "c": 0.10})
    enter(site, bob, 0.0, datasets={"a": 0.20, "b": 0.20, "c": 0.20})
    assert names(site, "feedback", "free-style") == [(1, "bob"), (2, "ann")], "two of three data sets are bob's"


def test_a_team_is_in_a_participant_league_only_if_every_member_qualifies(site):
    boss, ann, bob = site.organiser(), site.participant("ann"), site.participant("bob")
    site.advance(boss)
    both = {"member-0": "A", "member-0-women": "yes", "member-1": "B"}
    ann.post("/account", data={"csrf": token(ann, "/account"), **both})
    bob.post("/account", data={"csrf": token(bob, "/account"), **both, "member-1-women": "yes"})
    enter(site, ann, 0.8)
    enter(site, bob, 0.7)
    assert names(site, "feedback", "women") == [(1, "bob")]
    assert names(site, "feedback", "new-in-ml") == []


def test_the_last_valid_submission_goes_to_the_final_if_it_beats_its_baseline(site):
    boss = site.organiser()
    site.advance(boss)
    ann, bob, eve = (site.participant(name) for name in ("ann", "bob", "eve"))
    enter(site, ann, 0.9)
    enter(site, ann, 0.7)
    enter(site, bob, 0.4)
    enter(site, bob, 0.4, "meta-learning")
    assert upload(eve).status_code == 303
    answer = end_phase(boss)
    assert answer.status_code == 400 and "still wait" in answer.text
    site.work(failure=Failure("NAN", "predict", "nan"))
    site.advance(boss)
    with site.database.reading() as session:
        final = list(session.scalars(select(Submission).where(Submission.phase == "final").order_by(Submission.id)))
        origin = {row.id: row for row in session.scalars(select(Submission))}
    assert [(row.user.name if False else row.league, origin[row.promoted_from].score) for row in final] == [
        ("free-style", pytest.approx(0.7)),
        ("meta-learning", pytest.approx(0.4)),
    ], "ann's last (not her best), bob's meta-learning entry; bob's free-style is below 0.587, eve has no score"
    assert final[0].created == origin[final[0].promoted_from].created, "ties go by the first submission"
    assert upload_closed(ann)
    site.work(0.65)
    assert names(site, "final", "free-style") == [(1, "ann")] and names(site, "final", "meta-learning") == [(1, "bob")]
    page = site.client().get("/leaderboard?phase=final").text
    assert "provisional" in page
    site.advance(boss)
    with site.database.writing() as session:
        session.get(Phase, "final").ended = now() - dt.timedelta(days=15)
    assert "These results are final" in site.client().get("/leaderboard?phase=final").text


def upload_closed(client: TestClient) -> bool:
    form = {
        "league": "free-style",
        "csrf": token(client, "/submissions") if 'type="file"' in client.get("/submissions").text else "",
    }
    form["csrf"] = form["csrf"] or token(client, "/account")
    answer = client.post("/submissions", data=form, files={"archive": ("s.zip", archive(), "application/zip")})
    return answer.status_code == 400 and "final phase" in answer.text


def test_secrets_are_committed_to_before_and_revealed_after(site):
    boss = site.organiser()
    before = site.client().get("/").text
    with site.database.reading() as session:
        rows = {row.name: row for row in session.scalars(select(Phase))}
    assert all(row.commitment in before and row.secret.hex() not in before for row in rows.values())
    site.advance(boss)
    site.advance(boss)
    page = site.client().get("/").text
    assert rows["feedback"].secret.hex() in page and rows["final"].secret.hex() not in page
    assert seeds.holds(rows["feedback"].commitment, rows["feedback"].secret, "toy/feedback")


def test_final_data_are_not_read_before_the_final_phase(root, tmp_path):
    from handful.challenge.sources import Data
    from handful.errors import BadInput

    data = Data(read(root / "challenge.toml"), root, tmp_path)
    with pytest.raises(BadInput, match="not read in the feedback phase"):
        data.collection("final", "feedback")
    assert len(data.stages("feedback", "feedback", 0)) == 1


@pytest.mark.parametrize("layout", ["one data set", "several"])
def test_an_image_bomb_among_an_organisers_data_is_refused_in_one_sentence(tmp_path, layout):
    """Some hundred bytes that claim a billion pixels, behind sound images: named, and nothing of the packing is left."""
    from fuzz.reads_images import ALBUM, _flat, png_of
    from handful.challenge.sources import open_data
    from handful.errors import BadInput

    where = tmp_path / "data"
    inside = where if layout == "one data set" else where / "birds"
    for name, data in (ALBUM | _flat()).items():
        file = inside / name.removeprefix("raw/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    last = sorted(inside.rglob("*.png"))[-1]
    sound = last.read_bytes()
    last.write_bytes(png_of(40_000, 40_000))
    with pytest.raises(BadInput, match=r"more than 100 million pixels") as refused:
        open_data(where, 16, tmp_path / "state")
    assert last.name in str(refused.value) and "\n" not in str(refused.value)
    assert not [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    last.write_bytes(sound)
    assert len(open_data(where, 16, tmp_path / "state")) == 6


def test_a_lost_lease_cannot_finish_a_submission(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    upload(ann)
    short = dt.timedelta(seconds=-1)
    first = queue.take(site.database, "one", short)
    second = queue.take(site.database, "two")
    assert first.submission == second.submission and queue.take(site.database, "three") is None
    assert not queue.heartbeat(site.database, first)
    assert not queue.finish(site.database, first, {"status": "scored", "score": 1.0})
    assert queue.finish(site.database, second, {"status": "scored", "score": 0.5})
    assert not queue.finish(site.database, second, {"status": "scored", "score": 0.6})
    with site.database.reading() as session:
        assert session.scalars(select(Submission)).one().score == 0.5


def test_a_submission_whose_workers_always_die_is_closed_as_the_platforms_failure(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    upload(ann)
    for _ in range(queue.ATTEMPTS):
        assert queue.take(site.database, "dying", dt.timedelta(seconds=-1)) is not None
    assert queue.take(site.database, "last") is None
    with site.database.reading() as session:
        row = session.scalars(select(Submission)).one()
    assert (row.status, row.code) == ("failed", "PLATFORM")


def test_a_worker_that_breaks_blames_the_platform(site):
    boss, ann = site.organiser(), site.participant("ann")
    site.advance(boss)
    place = upload(ann).headers["location"]

    def broken(*_):
        raise RuntimeError("secret path /hidden/labels")

    Worker(site.database, site.challenge, site.root, site.state, run=broken).forever(until_empty=True)
    page = ann.get(place).text
    assert "PLATFORM" in page and "/hidden/labels" not in page


def test_a_challenge_with_two_feedback_phases_takes_submissions_in_both(root, tmp_path):
    feedback = read(root / "challenge.toml").phases
    spare = feedback["feedback"].model_copy(update={"data": "data/spare"})
    phases = {
        "public": feedback["public"],
        "warm-up": spare,
        "feedback": feedback["feedback"],
        "final": feedback["final"],
    }
    site = Site(root, tmp_path, phases=phases)
    boss, ann = site.organiser(), site.participant("ann")
    assert "warm-up or feedback" in upload(ann).text
    site.advance(boss)
    enter(site, ann, 0.9)
    site.advance(boss)
    enter(site, ann, 0.7)
    site.advance(boss)
    site.work(0.6)
    with site.database.reading() as session:
        rows = [(row.phase, row.score) for row in session.scalars(select(Submission).order_by(Submission.id))]
    assert [phase for phase, _ in rows] == ["warm-up", "feedback", "final"], (
        "the last feedback phase decides who goes on"
    )
    page = site.client().get("/leaderboard?phase=warm-up").text
    assert page.count("phase=warm-up") >= 2 and "ann" in page
    assert site.client().get("/leaderboard?phase=public").status_code == 404


def test_leaderboards_mark_transductive_learners_and_name_their_nets(site):
    boss, ann, bob = site.organiser(), site.participant("ann"), site.participant("bob")
    site.advance(boss)
    upload(ann)
    about = {"method": "tpn", "net": "lite0", "pretrained": "ImageNet's <classes>", "transductive": True}
    site.work(0.8, learner=about)
    enter(site, bob, 0.5)
    page = site.client().get("/leaderboard").text
    assert "ann</a> †" in page and "bob</a> †" not in page and "transductive" in page
    assert "lite0" in page and "ImageNet&#39;s &lt;classes&gt;" in page
