"""The organiser's page: phases, accounts, submissions, announcements."""

from __future__ import annotations

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select

from handful.challenge import accounts, rules
from handful.challenge.archive import clean_name
from handful.challenge.db import Announcement, Standing, Submission, User
from handful.challenge.markdown import MOST
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import Number, Site, Visit
from handful.errors import BadInput


def organiser(site: Site) -> APIRouter:
    """The organiser's page and its buttons."""
    routes = APIRouter()
    challenge = site.challenge

    def account(who: Visit, number: int) -> User:
        user = who.session.get(User, number)
        if user is None:
            raise Refused(404, "There is no such account.")
        return user

    @routes.get("/organiser")
    def organiser(request: Request) -> Response:
        with site.visit(request) as who:
            who.organiser()
            users = list(who.session.scalars(select(User).order_by(User.name)))
            rows = list(who.session.scalars(select(Submission).order_by(Submission.id.desc()).limit(200)))
            said = {row.user_id: row for row in who.session.scalars(select(Standing))}
            states = {user.id: rules.standing(who.session, challenge, user.id) for user in users}
            return site.show("organiser.html", request, who, users=users, rows=rows, states=states, said=said)

    @routes.get("/organiser/advance")
    def confirm(request: Request) -> Response:
        with site.visit(request) as who:
            who.organiser()
            waiting = rules.open_submissions(who.session, rules.current(who.session))
            return site.show("advance.html", request, who, waiting=waiting)

    @routes.post("/organiser/advance")
    def advance(request: Request, csrf: str = Form(""), phase: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            # The form names the phase that it ends, so that one sent twice, or by two organisers, ends one phase only.
            if rules.ended(who.session) or phase != rules.current(who.session):
                raise BadInput("the phase has changed since you confirmed; look at the page again")
            rules.advance(who.session, challenge)
        return RedirectResponse("/organiser", 303)

    @routes.post("/organiser/conflict/{number}")
    def conflict(request: Request, number: Number, csrf: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            user = account(who, number)
            user.conflicted = not user.conflicted
        return RedirectResponse("/organiser", 303)

    @routes.post("/organiser/standing/{number}")
    def standing(
        request: Request, number: Number, csrf: str = Form(""), state: str = Form(""), reason: str = Form("")
    ) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            rules.decide(who.session, account(who, number).id, state, clean_name(reason, 400))
        return RedirectResponse("/organiser", 303)

    @routes.post("/organiser/reset/{number}")
    def reset(request: Request, number: Number, csrf: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            user = account(who, number)
            link = f"/reset/{accounts.new_reset(who.session, user)}"
            who.session.flush()
            return site.show("reset_link.html", request, who, account=user, link=link)

    @routes.post("/organiser/again")
    def again(request: Request, csrf: str = Form(""), number: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            if number and not (number.isascii() and number.isdigit() and 0 < int(number[:12]) < 2**31):
                raise BadInput("give the number of a submission, or leave it empty to run all again")
            rules.run_again(who.session, challenge, [int(number)] if number else None)
        return RedirectResponse("/organiser", 303)

    @routes.post("/organiser/announce")
    def announce(request: Request, csrf: str = Form(""), text: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            who.organiser()
            if not text.strip() or len(text) > MOST:
                raise BadInput(f"an announcement has 1 to {MOST} characters")
            who.session.add(Announcement(text=text))
        return RedirectResponse("/", 303)

    return routes
