"""The demo's orchestration, with small parts in place of its settings: pages, links, runs that can be reported again."""

from __future__ import annotations

import pytest

from handful.audits.audit import audit
from handful.cli import main
from handful.demo import beyond, sections
from handful.demo.part import DemoPart
from handful.report.page import Section
from handful.report.report import Report
from handful.runs import Run
from handful.runs.engine import Inline


def test_the_demo_ends_in_three_pages_and_keeps_its_runs(monkeypatch, folders, source, tmp_path, capsys):
    runs = {name: Run.open(folders / name) for name in ("k-nn", "linear")}
    small = DemoPart(Section("A setting", ["Some words."]), {"A setting": runs})
    monkeypatch.setattr(sections, "SETTINGS", {"a setting": lambda seed, steps: small})
    monkeypatch.setattr(sections, "audited", lambda seed: audit(source, only=["imbalance"], net="pixels", seed=seed))
    monkeypatch.setattr("handful.runs.engine.make_engine", lambda **more: Inline())
    for _ in range(2):  # a second demo in the same folder takes the place of the first
        with pytest.raises(SystemExit) as end:
            main(["demo", "--out", str(tmp_path / "d")])
        assert not end.value.code
    index = (tmp_path / "d" / "index.html").read_text()
    assert 'href="report.html"' in index and 'href="audit.html"' in index and "Some words." in index
    assert "A setting" in (tmp_path / "d" / "report.html").read_text()
    assert "Audit of" in (tmp_path / "d" / "audit.html").read_text()
    again = Report(tmp_path / "d" / "runs").comparisons[0]
    assert sorted(again.labels) == ["k-nn", "linear"]
    assert again.estimate("linear") == runs["linear"].estimate("accuracy")


def test_the_demo_covers_all_five_settings_and_what_is_beyond_accuracy():
    assert len(sections.SETTINGS) == 6
    assert {f.__module__.rpartition(".")[2] for f in sections.SETTINGS.values()} == {
        "few_shot",
        "context",
        "clustering",
        "pairs",
        "zero_shot",
        "beyond",
    }


def test_what_is_beyond_accuracy_is_shown_by_a_figure_of_each(monkeypatch):
    monkeypatch.setattr(beyond, "TASKS", 8)
    monkeypatch.setattr(beyond, "MODELS", {"ProtoNet": "cifar-fs/protonet"})
    part = beyond.beyond(0, 1)
    shown = " ".join(figure.alt for figure in part.section.figures)
    for word in ("strangers", "wrong labels", "imbalance", "difficulty", "probability"):
        assert word in shown
    assert Report(part.entries, pictures=0).html().count("Accuracy over the share of wrong labels") == 1
