"""handful challenge"""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli import challenge_service
from handful.cli.challenge_service import Folder, State, Trust, opened
from handful.cli.options import Json, Set, emit, parse_settings, usable_folder
from handful.errors import BadInput

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Competitions with code submissions.")


def slug(folder: Path) -> str:
    """A challenge's name after its folder's."""
    return re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-")[:40] or "challenge"


def make(folder: Path, files: dict[str, str]) -> None:
    """A new challenge's folder with these files and empty folders for the data of its phases."""
    from handful.challenge.spec_file import read
    from handful.files import write_atomically

    path = folder / "challenge.toml"
    if path.exists():
        raise BadInput(f"{path} exists already; edit it, or name another folder")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, lambda t, text=text: t.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    for phase in read(path).phases.values():
        if not Path(phase.data).is_absolute():
            (folder / phase.data).mkdir(parents=True, exist_ok=True)


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
    title: Annotated[str, typer.Option("--title", help="Title of the challenge.")] = "Any-way any-shot challenge",
) -> None:
    """Make a folder with a challenge.toml to edit and a sample submission.

    Example: handful challenge new flowers --title "Flowers from a few photographs"
    """
    from handful.challenge.handouts import SAMPLE
    from handful.challenge.spec_file import TEMPLATE

    text = TEMPLATE.format(name=slug(folder), title=title.replace("\\", "").replace('"', "'"))
    make(folder, {"challenge.toml": text, "sample/model.py": SAMPLE.read_text(encoding="utf-8")})
    print(
        f"wrote {folder / 'challenge.toml'}; put data sets in Meta-Album's layout under {folder / 'data'}, then: handful challenge validate {folder}"
    )


@app.command()
def clone(
    folder: Folder,
    to: Annotated[Path, typer.Argument(help="Folder to make.")],
    title: Annotated[str | None, typer.Option("--title", help="Title of the new challenge.")] = None,
) -> None:
    """Make a new challenge like another one: its file without dates, its rules and sample; no data, accounts or results.

    Example: handful challenge clone flowers flowers-2027 --title "Flowers, second season"
    """
    from handful.challenge.spec_file import read

    challenge, root = opened(folder)
    source = folder if folder.is_file() else folder / "challenge.toml"
    text = re.sub(r"(?m)^(begins|ends)\s*=.*\n", "", source.read_text(encoding="utf-8"))
    for key, value in (("name", slug(to)), ("title", (title or challenge.title).replace("\\", "").replace('"', "'"))):
        text = re.sub(rf"(?m)^{key}\s*=.*$", lambda _, k=key, v=value: f'{k} = "{v}"', text, count=1)  # type: ignore[misc]
    files = {"challenge.toml": text}
    for name in (challenge.rules, "sample/model.py"):
        if (root / name).is_file() and (root / name).resolve().is_relative_to(root.resolve()):
            files[name] = (root / name).read_text(encoding="utf-8")
    make(to, files)
    read(to / "challenge.toml")
    print(f"wrote {to / 'challenge.toml'}; put new data under {to / 'data'}")


@app.command()
def codabench(
    bundle: Annotated[Path, typer.Argument(help="Codabench bundle: a folder with competition.yaml.")],
    to: Annotated[Path, typer.Argument(help="Folder to make.")],
) -> None:
    """Make a challenge of a Codabench bundle, as far as it maps; what does not is named.

    Example: handful challenge codabench bundle/ flowers
    """
    from handful.challenge.archive import clean_name
    from handful.challenge.codabench import convert
    from handful.challenge.spec_file import read

    text, rules, left = convert(bundle, slug(to))
    make(to, {"challenge.toml": text, **({"rules.md": rules} if rules else {})})
    read(to / "challenge.toml")
    print(f"wrote {to / 'challenge.toml'}; put data sets under {to / 'data'}")
    for each in left:
        print(f"not taken over: {clean_name(each, 200)}")


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
    from handful.challenge.sources import Data
    from handful.challenge.walls import check_hidden, missing_reason

    challenge, root = opened(folder)
    data = Data(challenge, root, state or root / "state")
    check_hidden([data.where(phase) for phase in challenge.ranked])
    facts: dict[str, Any] = {"challenge": challenge.name, "phases": {}}
    for phase in challenge.phases:
        if phase == challenge.final and not final:
            facts["phases"][phase] = "not read before the final phase (--final reads it)"
            continue
        stages = data.stages(phase, phase, seed=0)
        sets = sorted({name for stage in stages for name in stage.rules})
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
    phase: Annotated[str, typer.Option("--phase", help="Phase by name (the first that takes submissions).")] = "",
    league: Annotated[str | None, typer.Option("--league", help="League whose rules apply.")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", "--n", min=1, help="Tasks per data set.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Seeds; the worst counts.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", help="Secret in hex, to repeat a run.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the run, its scores and the results page.")
    ] = None,
    state: State = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Run one submission as the service would, on this machine, and print its score.

    Example: handful challenge run flowers my-submission.zip --phase public --tasks 20
    """
    import shutil
    import tempfile

    from handful.challenge.failures import clean_text
    from handful.challenge.running import execute
    from handful.challenge.sources import Data

    challenge, root = opened(folder)
    phase = phase or challenge.ranked[0]
    challenge.phase(phase)
    if not submission.exists():
        raise BadInput(f"{submission} is not there; give a folder with model.py or a zip")
    usable_folder(out)
    usable_folder(state, "--state")
    if out is not None and out.exists():
        raise BadInput(f"{out} exists already; name another folder")
    try:
        key = bytes.fromhex(secret) if secret else secrets.token_bytes(32)
    except ValueError as error:
        raise BadInput("--secret takes hexadecimal digits, as an earlier run printed them") from error
    data = Data(challenge, root, state or root / "state")
    chosen = challenge.league(league) if league else None

    with tempfile.TemporaryDirectory(prefix="handful-run-") as place:
        workspace = Path(place)
        outcome = execute(
            data,
            phase,
            submission,
            workspace,
            secret=key,
            pretrained=chosen.pretrained if chosen else True,
            packages=chosen.packages if chosen else (),
            trust=trust,
            tasks=tasks,
            seeds=seeds,
        )
        if outcome.failure is not None:
            failure = outcome.failure
            emit({"failure": outcome.told, "secret": key.hex()}) if json else print(
                clean_text(f"{failure.code} in {failure.phase}: {failure.message}\n{failure.log}").rstrip(),
                file=sys.stderr,
            )
            raise typer.Exit(1)
        if out is not None:
            shutil.copytree(workspace / "results", out)
    if json:
        emit({**outcome.facts, "secret": key.hex()})
        return
    from handful.metrics.base import SHOWN

    low, high = outcome.facts["interval"]
    spread = "one task, no interval" if low is None else f"{SHOWN} {low:.4f} to {high:.4f}, over tasks"
    print(f"score {outcome.score:.4f}  ({spread}; {outcome.seconds:.0f} s)")
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
    validation: Annotated[int, typer.Option("--validation-datasets", min=0, help="Training data sets held out.")] = 0,
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


app.command("serve")(challenge_service.serve)
app.command("work")(challenge_service.work)
app.command("submit")(challenge_service.submit)
app.command("export")(challenge_service.export)
app.command("password")(challenge_service.password)
