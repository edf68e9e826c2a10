"""A participant's submissions: pages, uploads, downloads, and the calls of `handful challenge submit`."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import FileResponse, RedirectResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from handful.challenge import rules
from handful.challenge.archive import ArchiveLimits, clean_name, digest, root_of, unpack, weights_in
from handful.challenge.db import Submission, User
from handful.challenge.web.site import Refused, Site, Visit
from handful.errors import BadInput


def submissions(site: Site) -> APIRouter:
    """Pages of submissions, and the programs' calls."""
    routes = APIRouter()

    @routes.get("/submissions")
    def mine(request: Request, who: Visit = Depends(site.visit)) -> Response:
        user = who.participant()
        query = select(Submission).where(Submission.user_id == user.id).order_by(Submission.id.desc())
        rows = list(who.session.scalars(query))
        used = rules.usage(who.session, user, site.shown(who))
        waiting = any(row.status in ("queued", "running") for row in rows)
        return site.show("submissions.html", request, who, rows=rows, used=used, waiting=waiting)

    @routes.get("/submissions/{number}")
    def one(request: Request, number: int, who: Visit = Depends(site.visit)) -> Response:
        return site.show("submission.html", request, who, row=site.own(who, number))

    @routes.get("/submissions/{number}/results")
    def results(number: int, who: Visit = Depends(site.visit)) -> Response:
        row = site.own(who, number)
        path = site.state / "results" / str(row.id) / "results.html"
        if not path.is_file():
            raise Refused(404, "This submission has no results page.")
        return FileResponse(path, media_type="text/html")

    @routes.get("/submissions/{number}/{name}")
    def download(number: int, name: str, who: Visit = Depends(site.visit)) -> Response:
        row = site.own(who, number)
        if name == "archive.zip":
            return FileResponse(site.state / "submissions" / row.archive, filename=f"submission-{row.id}.zip")
        if name in ("scores.json", "scores.txt", "tasks.parquet"):
            path = site.state / "results" / str(row.id) / name
            if path.is_file():
                return FileResponse(path, filename=name)
        raise Refused(404, "There is no such file.")

    @routes.post("/submissions")
    def upload(
        request: Request,
        league: str = Form(""),
        name: str = Form(""),
        csrf: str = Form(""),
        archive: UploadFile = File(...),
        who: Visit = Depends(site.visit),
    ) -> Response:
        who.check(csrf)
        row = store(site, who.session, who.participant(), league, name, archive)
        return RedirectResponse(f"/submissions/{row.id}", 303)

    @routes.post("/api/submissions")
    def api_submit(
        league: str = Form(...),
        name: str = Form(""),
        archive: UploadFile = File(...),
        by: tuple[Session, User] = Depends(site.caller),
    ) -> dict[str, Any]:
        row = store(site, by[0], by[1], league, name, archive)
        return facts(row)

    @routes.get("/api/submissions/{number}")
    def api_status(number: int, by: tuple[Session, User] = Depends(site.caller)) -> dict[str, Any]:
        row = by[0].get(Submission, number)
        if row is None or row.user_id != by[1].id:
            raise Refused(404, "You have no submission of that number.")
        return facts(row)

    return routes


def store(site: Site, session: Session, user: User, league: str, name: str, upload: UploadFile) -> Submission:
    """Keep an uploaded archive and queue it; what would only fail in the queue is refused at once."""
    limit = site.challenge.limits.upload_mb << 20
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
        check_archive(partial, limit, site.challenge.league(league).pretrained)
        row = rules.submit(session, site.challenge, user, league, shown, digest(partial), place.name)
        os.replace(partial, place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return row


def facts(row: Submission) -> dict[str, Any]:
    """What a program is told of a submission."""
    told = ("id", "status", "phase", "league", "score", "code", "told", "progress")
    return {name: getattr(row, name) for name in told}


def check_archive(path: Path, limit: int, pretrained: bool) -> None:
    """Refuse at once what would only fail in the queue: a bad archive, no model.py, forbidden weights."""
    with tempfile.TemporaryDirectory(prefix="handful-upload-") as place:
        folder = Path(place) / "code"
        unpack(path, folder, ArchiveLimits(archive_bytes=limit))
        root = root_of(folder)
        if not pretrained and (found := weights_in(root)):
            raise BadInput(f"{clean_name(found[0])} looks like stored weights, which this league forbids")
