"""Word quality: the queen of Appendix B, counts, shared labels, on toys and on WordNet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handful.audits.zero_shot.semantic import Frequency, labels_of, meanings, shared_labels
from handful.data.taxonomy import Taxonomy
from handful.data.wordnet import other_words
from handful.data.words import WordVectors
from handful.errors import BadInput


@pytest.fixture
def court() -> tuple[Taxonomy, WordVectors]:
    words = {
        "q1": ["queen", "female monarch"],
        "q2": ["queen"],
        "q3": ["queen"],
        "aristocrat": ["aristocrat"],
        "england": ["England"],
        "chessman": ["chessman"],
        "odd": ["unheard"],
        "rook": ["rook"],
        "top": ["entity"],
    }
    edges = [("q1", "aristocrat"), ("england", "q1"), ("q2", "chessman"), ("q3", "odd"), ("rook", "chessman")]
    edges += [("aristocrat", "top"), ("chessman", "top"), ("odd", "top")]
    vectors = WordVectors(
        ("queen", "aristocrat", "england", "chessman", "rook", "entity"),
        np.array([[1, 0.2], [1, 0], [0.6, 0.8], [-0.1, 1], [0, 1], [0.5, 0.5]], dtype=np.float32),
    )
    return Taxonomy.of(edges, words=words), vectors


def test_a_word_belongs_to_the_class_whose_neighbours_it_resembles(court: tuple[Taxonomy, WordVectors]) -> None:
    tax, vectors = court
    found = meanings(tax, vectors, ["q1", "q2", "q3", "rook", "odd"])
    queen, near = np.array([1, 0.2]), (np.array([1, 0]) + np.array([0.6, 0.8])) / 2
    assert found.score[0] == pytest.approx(queen @ near / np.linalg.norm(queen) / np.linalg.norm(near), abs=1e-6)
    chess = np.array([-0.1, 1])
    assert found.score[1] == pytest.approx(queen @ chess / np.linalg.norm(queen) / np.linalg.norm(chess), abs=1e-6)
    # q3's only neighbour has no vector, so it loses; the rook has no rival.
    assert found.primary.tolist() == [True, False, False, True, False]
    assert found.rivals.tolist() == [2, 2, 2, 0, 0] and found.described.tolist() == [True, True, True, True, False]
    # Without the monarch in the race the chess piece is the word's best meaning.
    assert meanings(tax, vectors, ["q2", "q3"]).primary.tolist() == [True, False]
    assert meanings(tax, vectors, ["q2", "q3"], among=["q1"]).primary.tolist() == [False, False]


def test_shared_labels_are_counted_with_multiplicity(court: tuple[Taxonomy, WordVectors]) -> None:
    tax, vectors = court
    shared = shared_labels(tax, ["q1", "rook", "chessman"])
    assert shared.labels == pytest.approx(1 / 3) and shared.classes == 0.0
    assert shared_labels(tax, ["q1", "q2", "rook"]).classes == pytest.approx(2 / 3)
    assert shared_labels(tax, ["q1"], phrases=True).labels == 0.5
    assert labels_of(tax, ["q1", "odd"], vectors) == ["queen", "unheard"]


def test_counts_are_read_and_wrong_rows_named(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("word,count\nQueen,600\nrook,3\nsea_lion,900\n")
    counts = Frequency.read(tmp_path / "c.csv")
    values = counts.of(["queen", "rook", "sea lion", "unheard"])
    assert values.tolist() == [600, 3, 900, 0] and counts.common(values).tolist() == [True, False, True, False]
    for text, message in [("a,b\n", "row 1: expected word,count"), ("a,1\nb\n", "row 2"), ("a,-1\n", "zero or more")]:
        (tmp_path / "c.csv").write_text(text)
        with pytest.raises(BadInput, match=message):
            Frequency.read(tmp_path / "c.csv")


def test_wordfreq_orders_common_before_rare_words() -> None:
    pytest.importorskip("wordfreq", reason="needs handful[words]")
    frequency = Frequency.wordfreq()
    dog, rare = frequency.of(["dog", "aegypiidae"])
    assert dog > 4 and rare < 2.7 and frequency.common(np.array([dog, rare])).tolist() == [True, False]


def test_half_of_imagenets_labels_are_shared(nouns: Taxonomy, splits: dict[str, list[str]]) -> None:
    everything = splits["train"] + splits["all"]
    assert shared_labels(nouns, everything).labels == pytest.approx(0.457, abs=0.001)
    assert shared_labels(nouns, everything, elsewhere=other_words()).labels == pytest.approx(0.502, abs=0.001)


@pytest.mark.real
def test_the_command_says_that_half_of_imagenets_labels_are_shared(
    nouns: Taxonomy, splits: dict[str, list[str]], tmp_path: Path
) -> None:
    from handful.audits.zero_shot.split_audit import audit_split
    from handful.data.class_splits import ClassSplit

    train, test = splits["train"][:1], [*splits["train"][1:], *splits["all"]]
    found = audit_split(nouns, ClassSplit("imagenet", tuple(train), tuple(test), "given"))
    assert found.as_dict()["shared_labels"] == pytest.approx(0.502, abs=0.001)
    assert "50.2% of single-word labels" in str(found)


def test_classes_named_by_phrases_alone_are_counted_by_them() -> None:
    from handful.audits.zero_shot.split_audit import audit_split
    from handful.data.class_splits import ClassSplit

    words = {"a": ["hot dog"], "b": ["hot dog"], "c": ["lone star"], "t": ["dog"], "root": ["entity"]}
    tree = Taxonomy.of([(n, "root") for n in "abct"], words=words)
    found = audit_split(tree, ClassSplit("made", ("t",), ("a", "b", "c"), "given")).shared
    assert found is not None and found.labels == pytest.approx(2 / 3)
