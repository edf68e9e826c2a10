"""The service: accounts, forms, quotas, leagues, leaderboards; each participant sees their own things only."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import zipfile

import numpy as np
import pytest

from .conftest import source

pytest.importorskip("fastapi", reason="needs handful[serve]")
from fastapi.testclient import TestClient
from sqlalchemy import select

from handful.challenge import accounts, queue, rules, scores, seeds
from handful.challenge.db import Database, Login, Phase, Submission, Token, User, now
from handful.challenge.failures import Failure, tell
from handful.challenge.plan import Row
from handful.challenge.running import Outcome
from handful.challenge.service import make_app
from handful.challenge.spec import TEMPLATE, read
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
        answer = client.post("/organiser/advance", data={"csrf": token(client, "/organiser")})
        assert answer.status_code == 303, answer.text

    def work(
        self, score: float | None = 0.7, failure: Failure | None = None, datasets: dict[str, float] | None = None
    ) -> int:
        def run(lease, secret, place, progress):
            assert len(secret) == 32
            if failure is not None:
                return Outcome(failure=failure, told=tell(failure, "tail"), seconds=3.0)
            each = datasets or {"a": score, "b": score}
            rows = [
                Row(i, name, 2, 1, 8, v, v, v + d) for i, (name, v) in enumerate(each.items()) for d in (-0.01, 0.01)
            ]
            frame = scores.frame_of([rows])
            facts = scores.write(frame, place / "results", 5.0, "Results")
            return Outcome(frame=frame, facts=facts, seconds=5.0, told={"log": "fine"})

        worker = Worker(self.database, self.challenge, self.root, self.state, run=run)
        return worker.forever(until_empty=True)


@pytest.fixture
def site(root, tmp_path):
    place = Site(root, tmp_path)
    yield place
    place.database.engine.dispose()


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


def test_wrong_passwords_are_refused_and_slowed(site):
    site.participant("ann")
    client = site.client()
    for _ in range(10):
        form = {"name": "ann", "password": "wrong password", "csrf": token(client, "/login")}
        assert client.post("/login", data=form).status_code == 401
    form = {"name": "ann", "password": PASSWORD, "csrf": token(client, "/login")}
    answer = client.post("/login", data=form)
    assert answer.status_code == 400 and "too many" in answer.text.lower()


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
    assert used.hours == pytest.approx((5 + 5 + 3 * 3) / 3600)


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
    answer = boss.post("/organiser/advance", data={"csrf": token(boss, "/organiser")})
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
