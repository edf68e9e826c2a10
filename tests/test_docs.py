"""What the documents show works as shown."""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

import documents
import workspace
from documents import NOT_RUN, PAGES, ROOT, SMALLER, commands, reason_not_to_run, smaller
from handful import registry
from handful.errors import Missing
from handful.runs.evaluate import evaluate
from handful.tasks import NWay
from made.benches import small


def test_the_contributing_page_s_files_are_whole(monkeypatch):
    method, rule, metric = documents.python_blocks(text_of("CONTRIBUTING.md"))
    import types

    module = types.ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)
    for text in (method, rule, metric):
        exec(compile(text, "CONTRIBUTING.md", "exec", dont_inherit=True), module.__dict__)
    shown = module.__dict__
    part = small().test
    one_each = shown["OneEach"](part, ways=3)
    assert [len(e.support) for e in one_each.draw_block(0, 0, 3)] == [3, 3, 3]
    learner = shown["NearestNeighbour"](net="pixels").untrained(small().card.shape)
    monkeypatch.setitem(registry.BUILTIN["metrics"], "flawless", "shown:Flawless")
    registry.table.cache_clear()
    run = evaluate(learner, NWay(part, 3, 2, 4), n=10, metrics=("flawless",))
    registry.table.cache_clear()
    task = NWay(part, 3, 2, 4).read(NWay(part, 3, 2, 4).draw(0, 0))
    scores = learner.fit(task.support).predict(task.query)
    x, s = (a.reshape(len(a), -1) / 255.0 for a in (task.query.images, task.support.images))
    d = ((x[:, None] - s[None]) ** 2).sum(-1)
    by_hand = -np.stack([d[:, task.support.labels == c].min(1) for c in range(3)], 1)
    np.testing.assert_allclose(scores, by_hand, rtol=1e-3)
    assert set(run.frame["flawless"].to_list()) <= {0.0, 1.0}


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"


# Python that goes on from objects the reader has: what they are here, and what makes a block small.
GIVEN = {
    "docs/report.md": "run1, run2 = (hf.Run.open(f'runs/{m}') for m in ('protonet', 'matchingnet'))",
}
SMALLER_PYTHON = (
    (r"n=600", "n=3"),
    (r'ProtoNet\(net="conv4"\)', 'ProtoNet(net="conv4", schedule=hf.Schedule(steps=1))'),
    (r"n=(50|100)\b", "n=3"),
    (r'net="lite0"', 'net="pixels"'),
    (r"repeats=5", "repeats=2"),
)
# What a page takes to be there already.
BEFORE = {
    "README.md": ("handful eval nearest-centroid world --ways 2-20 --shots 1-20 --tasks 600 --out runs/b",),
    "docs/report.md": (
        "handful eval nearest-centroid birds/ --tasks 600 --out runs/a",
        "handful eval nearest-centroid birds/ --tasks 600 --out runs/b",
    ),
}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


WITH_CODE = [
    p for p in PAGES if p != "CONTRIBUTING.md" and (commands(text_of(p)) or documents.python_blocks(text_of(p)))
]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return tmp_path_factory.mktemp("worlds"), {}


@pytest.fixture
def small_world(worlds):
    with workspace.small_world(*worlds):
        yield


@pytest.mark.parametrize("page", WITH_CODE)
def test_what_a_page_shows_runs_in_the_order_shown(page, tmp_path, monkeypatch, small_world):
    shown = [c for c in commands(text_of(page)) if not reason_not_to_run(c)]
    workspace.make(tmp_path, page)
    if any(documents.of_words(c) for c in shown):
        try:
            workspace.zero_shot(tmp_path)
        except Missing:
            shown = [c for c in shown if not documents.of_words(c)]
    if "own-method" in page:
        workspace.plug_in(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path / "my-method"))
        registry.table.cache_clear()
    monkeypatch.chdir(tmp_path)
    try:
        for command in (*BEFORE.get(page, ()), *shown):
            run(smaller(command))
        run_python(page)
    finally:
        registry.table.cache_clear()


def run(command: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = documents.call(command)
    assert code == 0, f"{command}\n{out.getvalue()[-2000:]}{err.getvalue()[-2000:]}"


def run_python(page: str) -> None:
    blocks = documents.python_blocks(text_of(page))
    names: dict = {"__name__": "shown"}
    for number, block in enumerate(blocks):
        for pattern, instead in SMALLER_PYTHON:
            block = re.sub(pattern, instead, block)
        given = f"import handful as hf; {GIVEN[page]}\n" if number == 0 and page in GIVEN else ""
        with redirect_stdout(io.StringIO()):
            exec(compile(given + block, page, "exec", dont_inherit=True), names)


def test_what_is_not_run_is_little_is_there_and_has_a_reason():
    every = [c for page in PAGES for c in commands(text_of(page))]
    left = [c for c in every if reason_not_to_run(c)]
    assert len(every) - len(left) >= 60 and len(left) < len(every) / 3, (len(every), len(left))
    for start, why in NOT_RUN.items():
        assert why and any(c.startswith(start) for c in left), f"{start} is not in the documents"
    used: set[str] = set()
    for command in every:
        assert command.split()[0].split("=")[0] in documents.PROGRAMS or re.match(r"[A-Z_]+=", command), command
        if command not in left:
            smaller(command, used)
    assert used == {pattern for pattern, _ in SMALLER}


def test_measured_runs_name_scripts_and_options_that_exist():
    for command in (c for page in PAGES for c in commands(text_of(page)) if c.startswith("python ")):
        words = shlex.split(command)
        source = (ROOT / words[1]).read_text(encoding="utf-8")
        for option in (w for w in words if w.startswith("--")):
            assert f'"{option}"' in source, f"{words[1]} has no {option}"
    from handful.runs.recipe import packaged

    for command in (c for page in PAGES for c in commands(text_of(page)) if c.startswith("handful run ")):
        assert shlex.split(command)[2] in packaged(), command


def test_every_page_is_in_the_site_and_the_site_needs_no_network():
    config = text_of("mkdocs.yml")
    for page in (p.removeprefix("docs/") for p in PAGES if p.startswith("docs/") and "/results/" not in p):
        assert page in config, f"{page} is not in the navigation of mkdocs.yml"
    for page in re.findall(r"[\w/-]+\.md", config):
        assert (ROOT / "docs" / page).is_file(), f"mkdocs.yml names {page}"
    assert "font: false" in config and "http" not in config


def test_the_reference_names_what_exists():
    import importlib

    for page in (p for p in PAGES if p.startswith("docs/reference/")):
        for target in re.findall(r"^::: ([\w.]+)$", text_of(page), flags=re.M):
            module, _, name = target.rpartition(".")
            try:
                thing = getattr(importlib.import_module(module), name)
            except AttributeError:
                thing = importlib.import_module(target)
            assert (thing.__doc__ or "").strip(), f"{target} has no docstring"
