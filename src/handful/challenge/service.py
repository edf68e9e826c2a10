"""The web service: pages that work without JavaScript, and the few calls that `handful challenge submit` needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException

from handful.challenge import accounts, litter, rules
from handful.challenge.db import CONNECTIONS, Database
from handful.challenge.spec import Challenge
from handful.challenge.web.account import accounts_of
from handful.challenge.web.downloads import downloads
from handful.challenge.web.guard import Guard, log, refusal
from handful.challenge.web.organiser import organiser
from handful.challenge.web.public import public
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import Site
from handful.challenge.web.submissions import submissions
from handful.errors import HandfulError


def make_app(
    challenge: Challenge,
    database: Database,
    root: Path,
    state: Path,
    *,
    https: bool = False,
    patience: float = 20.0,
    registrations: int = 30,
    schema: bool = False,
    storage: str = "",
) -> FastAPI:
    """The service of one challenge; ``state`` holds uploads, runs and results.

    ``patience`` is how many seconds a form may take to arrive, ``registrations`` how many accounts may be made from
    one address in a quarter of an hour before each must wait; ``schema`` serves the description of the calls, for tests;
    ``storage`` is an address for archives and results that workers on other machines share.
    """
    (state / "submissions").mkdir(parents=True, exist_ok=True)
    database.create()
    with database.writing() as session:
        rules.begin(session, challenge)
        accounts.claim_names(session)
    litter.sweep_uploads(database, state)
    site = Site(challenge, database, root, state, https, registrations, storage)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        # No more threads for pages than there are connections, less those of the heavy work.
        anyio.to_thread.current_default_thread_limiter().total_tokens = CONNECTIONS - 4
        yield

    # A redirect that adds or removes a slash would go to whatever host the request names.
    app = FastAPI(
        title=challenge.title,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if schema else None,
        redirect_slashes=False,
        lifespan=life,
    )
    app.add_middleware(Guard, upload_mb=challenge.limits.upload_mb, patience=patience)

    @app.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> Response:
        if request.url.path.startswith("/api/") or error.status >= 500:
            return refusal(request.url.path, error)
        with site.visit(request) as who:
            return site.show("message.html", request, who, error.status, error.headers, sentence=error.sentence)

    @app.exception_handler(HandfulError)
    def unhappy(request: Request, error: HandfulError) -> Response:
        return refused(request, Refused(400, str(error)[0].upper() + str(error)[1:] + "."))

    @app.exception_handler(accounts.TooOften)
    def slower(request: Request, error: accounts.TooOften) -> Response:
        return refused(request, Refused(429, str(error)[0].upper() + str(error)[1:] + ".", retry=error.seconds))

    @app.exception_handler(HTTPException)
    def standard(request: Request, error: HTTPException) -> Response:
        sentence = "There is no such page." if error.status_code == 404 else f"{str(error.detail).rstrip('.')}."
        answer = refused(request, Refused(error.status_code, sentence))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        where = " ".join(str(part) for part in error.errors()[0]["loc"][1:])
        return refused(request, Refused(422, f"The request cannot be read: check {where or 'what was sent'}."))

    @app.exception_handler(OperationalError)
    @app.exception_handler(NoConnection)
    def away(request: Request, error: Exception) -> Response:
        log.warning("the database is away or busy (%s)", type(error).__name__)
        return refusal(request.url.path, Refused(503, "The database is busy; try again in a few seconds.", retry=5))

    app.state.site = site
    for routes in (public, accounts_of, submissions, organiser, downloads):
        app.include_router(routes(site))
    return app
