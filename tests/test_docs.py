"""What the documents show works as shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benches import small
from handful.runs.evaluate import evaluate
from handful.tasks import NWay

ROOT = Path(__file__).resolve().parents[1]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)


def test_the_contributing_page_s_files_are_whole(monkeypatch):
    from handful import registry

    method, rule, metric = blocks(ROOT / "CONTRIBUTING.md")
    shown: dict = {"__name__": "shown"}
    import sys
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


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_to_files_lead_somewhere(page):
    path = ROOT / page if (ROOT / page).is_file() else ROOT / "docs" / page
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"
