"""Folders import only from those below them, at the top of a file and inside functions alike; modules never in a circle."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

import handful

ROOT = Path(handful.__file__).parent
# Modules that everything may use, then the folders from the ground up; the package itself and __main__ are above all.
GROUND = (
    "cache",
    "errors",
    "options",
    "files",
    "frames",
    "registry",
    "door",
    "progress",
    "clock",
    "cores",
    "hub",
    "_version",
)
FOLDERS = "data tasks metrics nets methods runs photos report audits repair challenge studio demo cli".split()
LEVEL = dict.fromkeys(GROUND, 0) | {name: i + 1 for i, name in enumerate(FOLDERS)}
TOP = len(FOLDERS) + 1

# Circles that are still there, each through an import inside a function. Take one out when it is gone; add none.
CIRCLES: list[set[str]] = []


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a module of the package imports, wherever in the file, by statement or by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            base = [*above[: len(above) - node.level + 1], node.module] if node.level else [node.module]
            yield from ((node.lineno, ".".join([*filter(None, base), a.name])) for a in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def level(module: str) -> int:
    """The height of handful.folder.module."""
    return LEVEL.get((module.split(".") + [""])[1], TOP)


def upward(source: str, module: str, package: str) -> list[str]:
    return [
        f"{module}:{line} imports {name}"
        for line, name in imports(source, package)
        if name.split(".")[0] == "handful" and level(name) > level(module)
    ]


def modules() -> dict[str, tuple[str, str]]:
    """Name of every module of the package -> its source and the package that its relative imports start from."""
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = ("handful", *file.relative_to(ROOT).with_suffix("").parts)
        package = ".".join(parts[:-1])
        found[package if parts[-1] == "__init__" else ".".join(parts)] = (file.read_text(), package)
    return found


def run_time(source: str) -> str:
    """A module without what it imports for its types alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    return ast.unparse(tree)


def test_every_folder_has_its_place():
    kept = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert kept - {"__init__", "__main__"} == set(LEVEL)


def test_no_module_imports_from_above():
    found = [line for name, (source, package) in modules().items() for line in upward(source, name, package)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "from handful.runs.evaluate import evaluate",
        "from ..runs import evaluate",
        "from .. import runs",
        "import handful.cli",
        "import handful",
        "def f():\n    from handful.report import tables",
        "if TYPE_CHECKING:\n    from handful.audits.audit import audit",
        "importlib.import_module('handful.challenge.spec')",
    ],
)
def test_an_import_from_above_is_seen_wherever_it_is(line):
    assert upward(line, "handful.tasks.rule", "handful.tasks")
    assert not upward(
        "from handful.data import cache\nfrom ..errors import BadInput\nimport numpy",
        "handful.tasks.rule",
        "handful.tasks",
    )


def test_no_new_circle_of_modules():
    every = modules()
    graph = nx.DiGraph()
    for name, (source, package) in every.items():
        for _, target in imports(run_time(source), package):
            # from a import b: b is a module of its own, or a name that a holds.
            target = target if target in every else target.rpartition(".")[0]
            if target in every and target != name:
                graph.add_edge(name, target)
    circles = [c for c in nx.strongly_connected_components(graph) if len(c) > 1]
    new = [c for c in circles if not any(c <= known for known in CIRCLES)]
    assert not new, "\n".join(" <-> ".join(sorted(c)) for c in new)


def test_tests_mirror_the_source_folder_by_folder():
    here = Path(__file__).parent
    own = {"made", "fixtures"}  # what tests make for each other, and files that older versions wrote
    for folder in sorted({file.parent.relative_to(here) for file in here.rglob("test_*.py")} - {Path()}):
        assert folder.parts[0] in own or (ROOT / folder).is_dir(), f"tests/{folder} mirrors no folder of the source"
    assert {d for d in FOLDERS if not (here / d).is_dir()} == set(), "a folder of the source has no tests of its own"


def test_benchmarks_import_what_is_there():
    """Benchmarks are run by hand, so that a name that has moved would be found late."""
    for path in sorted((ROOT.parents[1] / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "handful":
                module = importlib.import_module(str(node.module))
                for name in node.names:
                    there = hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}")
                    assert there, f"{path.name}: {node.module} has no {name.name}"
