"""handful challenge serve, work, submit, export: the verbs around the web service."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Json, emit, usable_folder
from handful.errors import BadInput

Folder = Annotated[Path, typer.Argument(help="Folder that holds challenge.toml.")]
State = Annotated[Path | None, typer.Option("--state", help="Where uploads, runs and results go (FOLDER/state).")]
Url = Annotated[str | None, typer.Option("--database", help="SQLAlchemy URL (a SQLite file in the state folder).")]
Files = Annotated[
    str,
    typer.Option("--storage", help="Address that fsspec knows (s3://bucket/x) for archives and results, if shared."),
]
Trust = Annotated[bool, typer.Option("--trust", help="Run code of your own without containment.")]


def opened(folder: Path) -> tuple[Any, Path]:
    """A challenge and the folder it is in."""
    from handful.challenge.spec_file import read

    path = folder if folder.is_file() else folder / "challenge.toml"
    return read(path), path.parent


def database_of(url: str | None, state: Path) -> Any:
    """The database of a URL, else a SQLite file in the state folder."""
    from handful.errors import require

    require("sqlalchemy", "serve")
    from handful.challenge.db import Database

    state.mkdir(parents=True, exist_ok=True)
    return Database(url or f"sqlite:///{state.resolve() / 'challenge.sqlite'}")


def serve(
    folder: Folder,
    host: Annotated[str, typer.Option("--host")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    database: Url = None,
    state: State = None,
    https: Annotated[
        bool, typer.Option("--https", help="Behind a proxy that speaks TLS: mark cookies secure.")
    ] = False,
    registrations: Annotated[
        int,
        typer.Option("--registrations", min=1, help="Accounts from one address in 15 minutes before each must wait."),
    ] = 30,
    organiser: Annotated[
        list[str] | None, typer.Option("--organiser", help="Organiser's account, made if it is new; may be repeated.")
    ] = None,
    storage: Files = "",
    behind_proxy: Annotated[
        str | None,
        typer.Option("--behind-proxy", help="Address of a reverse proxy whose X-Forwarded headers are believed."),
    ] = None,
) -> None:
    """Serve the challenge's pages; submissions are run by `handful challenge work`.

    Example: handful challenge serve flowers --organiser ann
    """
    from handful.errors import require

    uvicorn = require("uvicorn", "serve")
    from handful.challenge import accounts
    from handful.challenge.service import make_app

    challenge, root = opened(folder)
    place = (state or root / "state").resolve()
    data = database_of(database, place)
    service = make_app(
        challenge,
        data,
        root,
        place,
        https=https or bool(behind_proxy),
        registrations=registrations,
        storage=storage,
    )
    password = os.environ.get("HANDFUL_ORGANISER_PASSWORD")
    for name in organiser or ():
        with data.writing() as session:
            drawn = accounts.ensure_organiser(session, name, password)
        if drawn:
            print(f"organiser {name}, password {drawn}")
    shown = f"[{host}]" if ":" in host else host
    print(f"serving {challenge.title!r} on http://{shown}:{port}", flush=True)
    trusted = {"proxy_headers": True, "forwarded_allow_ips": behind_proxy} if behind_proxy else {"proxy_headers": False}
    uvicorn.run(service, host=host, port=port, log_level="warning", **trusted)


def work(
    folder: Folder,
    database: Url = None,
    state: State = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Exit when the queue is empty.")] = False,
    storage: Files = "",
    environment: Annotated[
        list[str] | None, typer.Option("--environment", help="Environment that this worker is; may be repeated.")
    ] = None,
    devices: Annotated[
        str, typer.Option("--devices", help="NVIDIA devices that submissions may use, such as 0,1; none by default.")
    ] = "",
    trust: Trust = False,
) -> None:
    """Take submissions from the queue and run them, until stopped.

    Examples:

    handful challenge work flowers

    handful challenge work flowers --database postgresql://db.example.org/flowers --storage s3://flowers/files
    """
    from handful.challenge.storage import Storage
    from handful.challenge.walls import cards, detect
    from handful.challenge.worker import Worker

    challenge, root = opened(folder)
    chosen = _numbers(devices)
    cards(chosen)
    if not trust:
        detect()
    place = (state or root / "state").resolve()
    leagues = challenge.leagues_in(environment or [], chosen) if challenge.environments else None
    files = Storage(place, storage)
    worker = Worker(
        database_of(database, place),
        challenge,
        root,
        place,
        trust=trust,
        leagues=leagues,
        devices=chosen,
        storage=files,
    )
    worker.handle_signals()
    done = worker.forever(until_empty=until_empty)
    print(f"finished {done} submissions")


def _numbers(devices: str) -> tuple[int, ...]:
    """``0,1`` as numbers, each once."""
    parts = [part.strip() for part in devices.split(",")] if devices else []
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise BadInput(f"--devices {devices!r} is not a list of numbers; write for example --devices 0,1")
    return tuple(dict.fromkeys(map(int, parts)))


def submit(
    url: Annotated[str, typer.Argument(help="Address of the service.")],
    archive: Annotated[Path, typer.Argument(help="Zip, or a folder with model.py.")],
    league: Annotated[str, typer.Option("--league")],
    token: Annotated[
        str | None, typer.Option("--token", envvar="HANDFUL_TOKEN", help="API token of your account.")
    ] = None,
    name: Annotated[str, typer.Option("--name")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the score.")] = False,
    json: Json = False,
) -> None:
    """Hand a submission in.

    Example: handful challenge submit https://challenge.example.org my.zip --league free-style --wait
    """
    import tempfile
    import time

    from handful.challenge.archive import pack_folder
    from handful.errors import Missing, require

    httpx = require("httpx", "serve")
    if not token:
        raise Missing("there is no API token; make one on your account page and set HANDFUL_TOKEN")
    with tempfile.TemporaryDirectory() as place:
        path = pack_folder(archive, Path(place) / "submission.zip") if archive.is_dir() else archive
        if not path.is_file():
            raise BadInput(f"{archive} is not there; give a zip or a folder with model.py")
        headers = {"Authorization": f"Bearer {token}"}
        base = url.rstrip("/")
        try:
            with open(path, "rb") as file, httpx.Client(headers=headers, timeout=300) as client:
                answer = client.post(
                    f"{base}/api/submissions",
                    data={"league": league, "name": name or archive.stem},
                    files={"archive": (path.name, file, "application/zip")},
                )
                facts = _answer(answer, url)
                while wait and facts["status"] in ("queued", "running"):
                    time.sleep(2)
                    facts = _answer(client.get(f"{base}/api/submissions/{facts['id']}"), url)
        except httpx.HTTPError as error:
            raise BadInput(f"{url} does not answer ({type(error).__name__}); check the address") from error
    if json:
        emit(facts)
    else:
        tail = f", score {facts['score']:.4f}" if facts["score"] is not None else f" {facts['code']}".rstrip()
        print(f"submission {facts['id']}: {facts['status']}{tail}")


def _answer(answer: Any, url: str) -> dict[str, Any]:
    try:
        facts = answer.json()
    except ValueError:
        facts = {"error": answer.text[:200]}
    if answer.status_code != 200:
        raise BadInput(str(facts.get("error") or f"{url} answered {answer.status_code}").rstrip("."))
    return facts


def export(
    folder: Folder,
    league: Annotated[str | None, typer.Option("--league")] = None,
    phase: Annotated[str, typer.Option("--phase", help="Phase by name (the first that takes submissions).")] = "",
    tables: Annotated[
        Path | None, typer.Option("--tables", help="Also write tables and the difficulty figure here.")
    ] = None,
    site: Annotated[
        Path | None, typer.Option("--site", help="Write the results as static files: a page with figures, tables.")
    ] = None,
    beside: Annotated[
        Path | None, typer.Option("--beside", help="Another challenge whose results the page shows beside these.")
    ] = None,
    database: Url = None,
    state: State = None,
) -> None:
    """Print a leaderboard as CSV; with --tables, its entries side by side by ways, shots and data set, and difficulty.

    Examples:

    handful challenge export flowers --phase final --league free-style --tables tables/

    handful challenge export flowers --phase final --site results/ --beside flowers-within
    """
    from handful.challenge.rules import leaderboard
    from handful.challenge.tables import export_csv, write_tables

    challenge, root = opened(folder)
    if league:
        challenge.league(league)
    challenge.phase(phase or challenge.ranked[0])
    usable_folder(tables, "--tables")
    usable_folder(site, "--site")
    if beside is not None:
        opened(beside)
    place = (state or root / "state").resolve()
    data = database_of(database, place)
    data.create()
    chosen = league or challenge.leagues[0].name
    with data.reading() as session:
        phase = phase or challenge.ranked[0]
        challenge.phase(phase)
        lines = leaderboard(session, challenge, phase, chosen)
    print(export_csv(lines), end="")
    if tables is not None:
        write_tables(_kept(lines, place), tables)
    if site is not None:
        from handful.challenge.season_page import write_site

        seasons = [_season(challenge, phase, data, place)]
        if beside is not None:
            other, where = opened(beside)
            theirs = where.resolve() / "state"
            seasons.append(
                _season(other, other.final if phase == challenge.final else phase, database_of(None, theirs), theirs)
            )
        print(f"wrote {write_site(seasons, site)}", file=sys.stderr)


def _kept(lines: Any, state: Path) -> dict[str, Any]:
    """The tables of the entries on a leaderboard, as far as they were kept."""
    from handful.frames import read_frame

    files = {line.name: state / "results" / str(line.submission) / "named" / "tasks.parquet" for line in lines}
    return {name: read_frame(path) for name, path in files.items() if path.is_file()}


def _season(challenge: Any, phase: str, data: Any, state: Path) -> Any:
    from handful.challenge.rules import entries_of, leaderboard
    from handful.challenge.season_page import Season

    challenge.phase(phase)
    with data.reading() as session:
        found = entries_of(session, challenge, phase)
        boards = {x.name: leaderboard(session, challenge, phase, x.name, found) for x in challenge.leagues}
    frames = {name: frame for lines in boards.values() for name, frame in _kept(lines, state).items()}
    return Season(challenge, phase, boards, frames)


def password(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Name of the account.")],
    database: Url = None,
    state: State = None,
) -> None:
    """Set a new random password for an account and print it; its logins and tokens end.

    Example: handful challenge password flowers ann
    """
    from sqlalchemy import select

    from handful.challenge import accounts
    from handful.challenge.db import User

    _, root = opened(folder)
    data = database_of(database, (state or root / "state").resolve())
    data.create()
    new = secrets.token_urlsafe(12)
    hashed = accounts.hash_password(new)
    with data.writing() as session:
        user = session.scalars(select(User).where(User.name == name)).first()
        if user is None:
            raise BadInput(f"there is no account named {name!r}")
        accounts.set_password(session, user, hashed)
    print(f"{name}, password {new}")
