"""What every page of the service shares: who asks, how a page is shown, how a request is refused."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Path as PathValue
from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, select_autoescape
from sqlalchemy.orm import Session

from handful.challenge import accounts, rules
from handful.challenge.db import Database, Login, Submission, User
from handful.challenge.spec import Challenge
from handful.challenge.storage import Storage
from handful.challenge.web.crowd import Crowd, Seats
from handful.challenge.web.refused import Refused
from handful.metrics.base import SHOWN

PAGES = Path(__file__).parents[1] / "pages"
COOKIE, GUEST = "handful_session", "handful_guest"
# The number of a row, within what both databases can hold.
Number = Annotated[int, PathValue(ge=1, le=2**31 - 1)]


class Visit:
    """Who asks: the account and its login, if any, within one database session."""

    def __init__(self, session: Session, user: User | None, login: Login | None, guest: str) -> None:
        self.session, self.user, self.login, self.guest = session, user, login, guest

    @property
    def csrf(self) -> str:
        """What every form must carry."""
        return self.login.csrf if self.login is not None else self.guest

    def participant(self) -> User:
        """The account, or a refusal."""
        if self.user is None:
            raise Refused(401, "Log in first.")
        return self.user

    def organiser(self) -> User:
        """The organiser's account, or a refusal."""
        user = self.participant()
        if not user.organiser:
            raise Refused(403, "Only organisers may do this.")
        return user

    def check(self, csrf: str) -> None:
        """Refuse a form that was not sent from our own page."""
        if not self.csrf or not accounts.same(csrf, self.csrf):
            raise Refused(403, "The form is too old; go back, reload the page and send it again.")


@dataclass
class Site:
    """The service of one challenge; ``state`` holds uploads, runs and results."""

    challenge: Challenge
    database: Database
    root: Path
    state: Path
    https: bool = False
    registrations: int = 30
    address_of_files: str = ""

    def __post_init__(self) -> None:
        self.crowd, self.seats = Crowd(), Seats()
        self.storage = Storage(self.state, self.address_of_files)
        self.pages = Environment(loader=FileSystemLoader(PAGES), autoescape=select_autoescape(default=True))
        self.pages.filters["score"] = lambda value: "" if value is None else f"{value:.3f}"
        self.pages.filters["range"] = lambda value: (
            " to ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        )
        self.pages.globals["level"] = SHOWN
        self.pages.filters["time"] = lambda value: "" if value is None else value.strftime("%Y-%m-%d %H:%M")

    @contextmanager
    def visit(self, request: Request) -> Iterator[Visit]:
        """Who asks, within a session that only looks; phases whose dates have come turn first."""
        rules.keep_time(self.database, self.challenge)
        with self.database.reading() as session:
            yield self.visitor(request, session)

    @contextmanager
    def change(self, request: Request) -> Iterator[Visit]:
        """Who asks, within a session that is committed when the block ends, which is before the answer leaves."""
        rules.keep_time(self.database, self.challenge)
        with self.database.writing() as session:
            yield self.visitor(request, session)

    def visitor(self, request: Request, session: Session) -> Visit:
        found = accounts.find_login(session, request.cookies.get(COOKIE))
        user, login = found if found else (None, None)
        return Visit(session, user, login, request.cookies.get(GUEST, ""))

    def address(self, request: Request) -> str:
        """Where a request comes from; of IPv6 the network, which is what one visitor has."""
        host = request.client.host if request.client is not None else ""
        try:
            ip = ipaddress.ip_address(host)
        except ValueError:
            return host
        if isinstance(ip, ipaddress.IPv4Address):
            return host
        return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))

    def caller(self, request: Request, session: Session) -> User:
        """A program's account, by its token."""
        user = accounts.find_token(session, request.headers.get("authorization"))
        if user is None:
            raise Refused(401, "The API token is missing or wrong; make one on your account page.")
        return user

    def show(
        self,
        name: str,
        request: Request,
        who: Visit,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """A page with what all pages have, and the guest's cookie that its forms are checked against."""
        guest = who.guest or secrets.token_urlsafe(24)
        phase = rules.current(who.session)
        common: dict[str, Any] = {
            "challenge": self.challenge,
            "user": who.user,
            "phase": phase,
            "path": request.url.path,
        }
        common |= {"role": self.challenge.phase(phase).role, "over": rules.ended(who.session)}
        common["csrf"] = who.login.csrf if who.login is not None else guest
        response = HTMLResponse(self.pages.get_template(name).render(**common, **values), status, headers)
        if not who.guest:
            response.set_cookie(GUEST, guest, httponly=True, samesite="strict", secure=self.https)
        return response

    def shown(self, who: Visit) -> str:
        """The phase whose leaderboard and quota are shown."""
        phase = rules.current(who.session)
        return phase if phase in self.challenge.ranked else self.challenge.ranked[0]

    def own(self, who: Visit, number: int) -> Submission:
        """A submission of the one who asks (organisers see all), or a refusal."""
        user = who.participant()
        row = who.session.get(Submission, number)
        # Whether a number exists is nobody's business but its owner's.
        if row is None or (row.user_id != user.id and not user.organiser):
            raise Refused(404, "You have no submission of that number.")
        return row
