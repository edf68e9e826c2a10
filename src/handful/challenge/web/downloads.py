"""Downloads: the starting kit, the public data, and the winners' code once the challenge has ended."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from handful.challenge import rules
from handful.challenge.db import Submission
from handful.challenge.handouts import public_data, starting_kit
from handful.challenge.web.refused import Refused
from handful.challenge.web.site import Number, Site
from handful.errors import HandfulError


def downloads(site: Site) -> APIRouter:
    """Files for participants."""
    routes = APIRouter()
    challenge = site.challenge

    @routes.get("/downloads/starting-kit.zip")
    def kit() -> Response:
        headers = {"Content-Disposition": 'attachment; filename="starting-kit.zip"'}
        return Response(starting_kit(challenge), media_type="application/zip", headers=headers)

    @routes.get("/downloads/public.zip")
    async def public() -> Response:
        from handful.challenge.sources import Data

        try:
            path = await site.crowd.run(lambda: public_data(Data(challenge, site.root, site.state)))
        except HandfulError:
            raise Refused(404, "There are no public data yet.") from None
        return FileResponse(path, media_type="application/zip", filename="public.zip")

    @routes.get("/winners/{number}.zip")
    def winner(request: Request, number: Number) -> Response:
        with site.visit(request) as who:
            who.participant()
            if not rules.ended(who.session):
                raise Refused(404, "Winners' code can be read once the challenge has ended.")
            found = rules.entries_of(who.session, challenge, challenge.final)
            boards = (
                rules.leaderboard(who.session, challenge, challenge.final, x.name, found) for x in challenge.leagues
            )
            won = {line.submission for lines in boards for line in lines if 0 < (line.rank or 0) <= challenge.winners}
            row = who.session.get(Submission, number) if number in won else None
            if row is None:
                raise Refused(404, "That is no winner's submission.")
            path = site.storage.file(f"submissions/{row.archive}", row.sha256)
        if not path.is_file():
            raise Refused(404, "There is no such file.")
        return FileResponse(path, media_type="application/zip", filename=f"winner-{number}.zip")

    return routes
