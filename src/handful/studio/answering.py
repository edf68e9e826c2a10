"""A classifier of photos as a small HTTP service on this machine: a photo in, an answer out."""

from __future__ import annotations

import threading
from html import escape
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from handful.data.images import BadImage, decode
from handful.data.sources import FILE_CAP
from handful.errors import require
from handful.photos.answers import Answers
from handful.photos.model import PhotoModel
from handful.studio.guard import Guard
from handful.studio.serving import listen

PATH = "/answer"


class Answer(BaseModel):
    """What a photo shows.

    Attributes
    ----------
    answer
        A class, or ``none of these``.
    nearest, probability
        The likeliest class, given that the photo is of one of them, and how likely it is.
    """

    answer: str
    nearest: str
    probability: float
    probabilities: dict[str, float]


def make_answering(model: PhotoModel, port: int) -> Guard:
    """The service of one classifier; `/openapi.json` describes it to programs, `/` to people."""
    app = FastAPI(title="handful predict", docs_url=None, redoc_url=None)
    one_at_a_time = threading.Lock()

    def answer_of(data: bytes, name: str) -> Answer:
        with one_at_a_time:
            square = decode(data, name, model.encoder.size)
            found = Answers((name,), model.classes, *model.classifier.answer(model.encoder(square[None])))
        p = found.probabilities[0]
        best = int(p.argmax())
        every = {c: float(v) for c, v in zip(model.classes, p, strict=True)}
        return Answer(
            answer=found.answers[0], nearest=model.classes[best], probability=float(p[best]), probabilities=every
        )

    @app.exception_handler(RequestValidationError)
    def misshapen(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": str(error.errors()[0]["msg"])}, 422)

    @app.exception_handler(BadImage)
    def unreadable(request: Request, error: BadImage) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    photo: dict[str, Any] = {
        "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
    }

    @app.post(PATH, openapi_extra=photo, responses={400: {"description": "Not a photo that can be read."}})
    async def answer(request: Request, name: Annotated[str, Query(max_length=200)] = "photo") -> Answer:
        """The body is the photo's file; the answer is its class with probabilities."""
        return await run_in_threadpool(answer_of, await request.body(), name)

    @app.get("/classes")
    def classes() -> list[str]:
        """The classes, in the order of training."""
        return list(model.classes)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        lines = []
        for path, verbs in app.openapi()["paths"].items():
            for verb, facts in verbs.items():
                lines.append(
                    f"<dt><code>{verb.upper()} {escape(path)}</code></dt><dd>{escape(facts['description'])}</dd>"
                )
        named = escape(", ".join(model.classes))
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>handful predict</title><h1>handful predict</h1><p>{named}</p>'
            f"<dl>{''.join(lines)}</dl><p>Try: <code>curl --data-binary @photo.jpg http://127.0.0.1:{port}{PATH}</code></p>"
            '<p>For programs: <a href="/openapi.json">openapi.json</a></p></html>'
        )

    return Guard(app, "", port, {PATH: FILE_CAP})


def serve_answers(model: PhotoModel, port: int | None) -> None:
    """Answer until stopped by the keyboard."""
    uvicorn = require("uvicorn", "serve")
    ear = listen(port)
    number = ear.getsockname()[1]
    print(f"answering on http://127.0.0.1:{number}; stop it with Ctrl-C", flush=True)
    config = uvicorn.Config(
        make_answering(model, number),
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[ear])
