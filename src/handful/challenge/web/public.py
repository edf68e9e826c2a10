"""Pages for everyone: the challenge, its data, its leaderboards."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from sqlalchemy import select

from handful.challenge import rules
from handful.challenge.db import Announcement, User
from handful.challenge.markdown import render
from handful.challenge.spec import Challenge
from handful.challenge.tables import columns_of, export_csv
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import PAGES, Number, Site
from handful.report import page


def public(site: Site) -> APIRouter:
    """Home, data and leaderboards."""
    routes = APIRouter()
    challenge = site.challenge
    # The library's own style sheet, and after it what only forms and tabs need.
    sheet = "\n".join(path.read_text(encoding="utf-8") for path in (page.CSS, PAGES / "style.css"))

    @routes.get("/style.css")
    def style() -> Response:
        return Response(sheet, media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    @routes.get("/")
    def home(request: Request) -> Response:
        with site.visit(request) as who:
            phase = site.shown(who)
            found = rules.entries_of(who.session, challenge, phase)
            boards = {
                league.name: rules.leaderboard(who.session, challenge, phase, league.name, found)[:3]
                for league in challenge.leagues
            }
            seeds = rules.revealed(who.session, challenge)
            news = who.session.scalars(select(Announcement).order_by(Announcement.id.desc()).limit(20))
            said = [(each.at, render(each.text)) for each in news]
            return site.show("home.html", request, who, boards=boards, seeds=seeds, said=said)

    @routes.get("/rules")
    def rules_page(request: Request) -> Response:
        path = site.root / challenge.rules
        text = render(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ""
        with site.visit(request) as who:
            return site.show("rules.html", request, who, text=text)

    @routes.get("/teams/{number}")
    def team(request: Request, number: Number) -> Response:
        with site.visit(request) as who:
            user = who.session.get(User, number)
            places = []
            for phase in challenge.ranked if user is not None else ():
                found = rules.entries_of(who.session, challenge, phase)
                for league in challenge.leagues:
                    lines = rules.leaderboard(who.session, challenge, phase, league.name, found)
                    places += [(phase, league, line) for line in lines if line.user_id == number]
            # Whoever is on no leaderboard has no page: that an account exists is nobody else's business.
            if user is None or not places:
                raise Refused(404, "There is no such team.")
            return site.show("team.html", request, who, team=user, places=places)

    @routes.get("/data")
    def data_page(request: Request) -> Response:
        from handful.challenge.gallery import gallery

        sets = gallery(challenge, site.root, site.state)
        with site.visit(request) as who:
            return site.show("data.html", request, who, sets=sets)

    @routes.get("/leaderboard")
    def board(request: Request, league: str = "", phase: str = "") -> Response:
        from handful.challenge.gallery import board_figure

        chosen = challenge.league(league or challenge.leagues[0].name)
        with site.visit(request) as who:
            asked = phase or site.shown(who)
            check_ranked(challenge, asked)
            lines = rules.leaderboard(who.session, challenge, asked, chosen.name)
            final, figure = rules.results_are_final(who.session, challenge), board_figure(lines)
            return site.show(
                "leaderboard.html",
                request,
                who,
                league=chosen,
                asked=asked,
                lines=lines,
                columns=columns_of(challenge.ranking),
                figure=figure,
                final=final,
            )

    @routes.get("/leaderboard.csv")
    def board_csv(request: Request, league: str, phase: str) -> Response:
        check_ranked(challenge, phase)
        with site.visit(request) as who:
            lines = rules.leaderboard(who.session, challenge, phase, league)
            text = export_csv(lines, named=rules.ended(who.session))
        return PlainTextResponse(text, media_type="text/csv")

    return routes


def check_ranked(challenge: Challenge, phase: str) -> None:
    """Refuse a phase that has no leaderboard."""
    if phase not in challenge.ranked:
        raise Refused(404, f"There is a leaderboard for each of these phases: {', '.join(challenge.ranked)}.")
