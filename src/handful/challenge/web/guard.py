"""What every request passes first: its body is bounded in bytes and time, its answer carries the same headers.

A body is taken before any lock or connection of the database is, so that a sender who goes silent stops nobody else.
"""

from __future__ import annotations

import logging

import anyio
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handful.challenge.web.refused import Refused

log = logging.getLogger("handful.challenge.service")
UPLOADS = ("/submissions", "/api/submissions")
FORM_BYTES = 1 << 18
_BYTES_PER_SECOND = 1 << 17
_LINGER = 2.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The outermost layer of the service; ``patience`` is how many seconds a form may take to arrive."""

    def __init__(self, app: ASGIApp, upload_mb: int, patience: float) -> None:
        self.app, self.upload_mb, self.patience = app, upload_mb, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body = Body(receive)
        answer = Answer(send, body)
        try:
            if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
                raise Refused(404, "There is no such page.")
            if scope["method"] == "POST":
                await self.admit(scope, body)
            await self.app(scope, body.receive, answer.send)
        except ClientDisconnect:
            return None
        except Refused as error:
            await refusal(scope["path"], error)(scope, body.receive, answer.send)
        except Exception:
            log.exception("%s %s broke", scope["method"], scope["path"])
            if answer.begun:
                raise
            sentence = "Something broke on our side; the organisers can read about it in the log."
            await refusal(scope["path"], Refused(500, sentence))(scope, body.receive, answer.send)

    async def admit(self, scope: Scope, body: Body) -> None:
        """Refuse a body that is too long; take a form whole, and give an upload a limit and a deadline."""
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        # Of a length and chunks together the server believes the chunks, so the length would prove nothing.
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
            raise Refused(411, "Say how long the request is, and do not send it in chunks.")
        upload = scope["path"] in UPLOADS
        body.limit = (self.upload_mb << 20) + FORM_BYTES if upload else FORM_BYTES
        body.too_long = Refused(413, f"The upload is larger than {self.upload_mb} MB.")
        if not upload:
            body.too_long = Refused(413, f"The form is larger than {FORM_BYTES >> 10} KB.")
        if len(length) > 15 or int(length) > body.limit:
            raise body.too_long
        seconds = self.patience + (int(length) / _BYTES_PER_SECOND if upload else 0)
        body.deadline = anyio.current_time() + seconds
        if not upload:
            await body.take()
            # No database keeps a NUL in a text, and no form of ours has one.
            if b"\x00" in (body.kept or b"") or b"%00" in (body.kept or b""):
                raise Refused(422, "The form holds a character that text cannot have.")


class Body:
    """The body of a request as it comes in: counted, timed, and kept if it was taken before the handler runs."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.limit, self.deadline = 0, float("inf")
        self.too_long = Refused(413, "The request is too long.")
        self.size, self.ended = 0, False
        self.kept: bytes | None = None

    async def receive(self) -> Message:
        """The next piece, or what was kept."""
        if self.kept is not None:
            kept, self.kept = self.kept, None
            return {"type": "http.request", "body": kept, "more_body": False}
        if self.ended or self.deadline == float("inf"):
            return await self._next()
        with anyio.move_on_after(self.deadline - anyio.current_time()):
            message = await self._next()
            if self.size > self.limit:
                raise self.too_long
            return message
        raise Refused(408, "The request came in too slowly; send it again.")

    async def _next(self) -> Message:
        message = await self._receive()
        self.size += len(message.get("body", b""))
        self.ended = self.ended or message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def take(self) -> None:
        """Read the body whole."""
        pieces = []
        while not self.ended:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
        self.kept = b"".join(pieces)

    async def discard(self) -> None:
        """Read on for a moment without keeping anything: closing at once would tear the answer away from the sender."""
        with anyio.move_on_after(_LINGER):
            while not self.ended:
                await self._next()


class Answer:
    """The way out: the same headers on everything, and a refused upload may finish talking before the line is cut."""

    def __init__(self, send: Send, body: Body) -> None:
        self._send, self._body, self.begun = send, body, False

    async def send(self, message: Message) -> None:
        """Pass a piece of the answer on."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        cut = message["type"] == "http.response.body" and not message.get("more_body", False)
        if cut and self._body.deadline != float("inf") and not self._body.ended:
            await self._send({**message, "more_body": True})
            await self._body.discard()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)


def refusal(path: str, error: Refused) -> Response:
    """A refusal in one sentence, for programs as JSON."""
    if path.startswith("/api/"):
        return JSONResponse({"error": error.sentence}, error.status, error.headers)
    return PlainTextResponse(error.sentence, error.status, error.headers)
