"""The web service: pages that work without JavaScript, and the few calls that `handful challenge submit` needs."""

from __future__ import annotations

import csv
import io
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, File, Form, Request, UploadFile
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, select_autoescape
from sqlalchemy import select
from sqlalchemy.orm import Session

from handful.challenge import accounts, rules
from handful.challenge.archive import ArchiveLimits, clean_name, digest, root_of, unpack, weights_in
from handful.challenge.db import Database, Login, Member, Submission, Token, User
from handful.challenge.spec import PHASES, Challenge
from handful.errors import BadInput, HandfulError

log = logging.getLogger("handful.challenge.service")
PAGES = Path(__file__).parent / "pages"
COOKIE, GUEST = "handful_session", "handful_guest"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that gets a page with one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Visit:
    """Who asks: the account and its login, if any, within one database session."""

    def __init__(self, session: Session, user: User | None, login: Login | None, guest: str) -> None:
        self.session, self.user, self.login, self.guest = session, user, login, guest

    @property
    def csrf(self) -> str:
        """What every form must carry."""
        return self.login.csrf if self.login is not None else self.guest

    def participant(self) -> User:
        """The account, or a refusal."""
        if self.user is None:
            raise Refused(401, "Log in first.")
        return self.user

    def organiser(self) -> User:
        """The organiser's account, or a refusal."""
        user = self.participant()
        if not user.organiser:
            raise Refused(403, "Only organisers may do this.")
        return user

    def check(self, csrf: str) -> None:
        """Refuse a form that was not sent from our own page."""
        if not self.csrf or not accounts.same(csrf, self.csrf):
            raise Refused(403, "The form is too old; go back, reload the page and send it again.")


def make_app(challenge: Challenge, database: Database, root: Path, state: Path, *, https: bool = False) -> FastAPI:
    """The service of one challenge; ``state`` holds uploads, runs and results."""
    app = FastAPI(title=challenge.title, docs_url=None, redoc_url=None, openapi_url=None)
    pages = Environment(loader=FileSystemLoader(PAGES), autoescape=select_autoescape(default=True))
    pages.filters["score"] = lambda value: "" if value is None else f"{value:.3f}"
    pages.filters["time"] = lambda value: "" if value is None else value.strftime("%Y-%m-%d %H:%M")
    (state / "submissions").mkdir(parents=True, exist_ok=True)
    database.create()
    with database.writing() as session:
        rules.begin(session, challenge)

    def visit(request: Request) -> Iterator[Visit]:
        # One writing session a request: on SQLite a reader that turns writer in mid-air could be refused.
        opened = database.reading() if request.method == "GET" else database.writing()
        with opened as session:
            found = accounts.find_login(session, request.cookies.get(COOKIE))
            user, login = found if found else (None, None)
            yield Visit(session, user, login, request.cookies.get(GUEST, ""))

    def show(name: str, request: Request, who: Visit, status: int = 200, **values: Any) -> HTMLResponse:
        guest = who.guest or secrets.token_urlsafe(24)
        phase = rules.current(who.session)
        common = {"challenge": challenge, "user": who.user, "phase": phase, "path": request.url.path}
        common["csrf"] = who.login.csrf if who.login is not None else guest
        text = pages.get_template(name).render(**common, **values)
        response = HTMLResponse(text, status)
        if not who.guest:
            response.set_cookie(GUEST, guest, httponly=True, samesite="strict", secure=https)
        return response

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        limit = (challenge.limits.upload_mb << 20) + (1 << 20)
        if request.method == "POST":
            length = request.headers.get("content-length", "")
            if not length.isdigit():
                return PlainTextResponse("Say how long the request is.", 411)
            if int(length) > limit:
                return PlainTextResponse(f"The upload is larger than {challenge.limits.upload_mb} MB.", 413)
        response = await call_next(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": error.sentence}, error.status)
        with database.reading() as session:
            found = accounts.find_login(session, request.cookies.get(COOKIE))
            user, login = found if found else (None, None)
            who = Visit(session, user, login, request.cookies.get(GUEST, ""))
            return show("message.html", request, who, error.status, sentence=error.sentence)

    @app.exception_handler(HandfulError)
    def unhappy(request: Request, error: HandfulError) -> Response:
        return refused(request, Refused(400, str(error)[0].upper() + str(error)[1:] + "."))

    @app.get("/style.css")
    def style() -> Response:
        return FileResponse(PAGES / "style.css", media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    @app.get("/")
    def home(request: Request, who: Visit = Depends(visit)) -> Response:
        boards = {
            league.name: rules.leaderboard(who.session, challenge, _shown(who), league.name)[:3]
            for league in challenge.leagues
        }
        return show("home.html", request, who, boards=boards, seeds=rules.revealed(who.session), phases=PHASES)

    def _shown(who: Visit) -> str:
        phase = rules.current(who.session)
        return "feedback" if phase == "public" else phase

    @app.get("/data")
    def data_page(request: Request, who: Visit = Depends(visit)) -> Response:
        from handful.challenge.gallery import gallery

        return show("data.html", request, who, sets=gallery(challenge, root, state))

    @app.get("/leaderboard")
    def board(request: Request, league: str = "", phase: str = "", who: Visit = Depends(visit)) -> Response:
        from handful.challenge.gallery import board_figure

        chosen = challenge.league(league or challenge.leagues[0].name)
        asked = phase or _shown(who)
        if asked not in ("feedback", "final"):
            raise Refused(404, "There is a leaderboard for the feedback and for the final phase.")
        lines = rules.leaderboard(who.session, challenge, asked, chosen.name)
        final = rules.results_are_final(who.session, challenge)
        return show(
            "leaderboard.html",
            request,
            who,
            league=chosen,
            asked=asked,
            lines=lines,
            figure=board_figure(lines),
            final=final,
        )

    @app.get("/leaderboard.csv")
    def board_csv(league: str, phase: str, who: Visit = Depends(visit)) -> Response:
        if phase not in ("feedback", "final"):
            raise Refused(404, "There is a leaderboard for the feedback and for the final phase.")
        return PlainTextResponse(export_csv(who.session, challenge, phase, league), media_type="text/csv")

    @app.get("/register")
    def register_page(request: Request, who: Visit = Depends(visit)) -> Response:
        return show("register.html", request, who)

    @app.post("/register")
    def register(
        request: Request,
        name: str = Form(""),
        password: str = Form(""),
        email: str = Form(""),
        real_name: str = Form(""),
        csrf: str = Form(""),
        who: Visit = Depends(visit),
    ) -> Response:
        who.check(csrf)
        user = accounts.register(who.session, name, password, email, real_name)
        return _enter(who, user)

    def _enter(who: Visit, user: User) -> Response:
        response = RedirectResponse("/submissions", 303)
        token = accounts.log_in(who.session, user)
        response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=https, max_age=7 * 86400)
        return response

    @app.get("/login")
    def login_page(request: Request, who: Visit = Depends(visit)) -> Response:
        return show("login.html", request, who)

    @app.post("/login")
    def log_in(
        request: Request,
        name: str = Form(""),
        password: str = Form(""),
        csrf: str = Form(""),
        who: Visit = Depends(visit),
    ) -> Response:
        who.check(csrf)
        user = accounts.check_password(who.session, name, password)
        if user is None:
            return show("login.html", request, who, 401, wrong=True)
        return _enter(who, user)

    @app.post("/logout")
    def log_out(request: Request, csrf: str = Form(""), who: Visit = Depends(visit)) -> Response:
        who.check(csrf)
        accounts.log_out(who.session, request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE)
        return response

    @app.get("/account")
    def account(request: Request, who: Visit = Depends(visit)) -> Response:
        user = who.participant()
        tokens = len(list(who.session.scalars(select(Token).where(Token.user_id == user.id))))
        return show("account.html", request, who, tokens=tokens, token="")

    @app.post("/account")
    async def change_account(request: Request, who: Visit = Depends(visit)) -> Response:
        form = await request.form()
        user = who.participant()
        who.check(str(form.get("csrf", "")))
        pseudonym = clean_name(str(form.get("pseudonym", "")), 40)
        taken = select(User).where((User.pseudonym == pseudonym) | (User.name == pseudonym), User.id != user.id)
        if pseudonym and who.session.scalars(taken).first() is not None:
            raise BadInput("that pseudonym is taken; choose another")
        user.pseudonym = pseudonym
        user.conflicted = user.conflicted or form.get("conflicted") == "yes"
        user.fact_sheet = {
            q: clean_name(str(form.get(f"fact-{i}", "")), 2000) for i, q in enumerate(challenge.fact_sheet)
        }
        user.members.clear()
        for i in range(20):
            name = clean_name(str(form.get(f"member-{i}", "")), 120)
            if name:
                mine = [
                    league.name
                    for league in challenge.leagues
                    if league.members and form.get(f"member-{i}-{league.name}")
                ]
                user.members.append(Member(name=name, leagues=mine))
        return RedirectResponse("/account", 303)

    @app.post("/account/token")
    def token(request: Request, csrf: str = Form(""), who: Visit = Depends(visit)) -> Response:
        who.check(csrf)
        user = who.participant()
        new = accounts.new_token(who.session, user)
        who.session.flush()
        return show("account.html", request, who, tokens=1, token=new)

    @app.get("/submissions")
    def mine(request: Request, who: Visit = Depends(visit)) -> Response:
        user = who.participant()
        query = select(Submission).where(Submission.user_id == user.id).order_by(Submission.id.desc())
        rows = list(who.session.scalars(query))
        used = rules.usage(who.session, user, _shown(who))
        waiting = any(row.status in ("queued", "running") for row in rows)
        return show("submissions.html", request, who, rows=rows, used=used, waiting=waiting)

    @app.get("/submissions/{number}")
    def one(request: Request, number: int, who: Visit = Depends(visit)) -> Response:
        return show("submission.html", request, who, row=_own(who, number))

    def _own(who: Visit, number: int) -> Submission:
        user = who.participant()
        row = who.session.get(Submission, number)
        # Whether a number exists is nobody's business but its owner's.
        if row is None or (row.user_id != user.id and not user.organiser):
            raise Refused(404, "You have no submission of that number.")
        return row

    @app.get("/submissions/{number}/results")
    def results(number: int, who: Visit = Depends(visit)) -> Response:
        row = _own(who, number)
        path = state / "results" / str(row.id) / "results.html"
        if not path.is_file():
            raise Refused(404, "This submission has no results page.")
        return FileResponse(path, media_type="text/html")

    @app.get("/submissions/{number}/{name}")
    def download(number: int, name: str, who: Visit = Depends(visit)) -> Response:
        row = _own(who, number)
        if name == "archive.zip":
            return FileResponse(state / "submissions" / row.archive, filename=f"submission-{row.id}.zip")
        if name in ("scores.json", "scores.txt", "tasks.parquet"):
            path = state / "results" / str(row.id) / name
            if path.is_file():
                return FileResponse(path, filename=name)
        raise Refused(404, "There is no such file.")

    @app.post("/submissions")
    def upload(
        request: Request,
        league: str = Form(""),
        name: str = Form(""),
        csrf: str = Form(""),
        archive: UploadFile = File(...),
        who: Visit = Depends(visit),
    ) -> Response:
        who.check(csrf)
        row = _store(who.session, who.participant(), league, name, archive)
        return RedirectResponse(f"/submissions/{row.id}", 303)

    def _store(session: Session, user: User, league: str, name: str, upload: UploadFile) -> Submission:
        limit = challenge.limits.upload_mb << 20
        place = state / "submissions" / f"{secrets.token_hex(16)}.zip"
        partial = place.with_suffix(".partial")
        size = 0
        try:
            with open(partial, "xb") as out:
                while block := upload.file.read(1 << 20):
                    size += len(block)
                    if size > limit:
                        raise Refused(413, f"The upload is larger than {challenge.limits.upload_mb} MB.")
                    out.write(block)
            shown = clean_name(name or upload.filename or "submission")
            check_archive(partial, limit, challenge.league(league).pretrained)
            row = rules.submit(session, challenge, user, league, shown, digest(partial), place.name)
            os.replace(partial, place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return row

    @app.get("/organiser")
    def organiser(request: Request, who: Visit = Depends(visit)) -> Response:
        who.organiser()
        users = list(who.session.scalars(select(User).order_by(User.name)))
        rows = list(who.session.scalars(select(Submission).order_by(Submission.id.desc()).limit(200)))
        return show("organiser.html", request, who, users=users, rows=rows)

    @app.post("/organiser/advance")
    def advance(csrf: str = Form(""), who: Visit = Depends(visit)) -> Response:
        who.check(csrf)
        who.organiser()
        rules.advance(who.session, challenge)
        return RedirectResponse("/organiser", 303)

    @app.post("/organiser/conflict/{number}")
    def conflict(number: int, csrf: str = Form(""), who: Visit = Depends(visit)) -> Response:
        who.check(csrf)
        who.organiser()
        user = who.session.get(User, number)
        if user is None:
            raise Refused(404, "There is no such account.")
        user.conflicted = not user.conflicted
        return RedirectResponse("/organiser", 303)

    def caller(request: Request) -> Iterator[tuple[Session, User]]:
        with database.writing() as session:
            user = accounts.find_token(session, request.headers.get("authorization"))
            if user is None:
                raise Refused(401, "The API token is missing or wrong; make one on your account page.")
            yield session, user

    @app.post("/api/submissions")
    def api_submit(
        league: str = Form(...),
        name: str = Form(""),
        archive: UploadFile = File(...),
        by: tuple[Session, User] = Depends(caller),
    ) -> dict[str, Any]:
        row = _store(by[0], by[1], league, name, archive)
        return _facts(row)

    @app.get("/api/submissions/{number}")
    def api_status(number: int, by: tuple[Session, User] = Depends(caller)) -> dict[str, Any]:
        row = by[0].get(Submission, number)
        if row is None or row.user_id != by[1].id:
            raise Refused(404, "You have no submission of that number.")
        return _facts(row)

    return app


def _facts(row: Submission) -> dict[str, Any]:
    facts = {"id": row.id, "status": row.status, "phase": row.phase, "league": row.league, "score": row.score}
    return {**facts, "code": row.code, "told": row.told, "progress": row.progress}


def check_archive(path: Path, limit: int, pretrained: bool) -> None:
    """Refuse at once what would only fail in the queue: a bad archive, no model.py, forbidden weights."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="handful-upload-") as place:
        folder = Path(place) / "code"
        unpack(path, folder, ArchiveLimits(archive_bytes=limit))
        root = root_of(folder)
        if not pretrained and (found := weights_in(root)):
            raise BadInput(f"{clean_name(found[0])} looks like stored weights, which this league forbids")


def export_csv(session: Session, challenge: Challenge, phase: str, league: str) -> str:
    """A leaderboard as CSV; names that a spreadsheet would take for a formula are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    lines = rules.leaderboard(session, challenge, phase, league)
    datasets = sorted({name for line in lines for name in line.by_dataset})
    writer.writerow(["rank", "name", "score", "low", "high", "mean_rank", "submitted", *datasets])
    for line in lines:
        name = f"'{line.name}" if line.name[:1] in "=+-@" else line.name
        values = [line.by_dataset.get(dataset, "") for dataset in datasets]
        rank = line.rank if line.rank is not None else "unranked"
        writer.writerow(
            [rank, name, line.score, line.low, line.high, line.mean_rank or "", line.created.isoformat(), *values]
        )
    return out.getvalue()
