"""The front door: every public name is listed, typed and lazy; a misspelt one is an error before the program runs."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import handful as hf
from handful import door, registry

RIGHT = """
import handful as hf

birds: hf.Collection = hf.open("world:classes=12")
tasks = hf.tasks.AnyWay(birds.test, ways=(2, 5), shots=3)
more: list[hf.tasks.Rule] = [hf.tasks.WholeGroup(birds.test), hf.tasks.OODConflict(birds.test)]
method = hf.methods.ProtoNet(net="conv4", schedule=hf.Schedule(steps=10, optimiser="sgd"))
run: hf.Run = hf.evaluate(method, tasks, n=10, metrics="accuracy")
named: hf.Run = hf.evaluate("protonet", birds)
print(run.estimate().half, hf.metrics.Accuracy().main, hf.nets.Conv4((16, 16, 3)).width, hf.audits.Power, hf.methods.RFS)
"""
WRONG = {
    "hf.evalute": 'has no attribute "evalute"',
    "hf.methods.ProtoNett": 'has no attribute "ProtoNett"',
    "hf.tasks.NWays": 'has no attribute "NWays"',
    "hf.metrics.Acuracy": 'has no attribute "Acuracy"',
    "hf.nets.Conv5": 'has no attribute "Conv5"',
    "hf.audits.Pwer": 'has no attribute "Pwer"',
    'hf.Schedule(optimiser="rmsprop")': 'incompatible type "Literal',
    'hf.methods.NearestCentroid(distance="manhattan")': 'incompatible type "Literal',
    "hf.methods.ProtoNet(nett='conv4')": 'keyword argument "nett"',
    "hf.tasks.NWay(hf.world())": 'incompatible type "World"',
}


@pytest.mark.parametrize("package", door.NAMES)
def test_the_stub_is_up_to_date_with_the_registry(package):
    """If this fails: python -c "from handful.door import write; write()"."""
    assert door.stub_path(package).read_text(encoding="utf-8") == door.stub(package)


@pytest.mark.parametrize("package", door.NAMES)
def test_every_name_is_listed_and_is_what_the_registry_says(package):
    module = importlib.import_module(package)
    kind = door.KINDS.get(package)
    for name in registry.names(kind) if kind else ():
        cls = registry.get(kind, name)
        assert cls.__name__ in dir(module) and getattr(module, cls.__name__) is cls
    for name in door.NAMES[package]:
        assert name in dir(module) and getattr(module, name) is not None


def test_a_name_that_is_not_there_gets_the_nearest():
    with pytest.raises(AttributeError, match="did you mean ProtoNet"):
        getattr(hf.methods, "ProtoNet" + "t")
    with pytest.raises(AttributeError, match="did you mean evaluate"):
        getattr(hf, "eval" + "ute")


def test_the_door_imports_nothing_heavy():
    code = (
        "import handful as hf, sys; dir(hf), dir(hf.methods), dir(hf.tasks)\n"
        "assert not {'torch', 'numpy', 'polars', 'pydantic', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_mypy_takes_a_right_program_and_finds_every_wrong_line(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT)
    lines = ["import handful as hf", *WRONG]
    (tmp_path / "wrong.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent"]
    cache = Path(__file__).resolve().parents[1] / ".mypy_cache"
    done = subprocess.run(
        [*command, "--cache-dir", str(cache / "door"), str(tmp_path / "right.py"), str(tmp_path / "wrong.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "right.py" not in done.stdout, done.stdout + done.stderr
    for number, (line, words) in enumerate(WRONG.items(), start=2):
        found = [x for x in done.stdout.splitlines() if x.startswith(f"wrong.py:{number}:")]
        assert any(words in x for x in found), (line, done.stdout, done.stderr)


def test_signatures_survive_the_checking():
    assert "ways" in inspect.signature(hf.tasks.NWay).parameters
    assert "filters" in inspect.signature(hf.nets.Conv4).parameters
