"""What the zero-shot tests share: WordNet where it is installed, the published splits, small hierarchies."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import wordnet
from handful.errors import Missing


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
