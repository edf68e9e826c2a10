"""Figure 4: the neighbours of a word with two meanings, planted."""

from __future__ import annotations

import numpy as np
import pytest

from handful.audits.zero_shot.neighbours import clearest, neighbourhoods
from handful.audits.zero_shot.page import page
from handful.audits.zero_shot.semantic import meanings
from handful.audits.zero_shot.split_audit import audit_split
from handful.data.class_splits import ClassSplit
from handful.data.taxonomy import Taxonomy
from handful.data.words import WordVectors
from handful.errors import BadInput

KINDS = ("stone", "dog", "fruit")


@pytest.fixture
def words() -> WordVectors:
    """Thirty words about stones, dogs and fruit each; "cairn" lies among the stones. Lengths differ, directions tell."""
    rng = np.random.default_rng(0)
    centres = np.eye(20)[:3]
    names, rows = [], []
    for kind, centre in zip(KINDS, centres, strict=True):
        for i in range(30):
            names.append(kind if i == 0 else f"{kind}{i}")
            rows.append((centre + 0.1 * rng.normal(size=20)) * rng.uniform(0.5, 5))
    return WordVectors((*names, "cairn"), np.array([*rows, centres[0] + 0.1 * rng.normal(size=20)], dtype=np.float32))


@pytest.fixture
def tree() -> Taxonomy:
    edges = [
        ("mark", "stone"),
        ("terrier", "dog"),
        ("apple", "fruit"),
        ("stone", "top"),
        ("dog", "top"),
        ("fruit", "top"),
    ]
    named = {"mark": ["cairn"], "terrier": ["cairn"], "apple": ["fruit3"]}
    return Taxonomy.of(edges, words={n: named.get(n, [n]) for pair in edges for n in pair})


def test_the_neighbours_of_a_word_are_those_of_its_direction(words: WordVectors) -> None:
    found = neighbourhoods(words, ("cairn", "dog", "stone"), n=20)
    kind = [{words.names[i].rstrip("0123456789") for i in rows} for rows in found.rows]
    assert kind[0] <= {"stone", "cairn"} and kind[1] == {"dog"} and kind[2] <= {"stone", "cairn"}
    assert all(len(set(rows.tolist())) == 20 for rows in found.rows)
    assert [words.names[rows[0]] for rows in found.rows] == ["cairn", "dog", "stone"]
    # In the plane the word lies with its own kind, far from the other.
    cairn, dog, stone = (points.mean(0) for points in found.points)
    assert np.linalg.norm(cairn - dog) > 5 * np.linalg.norm(cairn - stone)
    # A word that two neighbourhoods share is one point.
    both = set(found.rows[0].tolist()) & set(found.rows[2].tolist())
    for row in both:
        np.testing.assert_array_equal(found.points[0][found.rows[0] == row], found.points[2][found.rows[2] == row])
    assert both
    with pytest.raises(BadInput, match="no vector"):
        neighbourhoods(words, ("nowhere",))


def test_the_clearest_secondary_meaning_is_found_with_the_parents_of_both_classes(
    words: WordVectors, tree: Taxonomy
) -> None:
    found = meanings(tree, words, ["terrier", "apple"], among=["mark"])
    assert clearest(tree, words, found, ["mark"], n=10).words == ("cairn", "stone", "dog")
    # Without the other class the word is the terrier's own, and nothing is to be shown.
    assert clearest(tree, words, meanings(tree, words, ["terrier", "apple"]), n=10) is None


def test_the_page_shows_what_the_word_is_taken_to_mean(words: WordVectors, tree: Taxonomy) -> None:
    split = ClassSplit("toy", ("mark",), ("terrier", "apple"))
    told = page(audit_split(tree, split, vectors=words, elsewhere=frozenset()))
    assert "taken to mean a kind of stone, not of dog" in told.replace("&quot;", '"')
    plain = page(
        audit_split(tree, ClassSplit("toy", ("stone",), ("apple", "dog")), vectors=words, elsewhere=frozenset())
    )
    assert "taken to mean" not in plain
