"""The studio's server: what the page asks, by address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from handful.data.images import BadImage, decode
from handful.data.sources import FILE_CAP
from handful.errors import BadInput, HandfulError
from handful.report.page import CSS
from handful.studio.app_file import app_html
from handful.studio.guard import Guard
from handful.studio.kept import jpeg
from handful.studio.room import Room

PAGES = Path(__file__).parent / "pages"
LARGE = 640
Numbers = Annotated[list[int], Body(embed=True, max_length=100_000)]


def make_app(room: Room, token: str, port: int) -> Guard:
    """The application of one open folder; the guard is its outermost layer."""
    app = FastAPI(title="handful studio", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(HandfulError)
    def refused(request: Request, error: HandfulError) -> Response:
        return JSONResponse({"error": f"{error}"}, 400)

    @app.exception_handler(RequestValidationError)
    def misshapen(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return JSONResponse({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)

    @app.get("/")
    def page() -> Response:
        return FileResponse(PAGES / "page.html", media_type="text/html; charset=utf-8")

    @app.get("/shared.css")
    def shared_style() -> Response:
        return FileResponse(CSS, media_type="text/css; charset=utf-8")

    for file in (*PAGES.glob("*.css"), *PAGES.glob("*.js")):
        kind = "text/css" if file.suffix == ".css" else "text/javascript"
        app.add_api_route(f"/{file.name}", _file(file, kind), methods=["GET"])

    @app.get("/api/changes")
    def changes(since: int = 0, epoch: str = "") -> dict[str, Any]:
        return room.changes(since, epoch)

    @app.get("/api/findings")
    def findings() -> dict[str, Any]:
        return room.findings()

    @app.get("/api/map")
    def where() -> dict[str, Any]:
        return room.where()

    @app.get("/api/next")
    def next_photos(strategy: str = "auto", count: Annotated[int, Query(ge=1, le=200)] = 20) -> dict[str, Any]:
        return room.next(strategy, count)

    @app.get("/api/why/{number}")
    def why(number: int) -> dict[str, Any]:
        return room.why(number)

    @app.post("/api/label")
    def label(photos: Numbers, label: Annotated[str | None, Body(embed=True, max_length=400)] = None) -> dict[str, int]:
        return {"changed": room.label(dict.fromkeys(photos, label)), "version": room.version}

    @app.post("/api/labels")
    def labels(labels: Annotated[dict[int, str | None], Body(embed=True, max_length=100_000)]) -> dict[str, int]:
        return {"changed": room.label(labels), "version": room.version}

    @app.post("/api/undo")
    def undo() -> dict[str, int]:
        return {"changed": room.undo(), "version": room.version}

    @app.post("/api/class")
    def add_class(name: Annotated[str, Body(embed=True, max_length=400)]) -> dict[str, int]:
        room.add_class(name)
        return {"version": room.version}

    @app.post("/api/drop")
    async def drop(request: Request, name: Annotated[str, Query(max_length=2000)]) -> dict[str, Any]:
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > FILE_CAP:
                raise BadInput(f"{name[:80]} is larger than {FILE_CAP >> 20} MB")
        return {"name": await run_in_threadpool(room.album.add, name, bytes(data))}

    @app.post("/api/scan")
    def scan(last: Annotated[bool, Body(embed=True)] = True) -> dict[str, int]:
        return {"new": room.scan(last)}

    @app.get("/thumb/{number}")
    def thumb(number: int, request: Request) -> Response:
        photo = room.photo(number)
        tag = f'"{photo.stamp}"'
        kept = {"ETag": tag, "Cache-Control": "private, max-age=3600"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=kept)
        try:
            return Response(room.album.small(photo), media_type="image/jpeg", headers=kept)
        except BadImage as error:
            return JSONResponse({"error": error.reason}, 404)

    @app.get("/photo/{number}")
    def photo(number: int) -> Response:
        found = room.photo(number)
        try:
            square = decode(room.album.read(found), found.name, LARGE)
        except BadImage as error:
            return JSONResponse({"error": error.reason}, 404)
        return Response(jpeg(square, 90), media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})

    @app.get("/heat/{number}")
    def heat(number: int) -> Response:
        return Response(room.heat(number), media_type="image/png")

    @app.get("/carry/app.html")
    def one_file() -> Response:
        return _download(app_html(room.model(), room.folder.name), "classifier.html", "text/html; charset=utf-8")

    @app.get("/carry/answers.csv")
    def answers() -> Response:
        return _download(room.answers_csv(), "answers.csv", "text/csv; charset=utf-8")

    @app.get("/carry/model.zip")
    def model() -> Response:
        return _download(room.model_zip(), "model.zip", "application/zip")

    return Guard(app, token, port, {"/api/drop": FILE_CAP})


def _file(path: Path, kind: str) -> Any:
    def send() -> Response:
        return FileResponse(path, media_type=f"{kind}; charset=utf-8")

    return send


def _download(data: bytes, name: str, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
