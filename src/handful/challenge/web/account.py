"""Registering, logging in and out, and one's own account."""

from __future__ import annotations

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select

from handful.challenge import accounts, rules
from handful.challenge.archive import clean_name
from handful.challenge.db import Member, Token, User
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import COOKIE, Site, Visit
from handful.errors import BadInput


def accounts_of(site: Site) -> APIRouter:
    """Accounts and logins."""
    routes = APIRouter()

    @routes.get("/register")
    def register_page(request: Request) -> Response:
        with site.visit(request) as who:
            return site.show("register.html", request, who)

    @routes.post("/register")
    async def register(
        request: Request,
        name: str = Form(""),
        password: str = Form(""),
        email: str = Form(""),
        real_name: str = Form(""),
        csrf: str = Form(""),
    ) -> Response:
        def work() -> Response:
            with site.change(request) as who:
                who.check(csrf)
                accounts.check_new(who.session, name, password, email, real_name)
                sentence = "too many accounts are being made from your network"
                accounts.slow_down(who.session, f"register/{site.address(request)}", site.registrations, sentence)
            # Hashed while nothing of the database is held.
            hashed = accounts.hash_password(password)
            with site.change(request) as who:
                user = accounts.register(who.session, name, password, email, real_name, hashed=hashed)
                return enter(site, who, user)

        return await site.crowd.run(work)

    @routes.get("/login")
    def login_page(request: Request) -> Response:
        with site.visit(request) as who:
            return site.show("login.html", request, who)

    @routes.post("/login")
    async def log_in(
        request: Request, name: str = Form(""), password: str = Form(""), csrf: str = Form("")
    ) -> Response:
        def work() -> Response:
            with site.change(request) as who:
                who.check(csrf)
                guess = accounts.begin_guess(who.session, name, site.address(request))
            right = accounts.is_right(guess, password)
            with site.change(request) as who:
                user = accounts.end_guess(who.session, guess) if right else None
                if user is None:
                    return site.show("login.html", request, who, 401, wrong=True)
                return enter(site, who, user)

        return await site.crowd.run(work)

    @routes.post("/logout")
    def log_out(request: Request, csrf: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            accounts.log_out(who.session, request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE)
        return response

    @routes.get("/account")
    def account(request: Request) -> Response:
        with site.visit(request) as who:
            user = who.participant()
            tokens = len(list(who.session.scalars(select(Token).where(Token.user_id == user.id))))
            return site.show("account.html", request, who, tokens=tokens, token="")

    @routes.post("/account")
    async def change_account(request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}

        def work() -> Response:
            with site.change(request) as who:
                user = who.participant()
                who.check(form.get("csrf", ""))
                change(site, who, user, form)
            return RedirectResponse("/account", 303)

        return await run_in_threadpool(work)

    @routes.post("/account/token")
    def token(request: Request, csrf: str = Form("")) -> Response:
        with site.change(request) as who:
            who.check(csrf)
            user = who.participant()
            new = accounts.new_token(who.session, user)
            who.session.flush()
            return site.show("account.html", request, who, tokens=1, token=new)

    @routes.get("/reset/{secret}")
    def reset_page(request: Request, secret: str) -> Response:
        with site.visit(request) as who:
            known(who, secret)
            return site.show("reset.html", request, who, secret=secret)

    @routes.post("/reset/{secret}")
    async def reset(request: Request, secret: str, password: str = Form(""), csrf: str = Form("")) -> Response:
        def work() -> Response:
            with site.change(request) as who:
                who.check(csrf)
                known(who, secret)
                accounts.check_password(password)
                accounts.slow_down(who.session, f"reset/{site.address(request)}", 20, "too many new passwords")
            hashed = accounts.hash_password(password)
            with site.change(request) as who:
                user = known(who, secret)
                accounts.set_password(who.session, user, hashed)
                return enter(site, who, user)

        return await site.crowd.run(work)

    return routes


def known(who: Visit, secret: str) -> User:
    """The account of a link that was made for it, or a refusal."""
    user = accounts.find_reset(who.session, secret[:200])
    if user is None:
        raise Refused(404, "This link was used already or is too old; ask the organisers for another.")
    return user


def enter(site: Site, who: Visit, user: User) -> Response:
    """Log in and go to one's submissions."""
    response = RedirectResponse("/submissions", 303)
    token = accounts.log_in(who.session, user)
    response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=site.https, max_age=7 * 86400)
    return response


def change(site: Site, who: Visit, user: User, form: dict[str, str]) -> None:
    """Change what an account says of its team; what decides the ranks is frozen when the final begins."""
    challenge = site.challenge
    pseudonym = clean_name(form.get("pseudonym", ""), 40)
    members = []
    for i in range(20):
        name = clean_name(form.get(f"member-{i}", ""), 120)
        if name:
            leagues = [each.name for each in challenge.leagues if each.members and form.get(f"member-{i}-{each.name}")]
            members.append((name, leagues))
    answers = {q: clean_name(form.get(f"fact-{i}", ""), 2000) for i, q in enumerate(challenge.fact_sheet)}
    if rules.frozen(who.session, challenge):
        given = {q: text for q, text in user.fact_sheet.items() if text}
        same = pseudonym == user.pseudonym and members == [(each.name, each.leagues) for each in user.members]
        if not same or any(answers.get(q, "") != text for q, text in given.items()):
            raise BadInput(
                "the final phase has begun: pseudonym, members, their leagues and the fact sheet's answers stay as they "
                "were; only empty answers can be filled in"
            )
    else:
        accounts.rename(who.session, user, pseudonym)
        user.members = [Member(name=name, leagues=leagues) for name, leagues in members]
    user.conflicted = user.conflicted or form.get("conflicted") == "yes"
    user.fact_sheet = answers
