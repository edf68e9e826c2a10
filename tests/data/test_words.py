"""Word vectors: files of both kinds give the same matrix, phrases are looked up in order, gaps are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from handful.data.words import Descriptions, WordVectors
from handful.errors import BadInput, Missing

WORDS = ["cat", "dog", "new_york", "sea", "lion", "Paris"]
MATRIX = np.arange(18, dtype=np.float32).reshape(6, 3) / 8


def as_text(header: bool = False) -> str:
    rows = "".join(f"{w} {' '.join(str(float(x)) for x in v)}\n" for w, v in zip(WORDS, MATRIX, strict=True))
    return (f"{len(WORDS)} 3\n" if header else "") + rows


def as_binary(newline: bytes) -> bytes:
    rows = [w.encode() + b" " + v.tobytes() + newline for w, v in zip(WORDS, MATRIX, strict=True)]
    return b"6 3\n" + b"".join(rows)


def test_every_format_gives_the_same_vectors(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(as_text())
    (tmp_path / "b.txt").write_text(as_text(header=True))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(as_text().encode()))
    (tmp_path / "d.bin").write_bytes(as_binary(b""))
    (tmp_path / "e.bin.gz").write_bytes(gzip.compress(as_binary(b"\n")))
    for file in sorted(tmp_path.iterdir()):
        read = WordVectors.open(file)
        assert read.names == tuple(WORDS), file
        assert np.array_equal(read.matrix, MATRIX), file


def test_phrases_and_synsets() -> None:
    words = WordVectors(tuple(WORDS), MATRIX)
    whole = words.of(["New York", "sea lion", "CAT", "Paris", ["unheard of", "dog", "cat"]])
    expected = [MATRIX[2], MATRIX[3:5].mean(0), MATRIX[0], MATRIX[5], MATRIX[:2].mean(0)]
    assert np.allclose(whole, expected)
    assert words.known(["sea horse", "sea-lion", ["x", "y"]]).tolist() == [False, True, False]
    assert words.of([]).shape == (0, 3)


def test_missing_names_are_named_and_refused() -> None:
    words = WordVectors(tuple(WORDS), MATRIX, source="tiny")
    with pytest.raises(BadInput, match=r"tiny: no vector for 2 of 3 names \(zebra, x / y\)"):
        words.of(["cat", "zebra", ["x", "y"]])


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    for name, content, message in [
        ("a.txt", b"cat 1 2\ndog 1\n", "line 2: expected a word and 2 numbers"),
        ("a.txt", b"cat 1 2\ndog 1 x\n", "'x' in the vector of 'dog' is not a number"),
        ("a.txt", b"cat 1 nan\n", "vector of 'cat' is not finite"),
        ("a.txt", b"", "holds no vector"),
        ("a.bin", as_binary(b"")[:-2], "ends at word 6 of 6"),
        ("a.bin", b"hello\n", "word2vec"),
        ("a.bin", b"900000000000 300\ncat \0\0\0\0", "too short for 900,000,000,000 words"),
        ("a.bin", b"9" * 5000 + b" 300\n", "claims 9999"),
        ("a.bin", b"3 0\na b c ", "claims 3 words of 0 numbers"),
        ("a.txt.gz", b"not gzip", "damaged"),
        ("a.txt.gz", gzip.compress(b"cat 1 2\n" * 2000)[:20] + b"\xff" * 30, "damaged"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=message):
            WordVectors.open(tmp_path / name)
    with pytest.raises(Missing):
        WordVectors.open(tmp_path / "absent.txt")
    with pytest.raises(BadInput, match="is a folder"):
        WordVectors.open(tmp_path)


def test_descriptions_refuse_gaps_repeats_and_nan() -> None:
    two = Descriptions(("a", "b"), np.eye(2, dtype=np.float32))
    assert np.array_equal(two.of(["b", "a"]), [[0, 1], [1, 0]])
    with pytest.raises(BadInput, match=r"no description of 1 classes \(c\)"):
        two.of(["a", "c"])
    with pytest.raises(BadInput, match="a is described twice"):
        Descriptions(("a", "a"), np.eye(2, dtype=np.float32))
    with pytest.raises(BadInput, match="description of b is not finite"):
        Descriptions(("a", "b"), np.array([[0, 1], [np.nan, 0]], dtype=np.float32))


def test_glove_puts_dog_nearer_to_cat_than_to_car(shared: Path) -> None:
    words = WordVectors.open(shared / "words" / "glove.6B.100d.nouns.txt.gz")
    assert (len(words), words.dim) == (46_850, 100)
    v = words.of(["dog", "cat", "car"])
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    assert v[0] @ v[1] > v[0] @ v[2] + 0.2
