"""Who may talk to the studio: the person at this machine whose browser has the token, and no page of anybody else's.

The server listens on the loopback address only, but any page in the same browser can send requests there. So the name it is
called by (Host) must be its own, which stops a stranger's name that was made to point here; a request that says it comes
from another origin is refused whatever it carries; and nothing is answered without the token.
"""

from __future__ import annotations

import hmac
from http.cookies import SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY = 1 << 20
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The outermost layer.

    Parameters
    ----------
    token
        What the address that is opened first carries, and the cookie afterwards; empty for a service that any program of this
        machine may ask.
    port
        Where the server listens; its own origins follow from it.
    uploads
        Paths whose body may have so many bytes; all others a megabyte.
    """

    def __init__(self, app: ASGIApp, token: str, port: int, uploads: dict[str, int] | None = None) -> None:
        self.app, self.token, self.uploads = app, token, uploads or {}
        self.cookie = f"handful_studio_{port}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    out.setdefault(name, value)
            await send(message)

        if (wrong := self.refusal(scope, headers)) is not None:
            return await PlainTextResponse(wrong[1], wrong[0])(scope, receive, answer)
        given = Request(scope).query_params.get("token", "")
        if scope["path"] == "/" and given and self.token:
            if not same(given, self.token):
                return await PlainTextResponse("This address has the wrong token.", 403)(scope, receive, answer)
            # The token leaves the address bar, the history and what a copied address would give away.
            response = RedirectResponse("/", 303)
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return await response(scope, receive, answer)
        if not self.knows(headers):
            sentence = "Open the address that handful studio has printed; it carries the token that lets you in."
            return await PlainTextResponse(sentence, 403)(scope, receive, answer)
        await self.app(scope, receive, answer)

    def refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Why this request is not heard, whoever sent it."""
        if headers.get("host", "") not in self.hosts:
            return 421, "This server answers to 127.0.0.1 only."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        if origin is not None and origin not in self.origins:
            return 403, "Pages of another origin may not talk to the studio."
        opened = scope["path"] == "/" and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if site not in ("same-origin", "none") and not opened:
            return 403, "Pages of another origin may not talk to the studio."
        if scope["method"] not in ("GET", "HEAD"):
            length = headers.get("content-length", "")
            if not (length.isascii() and length.isdigit()) or len(length) > 12:
                return 411, "Say how long the request is."
            if int(length) > self.uploads.get(scope["path"], BODY):
                return 413, "That is too large."
        return None

    def knows(self, headers: Headers) -> bool:
        """Whether the token is in the cookie or in the header that programs send."""
        if not self.token:
            return True
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except Exception:  # a neighbour's cookies may be anything
            return same(bearer, self.token)
        return same(jar[self.cookie].value if self.cookie in jar else bearer, self.token)


def same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
