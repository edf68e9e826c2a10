"""The organiser's page: accounts, submissions, phases."""

from __future__ import annotations

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select

from handful.challenge import rules
from handful.challenge.db import Submission, User
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import Number, Site


def organiser(site: Site) -> APIRouter:
    """The organiser's page and its buttons."""
    routes = APIRouter()
    challenge = site.challenge

    @routes.get("/organiser")
    def organiser(request: Request) -> Response:
        with site.visit(request) as who:
            who.organiser()
            users = list(who.session.scalars(select(User).order_by(User.name)))
            rows = list(who.session.scalars(select(Submission).order_by(Submission.id.desc()).limit(200)))
            return site.show("organiser.html", request, who, users=users, rows=rows)

    @routes.post("/organiser/advance")
    def advance(request: Request, csrf: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            rules.advance(who.session, challenge)
        return RedirectResponse("/organiser", 303)

    @routes.post("/organiser/conflict/{number}")
    def conflict(request: Request, number: Number, csrf: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            user = who.session.get(User, number)
            if user is None:
                raise Refused(404, "There is no such account.")
            user.conflicted = not user.conflicted
        return RedirectResponse("/organiser", 303)

    return routes
