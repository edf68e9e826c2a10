"""Pages for everyone: the challenge, its data, its leaderboards."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response

from handful.challenge import rules
from handful.challenge.spec import PHASES
from handful.challenge.tables import export_csv
from handful.challenge.web.site import PAGES, Refused, Site, Visit


def public(site: Site) -> APIRouter:
    """Home, data and leaderboards."""
    routes = APIRouter()
    challenge = site.challenge

    @routes.get("/style.css")
    def style() -> Response:
        return FileResponse(PAGES / "style.css", media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    @routes.get("/")
    def home(request: Request, who: Visit = Depends(site.visit)) -> Response:
        boards = {
            league.name: rules.leaderboard(who.session, challenge, site.shown(who), league.name)[:3]
            for league in challenge.leagues
        }
        return site.show("home.html", request, who, boards=boards, seeds=rules.revealed(who.session), phases=PHASES)

    @routes.get("/data")
    def data_page(request: Request, who: Visit = Depends(site.visit)) -> Response:
        from handful.challenge.gallery import gallery

        return site.show("data.html", request, who, sets=gallery(challenge, site.root, site.state))

    @routes.get("/leaderboard")
    def board(request: Request, league: str = "", phase: str = "", who: Visit = Depends(site.visit)) -> Response:
        from handful.challenge.gallery import board_figure

        chosen = challenge.league(league or challenge.leagues[0].name)
        asked = phase or site.shown(who)
        if asked not in ("feedback", "final"):
            raise Refused(404, "There is a leaderboard for the feedback and for the final phase.")
        lines = rules.leaderboard(who.session, challenge, asked, chosen.name)
        final = rules.results_are_final(who.session, challenge)
        return site.show(
            "leaderboard.html",
            request,
            who,
            league=chosen,
            asked=asked,
            lines=lines,
            figure=board_figure(lines),
            final=final,
        )

    @routes.get("/leaderboard.csv")
    def board_csv(league: str, phase: str, who: Visit = Depends(site.visit)) -> Response:
        if phase not in ("feedback", "final"):
            raise Refused(404, "There is a leaderboard for the feedback and for the final phase.")
        lines = rules.leaderboard(who.session, challenge, phase, league)
        return PlainTextResponse(export_csv(lines), media_type="text/csv")

    return routes
