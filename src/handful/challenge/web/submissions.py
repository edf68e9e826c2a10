"""A participant's submissions: pages, uploads, downloads, and the calls of `handful challenge submit`."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.datastructures import FormData, UploadFile

from handful.challenge import rules
from handful.challenge.archive import ArchiveLimits, clean_name, digest, root_of, unpack, weights_in
from handful.challenge.db import Submission, User
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import Number, Site, Visit
from handful.errors import BadInput, HandfulError

# The forms are read by hand, after the sender is known; this is how they are described.
_FIELDS = {
    "league": {"type": "string"},
    "name": {"type": "string"},
    "archive": {"type": "string", "format": "binary"},
}
_FORM = {"schema": {"type": "object", "properties": _FIELDS, "required": ["league", "archive"]}}
_BODY = {"requestBody": {"required": True, "content": {"multipart/form-data": _FORM}}}


def submissions(site: Site) -> APIRouter:
    """Pages of submissions, and the programs' calls."""
    routes = APIRouter()

    @routes.get("/submissions")
    def mine(request: Request) -> Response:
        with site.visit(request) as who:
            user = who.participant()
            query = select(Submission).where(Submission.user_id == user.id).order_by(Submission.id.desc())
            rows = list(who.session.scalars(query))
            used = rules.usage(who.session, user, site.shown(who))
            waiting = any(row.status in ("queued", "running") for row in rows)
            return site.show("submissions.html", request, who, rows=rows, used=used, waiting=waiting)

    @routes.get("/submissions/{number}")
    def one(request: Request, number: Number) -> Response:
        with site.visit(request) as who:
            return site.show("submission.html", request, who, row=site.own(who, number))

    @routes.get("/submissions/{number}/results")
    def results(request: Request, number: Number) -> Response:
        with site.visit(request) as who:
            row = site.own(who, number)
            path = result_file(site, who, row, "results.html")
        if path is None:
            raise Refused(404, "This submission has no results page.")
        return FileResponse(path, media_type="text/html")

    @routes.get("/submissions/{number}/{name}")
    def download(request: Request, number: Number, name: str) -> Response:
        with site.visit(request) as who:
            row = site.own(who, number)
            known = name in ("scores.json", "scores.txt", "tasks.parquet")
            path = result_file(site, who, row, name) if known else None
        if name == "archive.zip":
            path = site.storage.file(f"submissions/{row.archive}")
        if path is not None and path.is_file():
            return FileResponse(path, filename=f"submission-{row.id}.zip" if name == "archive.zip" else name)
        raise Refused(404, "There is no such file.")

    @routes.post("/submissions", openapi_extra=_BODY)
    async def upload(request: Request) -> Response:
        def sender(session: Session) -> User:
            return site.visitor(request, session).participant()

        def check(form: FormData) -> None:
            with site.visit(request) as who:
                who.check(str(form.get("csrf", "")))

        row = await take(site, request, sender, check)
        return RedirectResponse(f"/submissions/{row.id}", 303)

    @routes.post("/api/submissions", openapi_extra=_BODY)
    async def api_submit(request: Request) -> Response:
        row = await take(site, request, lambda session: site.caller(request, session))
        return JSONResponse(facts(row))

    @routes.get("/api/submissions/{number}")
    def api_status(request: Request, number: Number) -> dict[str, Any]:
        with site.database.reading() as session:
            user = site.caller(request, session)
            row = session.get(Submission, number)
            if row is None or row.user_id != user.id:
                raise Refused(404, "You have no submission of that number.")
            return facts(row)

    return routes


def result_file(site: Site, who: Visit, row: Submission, name: str) -> Path | None:
    """A file of a recorded result: with numbers for hidden data sets until the challenge ends, organisers excepted."""
    if row.status != "scored":
        return None
    path = site.storage.file(f"results/{row.id}/{name}", changes=True)
    if who.participant().organiser or rules.ended(who.session):
        # Results of an older version have the data sets' names and no copy without.
        named = site.storage.file(f"results/{row.id}/named/{name}", changes=True)
        path = named if named.is_file() else path
    return path if path.is_file() else None


async def take(
    site: Site,
    request: Request,
    sender: Callable[[Session], User],
    check: Callable[[FormData], None] = lambda form: None,
) -> Submission:
    """Take an upload: the sender and their quota first, then the body, then the archive, and the lock last of all."""

    def admit() -> int:
        with site.database.reading() as session:
            user = sender(session)
            rules.check_open(session, site.challenge, user)
            return user.id

    account = await run_in_threadpool(admit)
    with site.seats.one(account):
        async with request.form(max_files=1, max_fields=10) as form:

            def work() -> Submission:
                check(form)
                return store(site, sender, form)

            return await site.crowd.run(work)


def store(site: Site, sender: Callable[[Session], User], form: FormData) -> Submission:
    """Keep an uploaded archive and queue it; what would only fail in the queue is refused at once."""
    upload = form.get("archive")
    if not isinstance(upload, UploadFile):
        raise Refused(422, "The form has no archive; choose a zip file.")
    league, name = text_of(form, "league"), text_of(form, "name")
    limit = site.challenge.limits.upload_mb << 20
    pretrained = site.challenge.league(league).pretrained
    place = site.state / "submissions" / f"{secrets.token_hex(16)}.zip"
    partial = place.with_suffix(".partial")
    size = 0
    try:
        with open(partial, "xb") as out:
            while block := upload.file.read(1 << 20):
                size += len(block)
                if size > limit:
                    raise Refused(413, f"The upload is larger than {site.challenge.limits.upload_mb} MB.")
                out.write(block)
        shown = clean_name(name or upload.filename or "submission")
        check_archive(partial, limit, pretrained)
        sha256 = digest(partial)
        # In place before the row says so: a row without its archive would be the platform's failure.
        os.replace(partial, place)
        site.storage.keep(f"submissions/{place.name}")
        with site.database.writing() as session:
            return rules.submit(session, site.challenge, sender(session), league, shown, sha256, place.name)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        # A commit that broke may have gone through all the same, so its archive stays; what nobody names is swept.
        if isinstance(error, (Refused, HandfulError)):
            place.unlink(missing_ok=True)
        raise


def text_of(form: FormData, name: str) -> str:
    """A field of a form as text that both databases can keep."""
    text = str(form.get(name, ""))
    if "\x00" in text:
        raise Refused(422, f"The field {name} holds a character that text cannot have.")
    return text


def facts(row: Submission) -> dict[str, Any]:
    """What a program is told of a submission."""
    told = ("id", "status", "phase", "league", "score", "code", "told", "progress")
    return {name: getattr(row, name) for name in told}


def check_archive(path: Path, limit: int, pretrained: bool) -> None:
    """Refuse at once what would only fail in the queue: a bad archive, no model.py, forbidden weights."""
    with tempfile.TemporaryDirectory(prefix="handful-upload-") as place:
        folder = Path(place) / "code"
        unpack(path, folder, ArchiveLimits(archive_bytes=limit), shown="the archive")
        root = root_of(folder)
        if not pretrained and (found := weights_in(root)):
            raise BadInput(f"{clean_name(found[0])} looks like stored weights, which this league forbids")
