"""A whole season in a real browser: two organisers, five teams, three phases by the clock, scrutiny, export."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")
from sqlalchemy import select

from handful.challenge import accounts
from handful.challenge.db import User

from .browser import CHROMIUM, Browser, Person
from .serving import served
from .test_organising import DAY, START, clock, dated  # noqa: F401
from .test_service import PASSWORD, Site, archive, root  # noqa: F401

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: the season is tested without a browser only")
TEAMS = {"kestrel": 0.9, "wren": 0.8, "dunlin": 0.7, "nightjar": 0.65, "robin": 0.3}


def test_a_season(root, tmp_path, clock, capsys):  # noqa: F811
    site = Site(root, tmp_path, phases=dated(root, feedback=(1, 2), final=(2, 3)), scrutiny_days=2)
    with site.database.writing() as session:
        for name in ("ann", "bob"):
            accounts.ensure_organiser(session, name, PASSWORD)
    package = tmp_path / "mine.zip"
    package.write_bytes(archive())
    with served(site) as server, Browser(tmp_path / "profile") as browser:

        def log_in(name: str) -> Person:
            person = browser.person(server.url)
            person.go("/login")
            person.send("/login", name=name, password=PASSWORD)
            return person

        ann, bob = log_in("ann"), log_in("bob")
        assert "public phase" in ann.go("/organiser")
        teams = {}
        for name in TEAMS:
            teams[name] = browser.person(server.url)
            teams[name].go("/register")
            more = {"email": f"{name}@example.org", "real_name": f"Real {name}"}
            assert "My submissions" in teams[name].send("/register", name=name, password=PASSWORD, **more)
        assert "submissions are open in the feedback phase" in teams["wren"].go("/submissions")

        clock.at = START + DAY * 1.1
        ann.go("/organiser")
        assert "Good luck" in ann.send("/organiser/announce", text="# Feedback has begun\n\nGood **luck**.")
        assert "feedback · now" in teams["wren"].go("/").lower()
        for name, score in TEAMS.items():
            teams[name].go("/submissions")
            assert "Waiting" in teams[name].send("/submissions", {"archive": package}, league="free-style", name=name)
            site.work(score)
        board = browser.person(server.url).go("/leaderboard?phase=feedback")
        assert re.findall(r"\n\d\t(\w+)", board) == list(TEAMS), board
        with site.database.reading() as session:
            numbers = dict(session.execute(select(User.name, User.id)).all())
        bob.go("/organiser")
        page = bob.send(f"/organiser/standing/{numbers['wren']}", button="disqualified", reason="two accounts")
        assert "disqualified" in page and "two accounts" in page
        ann.go("/organiser")
        ann.send("/organiser/again", number="3")
        site.work(0.75)
        assert "0.750" in teams["dunlin"].go("/submissions")

        clock.at = START + DAY * 2.1
        assert "final · now" in teams["kestrel"].go("/").lower()
        assert "submissions are open in the feedback phase" in teams["kestrel"].go("/submissions")
        site.work(0.66)

        clock.at = START + DAY * 3.1
        home = browser.person(server.url).go("/")
        assert "The challenge has ended" in home
        final = teams["robin"].go("/leaderboard?phase=final")
        entrants = re.findall(r"\n\d\t(\w+)", final)
        assert sorted(entrants) == ["dunlin", "kestrel", "nightjar"], "robin was below the baseline, wren was put out"
        assert "provisional" in final and "code" in final
        assert "0.660" in teams["kestrel"].go(f"/teams/{numbers['kestrel']}")
        revealed = re.findall(r"\b[0-9a-f]{64}\b", home)
        assert len(revealed) == 6, "all three secrets are public beside their hashes"
        clock.at = START + DAY * 5.5
        assert "These results are final" in teams["robin"].go("/leaderboard?phase=final")

        from handful.cli import main

        where = ["--database", f"sqlite:///{tmp_path / 'db.sqlite'}", "--state", str(tmp_path)]
        with pytest.raises(SystemExit) as end:
            main(["challenge", "export", str(root), "--phase", "final", *where, "--site", str(tmp_path / "kept")])
        assert not end.value.code
        assert capsys.readouterr().out.count("\n") == 4, "a heading and three ranked entries"
        person = browser.person("file://" + str(tmp_path))
        assert "dunlin" in person.go("/kept/index.html")
