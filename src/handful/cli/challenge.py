"""handful challenge"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Json, Set, emit, parse_settings
from handful.errors import BadInput

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Competitions with code submissions.")

Folder = Annotated[Path, typer.Argument(help="Folder that holds challenge.toml.")]
State = Annotated[Path | None, typer.Option("--state", help="Where uploads, runs and results go (FOLDER/state).")]
Url = Annotated[str | None, typer.Option("--database", help="SQLAlchemy URL (a SQLite file in the state folder).")]
Trust = Annotated[bool, typer.Option("--trust", help="Run code of your own without containment.")]


def _open(folder: Path) -> tuple[Any, Path]:
    from handful.challenge.spec import read

    path = folder if folder.is_file() else folder / "challenge.toml"
    return read(path), path.parent


def _database(url: str | None, state: Path) -> Any:
    from handful.errors import require

    require("sqlalchemy", "serve")
    from handful.challenge.db import Database

    state.mkdir(parents=True, exist_ok=True)
    return Database(url or f"sqlite:///{state.resolve() / 'challenge.sqlite'}")


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
    title: Annotated[str, typer.Option("--title", help="Title of the challenge.")] = "Any-way any-shot challenge",
) -> None:
    """Make a folder with a challenge.toml to edit and a sample submission.

    Example: handful challenge new flowers --title "Flowers from a few photographs"
    """
    import re
    from importlib import resources

    from handful.challenge.spec import PHASES, TEMPLATE
    from handful.data.store import write_atomically

    path = folder / "challenge.toml"
    if path.exists():
        raise BadInput(f"{path} exists already; edit it, or name another folder")
    name = re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-")[:40] or "challenge"
    folder.mkdir(parents=True, exist_ok=True)
    text = TEMPLATE.format(name=name, title=title.replace("\\", "").replace('"', "'"))
    for phase in PHASES:
        (folder / "data" / phase).mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda t: t.write_text(text, encoding="utf-8"))
    sample = (resources.files("handful") / "challenge/starting_kit/model.py").read_text(encoding="utf-8")
    (folder / "sample").mkdir(exist_ok=True)
    write_atomically(folder / "sample/model.py", lambda t: t.write_text(sample, encoding="utf-8"))
    print(
        f"wrote {path}; put data sets in Meta-Album's layout under {folder / 'data'}, then: handful challenge validate {folder}"
    )


@app.command()
def validate(
    folder: Folder,
    final: Annotated[bool, typer.Option("--final", help="Read the final data too.")] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Check challenge.toml (file and line are named) and that its tasks can be drawn from the data.

    Example: handful challenge validate flowers
    """
    from handful.challenge.sandbox import check_hidden, missing_reason
    from handful.challenge.sources import Data

    challenge, root = _open(folder)
    data = Data(challenge, root, state or root / "state")
    check_hidden([data.where("feedback"), data.where("final")])
    facts: dict[str, Any] = {"challenge": challenge.name, "phases": {}}
    for phase in ("public", "feedback", "final"):
        if phase == "final" and not final:
            facts["phases"][phase] = "not read before the final phase (--final reads it)"
            continue
        stages = data.stages(phase, phase, seed=0)
        sets = sorted({name for stage in stages for name in stage.source.datasets()})
        facts["phases"][phase] = {"datasets": sets, "id": data.collection(phase, phase).id}
    facts["containment"] = missing_reason() or "ready"
    if json:
        emit(facts)
        return
    for phase, found in facts["phases"].items():
        print(f"{phase:<9} {found if isinstance(found, str) else ', '.join(found['datasets'])}")
    print(f"containment: {facts['containment']}")


@app.command()
def run(
    folder: Folder,
    submission: Annotated[Path, typer.Argument(help="Submission: a folder with model.py, or a zip.")],
    phase: Annotated[str, typer.Option("--phase", help="public, feedback or final.")] = "feedback",
    league: Annotated[str | None, typer.Option("--league", help="League whose rules apply.")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", "--n", help="Tasks a data set.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Seeds; the worst counts.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", help="Secret in hex, to repeat a run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for scores and the results page.")] = None,
    state: State = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Run one submission as the service would, on this machine, and print its score.

    Example: handful challenge run flowers my-submission.zip --phase public --tasks 20
    """
    import shutil
    import tempfile

    from handful.challenge.running import execute, write_run
    from handful.challenge.sources import Data
    from handful.challenge.spec import PHASES

    challenge, root = _open(folder)
    if phase not in PHASES:
        raise BadInput(f"there is no phase {phase!r}; use public, feedback or final")
    if not submission.exists():
        raise BadInput(f"{submission} is not there; give a folder with model.py or a zip")
    if out is not None and out.exists():
        raise BadInput(f"{out} exists already; name another folder")
    try:
        key = bytes.fromhex(secret) if secret else secrets.token_bytes(32)
    except ValueError as error:
        raise BadInput("--secret takes hexadecimal digits, as an earlier run printed them") from error
    data = Data(challenge, root, state or root / "state")
    allowed = challenge.league(league).pretrained if league else True

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done}/{total} tasks", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="handful-run-") as place:
        workspace = Path(place)
        outcome = execute(
            data,
            phase,
            submission,
            workspace,
            secret=key,
            pretrained=allowed,
            trust=trust,
            tasks=tasks,
            seeds=seeds,
            progress=progress,
        )
        if sys.stderr.isatty():
            print(file=sys.stderr)
        if outcome.failure is not None:
            failure = outcome.failure
            emit({"failure": outcome.told, "secret": key.hex()}) if json else print(
                f"{failure.code} in {failure.phase}: {failure.message}\n{failure.log}".rstrip(), file=sys.stderr
            )
            raise typer.Exit(1)
        if out is not None:
            shutil.copytree(workspace / "results", out)
            write_run(outcome, data, phase, submission.stem, out / "run")
    if json:
        emit({**outcome.facts, "secret": key.hex()})
        return
    low, high = outcome.facts["interval"]
    print(f"score {outcome.score:.4f}  (95% {low:.4f} to {high:.4f}, over tasks; {outcome.seconds:.0f} s)")
    for name, each in outcome.facts["by_dataset"].items():
        print(f"  {name:<24} {each['value']:.4f}")
    print(f"secret {key.hex()}")


@app.command()
def pack(
    method: Annotated[str, typer.Argument(help="Method by name (handful ls methods), or a baseline: see --baseline.")],
    out: Annotated[Path, typer.Argument(help="Zip to write.")],
    setting: Set = None,
    weights: Annotated[Path | None, typer.Option("--weights", help="State dict for the backbone.")] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="Take the paper's hyper-parameters.")] = False,
    within: Annotated[
        bool, typer.Option("--within-domain", help="The paper's shorter training within a domain.")
    ] = False,
    validation: Annotated[int, typer.Option("--validation-datasets", help="Training data sets held out.")] = 0,
) -> None:
    """Make a submission out of any learner of the library.

    Example: handful challenge pack protonet protonet.zip -s net=conv4 -s schedule.steps=500
    """
    from handful.challenge.baselines import baseline as configured
    from handful.challenge.packing import pack_method

    options = parse_settings(setting)
    chosen: Any = method
    more: dict[str, Any] = {}
    if baseline:
        chosen, more = configured(method, pretrained=weights is not None, within_domain=within, **options)
        options = {}
        validation = validation or more.pop("validation_datasets", 0)
    more.pop("validation_datasets", None)
    pack_method(chosen, out, options=options, weights=weights, validation_datasets=validation, **more)
    print(f"wrote {out}")


@app.command()
def serve(
    folder: Folder,
    host: Annotated[str, typer.Option("--host")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port")] = 8000,
    database: Url = None,
    state: State = None,
    https: Annotated[
        bool, typer.Option("--https", help="Behind a proxy that speaks TLS: mark cookies secure.")
    ] = False,
    organiser: Annotated[
        str | None, typer.Option("--organiser", help="Make an organiser's account of this name.")
    ] = None,
) -> None:
    """Serve the challenge's pages; submissions are run by `handful challenge work`.

    Example: handful challenge serve flowers --organiser ann
    """
    from handful.errors import require

    uvicorn = require("uvicorn", "serve")
    from handful.challenge import accounts
    from handful.challenge.service import make_app

    challenge, root = _open(folder)
    place = (state or root / "state").resolve()
    data = _database(database, place)
    service = make_app(challenge, data, root, place, https=https)
    if organiser:
        password = os.environ.get("HANDFUL_ORGANISER_PASSWORD") or secrets.token_urlsafe(12)
        with data.writing() as session:
            accounts.register(session, organiser, password, f"{organiser}@example.org", organiser, "organiser")
        if "HANDFUL_ORGANISER_PASSWORD" not in os.environ:
            print(f"organiser {organiser}, password {password}")
    uvicorn.run(service, host=host, port=port, log_level="warning")


@app.command()
def work(
    folder: Folder,
    database: Url = None,
    state: State = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Leave when the queue is empty.")] = False,
    trust: Trust = False,
) -> None:
    """Take submissions from the queue and run them, until stopped.

    Example: handful challenge work flowers
    """
    from handful.challenge.sandbox import detect
    from handful.challenge.worker import Worker

    challenge, root = _open(folder)
    if not trust:
        detect()
    place = (state or root / "state").resolve()
    worker = Worker(_database(database, place), challenge, root, place, trust=trust)
    worker.handle_signals()
    done = worker.forever(until_empty=until_empty)
    print(f"finished {done} submissions")


@app.command()
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


@app.command()
def export(
    folder: Folder,
    league: Annotated[str | None, typer.Option("--league")] = None,
    phase: Annotated[str, typer.Option("--phase")] = "feedback",
    tables: Annotated[
        Path | None, typer.Option("--tables", help="Also write tables and the difficulty figure here.")
    ] = None,
    database: Url = None,
    state: State = None,
) -> None:
    """Print a leaderboard as CSV; with --tables, its entries side by side by ways, shots and data set, and difficulty.

    Example: handful challenge export flowers --phase final --league free-style --tables tables/
    """
    from handful.challenge.rules import leaderboard
    from handful.challenge.web.public import export_csv
    from handful.challenge.tables import write_tables

    challenge, root = _open(folder)
    place = (state or root / "state").resolve()
    data = _database(database, place)
    data.create()
    chosen = league or challenge.leagues[0].name
    with data.reading() as session:
        print(export_csv(session, challenge, phase, chosen), end="")
        lines = leaderboard(session, challenge, phase, chosen)
    if tables is not None:
        import polars as pl

        files = {line.name: place / "results" / str(line.submission) / "tasks.parquet" for line in lines}
        write_tables({name: pl.read_parquet(path) for name, path in files.items() if path.is_file()}, tables)
