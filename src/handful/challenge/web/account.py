"""Registering, logging in and out, and one's own account."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select

from handful.challenge import accounts
from handful.challenge.archive import clean_name
from handful.challenge.db import Member, Token, User
from handful.challenge.web.site import COOKIE, Site, Visit
from handful.errors import BadInput


def accounts_of(site: Site) -> APIRouter:
    """Accounts and logins."""
    routes = APIRouter()
    challenge = site.challenge

    @routes.get("/register")
    def register_page(request: Request, who: Visit = Depends(site.visit)) -> Response:
        return site.show("register.html", request, who)

    @routes.post("/register")
    def register(
        request: Request,
        name: str = Form(""),
        password: str = Form(""),
        email: str = Form(""),
        real_name: str = Form(""),
        csrf: str = Form(""),
        who: Visit = Depends(site.visit),
    ) -> Response:
        who.check(csrf)
        user = accounts.register(who.session, name, password, email, real_name)
        return enter(site, who, user)

    @routes.get("/login")
    def login_page(request: Request, who: Visit = Depends(site.visit)) -> Response:
        return site.show("login.html", request, who)

    @routes.post("/login")
    def log_in(
        request: Request,
        name: str = Form(""),
        password: str = Form(""),
        csrf: str = Form(""),
        who: Visit = Depends(site.visit),
    ) -> Response:
        who.check(csrf)
        user = accounts.check_password(who.session, name, password)
        if user is None:
            return site.show("login.html", request, who, 401, wrong=True)
        return enter(site, who, user)

    @routes.post("/logout")
    def log_out(request: Request, csrf: str = Form(""), who: Visit = Depends(site.visit)) -> Response:
        who.check(csrf)
        accounts.log_out(who.session, request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE)
        return response

    @routes.get("/account")
    def account(request: Request, who: Visit = Depends(site.visit)) -> Response:
        user = who.participant()
        tokens = len(list(who.session.scalars(select(Token).where(Token.user_id == user.id))))
        return site.show("account.html", request, who, tokens=tokens, token="")

    @routes.post("/account")
    async def change_account(request: Request, who: Visit = Depends(site.visit)) -> Response:
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

    @routes.post("/account/token")
    def token(request: Request, csrf: str = Form(""), who: Visit = Depends(site.visit)) -> Response:
        who.check(csrf)
        user = who.participant()
        new = accounts.new_token(who.session, user)
        who.session.flush()
        return site.show("account.html", request, who, tokens=1, token=new)

    return routes


def enter(site: Site, who: Visit, user: User) -> Response:
    """Log in and go to one's submissions."""
    response = RedirectResponse("/submissions", 303)
    token = accounts.log_in(who.session, user)
    response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=site.https, max_age=7 * 86400)
    return response
