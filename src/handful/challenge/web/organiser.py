"""The organiser's page: accounts, submissions, phases."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select

from handful.challenge import rules
from handful.challenge.db import Submission, User
from handful.challenge.web.site import Refused, Site, Visit


def organiser(site: Site) -> APIRouter:
    """The organiser's page and its buttons."""
    routes = APIRouter()
    challenge = site.challenge

    @routes.get("/organiser")
    def organiser(request: Request, who: Visit = Depends(site.visit)) -> Response:
        who.organiser()
        users = list(who.session.scalars(select(User).order_by(User.name)))
        rows = list(who.session.scalars(select(Submission).order_by(Submission.id.desc()).limit(200)))
        return site.show("organiser.html", request, who, users=users, rows=rows)

    @routes.post("/organiser/advance")
    def advance(csrf: str = Form(""), who: Visit = Depends(site.visit)) -> Response:
        who.check(csrf)
        who.organiser()
        rules.advance(who.session, challenge)
        return RedirectResponse("/organiser", 303)

    @routes.post("/organiser/conflict/{number}")
    def conflict(number: int, csrf: str = Form(""), who: Visit = Depends(site.visit)) -> Response:
        who.check(csrf)
        who.organiser()
        user = who.session.get(User, number)
        if user is None:
            raise Refused(404, "There is no such account.")
        user.conflicted = not user.conflicted
        return RedirectResponse("/organiser", 303)

    return routes
