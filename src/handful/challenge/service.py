"""The web service: pages that work without JavaScript, and the few calls that `handful challenge submit` needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from handful.challenge import rules
from handful.challenge.db import Database
from handful.challenge.spec import Challenge
from handful.challenge.web.account import accounts_of
from handful.challenge.web.organiser import organiser
from handful.challenge.web.public import public
from handful.challenge.web.site import Refused, Site
from handful.challenge.web.submissions import submissions
from handful.errors import HandfulError

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(challenge: Challenge, database: Database, root: Path, state: Path, *, https: bool = False) -> FastAPI:
    """The service of one challenge; ``state`` holds uploads, runs and results."""
    app = FastAPI(title=challenge.title, docs_url=None, redoc_url=None, openapi_url=None)
    (state / "submissions").mkdir(parents=True, exist_ok=True)
    database.create()
    with database.writing() as session:
        rules.begin(session, challenge)
    site = Site(challenge, database, root, state, https)

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
            who = site.visitor(request, session)
            return site.show("message.html", request, who, error.status, sentence=error.sentence)

    @app.exception_handler(HandfulError)
    def unhappy(request: Request, error: HandfulError) -> Response:
        return refused(request, Refused(400, str(error)[0].upper() + str(error)[1:] + "."))

    for routes in (public, accounts_of, submissions, organiser):
        app.include_router(routes(site))
    return app
