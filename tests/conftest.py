"""Fixtures: real data if it is there, small collections, one thread; what was not tried, in one line."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

import around
import learning

# Before any module makes a schedule of its own or looks for a program.
learning.prepare()
around.hide()

from handful.data.collection import Collection
from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import wordnet
from handful.errors import Missing
from made.patterns import blobs


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How a test ended, if ``scripts/safety`` asks."""
    if report.when == "call" or report.failed:
        learning.write_down(report.nodeid, outcome=report.outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped, in one line."""
    skipped = [r.longrepr[2] for r in terminalreporter.stats.get("skipped", ()) if isinstance(r.longrepr, tuple)]
    if line := around.not_tried(skipped):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the project."""
    if (folder := around.shared_data()) is None:
        pytest.skip("needs shared data: ../shared/data is not beside the project")
    return folder


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """Nothing a test caches reaches the user's own cache."""
    before = os.environ.get("HANDFUL_CACHE")
    os.environ["HANDFUL_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["HANDFUL_CACHE"]
    else:
        os.environ["HANDFUL_CACHE"] = before


@pytest.fixture(scope="session")
def patches() -> Collection:
    return blobs(n_classes=24, each=40)


@pytest.fixture(scope="session")
def nouns(tmp_path_factory: pytest.TempPathFactory) -> Taxonomy:
    """WordNet 3.0, or a skip that says what to install."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDFUL_CACHE", str(tmp_path_factory.mktemp("cache")))
        try:
            return wordnet()
        except Missing as error:
            pytest.skip(f"needs WordNet: {error}")


@pytest.fixture(scope="session")
def splits(shared: Path) -> dict[str, list[str]]:
    """The published ImageNet class lists, by name."""
    return {file.stem: file.read_text().split() for file in sorted((shared / "imagenet-splits").glob("*.txt"))}


@pytest.fixture
def toy() -> Taxonomy:
    """Figure 7: horse and zebra under equine, TV and laptop under electronics, four steps between the two sides."""
    return Taxonomy.of(
        [
            ("equine", "thing"),
            ("electronics", "thing"),
            ("horse", "equine"),
            ("zebra", "equine"),
            ("tv", "electronics"),
            ("laptop", "electronics"),
        ]
    )
