"""What the library itself wrote, in a stranger's hands since: runs, recipes' results, models, checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from fuzz.reader import Reader
from fuzz.reads_texts import OLD, deep_json

WORLD = "world:classes=12,images=10,size=16"


def _copy(name: str):
    def make(folder: Path) -> None:
        shutil.copytree(OLD / name, folder / "it")

    return make


def _read_run(folder: Path) -> None:
    from handful.report.entries import gather
    from handful.runs.replay import replay_rule
    from handful.runs.run import Run

    run = Run.open(folder / "it")
    str(run), run.as_dict(), run._repr_html_()
    run.compare(run)
    gather([folder / "it"])
    replay_rule(run).draw(0, 0)


def _read_recipe_results(folder: Path) -> None:
    from handful.report.entries import gather

    for entry in gather([folder / "it"]).entries:
        str(entry.run)


def _rule():
    import handful as hf

    return hf.tasks.NWay(hf.open(WORLD).test, 2, 1, 2)


def _killed(folder: Path) -> None:
    """An evaluation that was stopped after its first chunk of three."""
    import handful as hf
    from handful.runs import store

    class Stop(Exception):
        pass

    add = store.RunFolder.add

    def once(self, chunk, frame):
        add(self, chunk, frame)
        raise Stop

    store.RunFolder.add = once
    try:
        hf.evaluate("nearest-centroid", _rule(), n=130, seed=3, out=folder / "it")
    except Stop:
        pass
    finally:
        store.RunFolder.add = add


def _go_on(folder: Path) -> None:
    import handful as hf

    run = hf.evaluate("nearest-centroid", _rule(), n=130, seed=3, out=folder / "it")
    str(run)
    shutil.rmtree(folder / "it")


def _read_model(folder: Path) -> None:
    import handful as hf

    rule = _rule()
    task = rule.read(rule.draw(0, 0))
    scores = hf.load(folder / "it").fit(task.support).predict(task.query)
    assert scores.shape == (len(task.labels), 2)


def _photos(folder: Path) -> None:
    from handful.photos.model import fit

    rng = np.random.default_rng(0)
    tones = {"dark": 60, "light": 190}
    pictures = {
        name: [np.clip(rng.normal(t, 20, (40, 40, 3)), 0, 255).astype(np.uint8) for _ in range(6)]
        for name, t in tones.items()
    }
    fit(pictures, net="pixels").save(folder / "it")


def _read_photos(folder: Path) -> None:
    from handful.photos.model import load

    model = load(folder / "it")
    str(model.report)
    answers = model.predict(np.full((1, 40, 40, 3), 60, np.uint8))
    str(answers)


def _method():
    from handful.methods.contract import make

    return make(
        "protonet", net="conv4:filters=4", **{"schedule.steps": 2, "schedule.tasks": 1, "schedule.validate_every": 1}
    )


def _checkpoint(folder: Path) -> None:
    import handful as hf

    rule = hf.tasks.NWay(hf.open(WORLD).train, 2, 1, 2)
    _method().meta_fit(rule, rule, keep=folder / "it")


def _resume(folder: Path) -> None:
    import handful as hf

    rule = hf.tasks.NWay(hf.open(WORLD).train, 2, 1, 2)
    _method().meta_fit(rule, rule, keep=folder / "it")


READERS = [
    Reader("run", _copy("run"), _read_run, known=deep_json("it/run.json")),
    Reader("run-clustering", _copy("clustering"), _read_run),
    Reader("recipe-results", _copy("recipe"), _read_recipe_results, r"recipe\.json|run\.json|tasks", deep_json("it/recipe.json")),
    Reader("run-parts", _killed, _go_on, known=deep_json("it/run.json")),
    Reader("model", _copy("model"), _read_model, known=deep_json("it/model.json")),
    Reader("photo-model", _photos, _read_photos, known=deep_json("it/model.json")),
    Reader("checkpoint", _checkpoint, _resume, r"checkpoint"),
]  # fmt: skip
