"""Image-text similarity with a CLIP that the test builds itself, and the linear probes on planted features."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

from handful.audits import similarity as module
from handful.audits.audit import audit
from handful.audits.probe import context_probe
from handful.audits.similarity import TEMPLATES, Similarity, ranking, scatter, similarity
from handful.cli import app
from handful.data.collection import Card, Collection, as_table
from handful.errors import BadInput, Infeasible, Missing
from handful.nets.clip import Clip
from made.readers import clip_folder

transformers = pytest.importorskip("transformers", reason="needs handful[clip]")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A CLIP of a few thousand random weights with a tokenizer of single letters, saved as any other."""
    return clip_folder(tmp_path_factory.mktemp("clip"))


def test_similarities_are_the_models_own_cosines(checkpoint, patches, monkeypatch):
    found = similarity(patches.test, checkpoint, "scene")
    model = transformers.CLIPModel.from_pretrained(checkpoint).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    row = found.frame.row(37, named=True)
    image = torch.from_numpy(patches.read(np.asarray([row["image"]]))).permute(0, 3, 1, 2).float() / 255
    image = torch.nn.functional.interpolate(image, size=(24, 24), mode="bicubic", antialias=True).clamp(0, 1)
    mean, std = torch.tensor([0.48145466, 0.4578275, 0.40821073]), torch.tensor([0.26862954, 0.26130258, 0.27577711])
    pixels = (image - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)
    for name, of, text in (
        ("m_ce", row["concept"], TEMPLATES["scene"][0]),
        ("m_te", row["context"], TEMPLATES["scene"][1]),
    ):
        tokens = tokenizer([text.format(of)], return_tensors="pt", padding=True)
        with torch.no_grad():
            out = model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=pixels)
        expected = torch.nn.functional.cosine_similarity(out.image_embeds, out.text_embeds).item()
        assert row[name] == pytest.approx(expected, abs=1e-5)
    assert row["concept"] == str(patches.table["kind"][row["image"]])
    assert found.concept.value == pytest.approx(found.frame["m_ce"].mean())
    assert found.lead.value == pytest.approx(found.context.value - found.concept.value)
    monkeypatch.setattr(module, "embed_rows", lambda *a, **k: pytest.fail("the images were embedded before"))
    again = similarity(patches.test, Clip(patches.card.shape, str(checkpoint)), "scene")
    assert again.frame.equals(found.frame)
    assert not similarity(patches.test, checkpoint, "bare").frame["m_ce"].equals(found.frame["m_ce"])


def test_figures_hold_every_collection_and_need_contexts():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"m_ce": rng.random(50), "m_te": rng.random(50)})
    assert scatter(Similarity("a", "bare", frame)).startswith("<svg")
    drawn = ranking([Similarity("a", "bare", frame), Similarity("b", "bare", frame.drop("m_te"))], reported=True)
    assert drawn.startswith("<svg") and drawn == ranking(
        [Similarity("a", "bare", frame), Similarity("b", "bare", frame.drop("m_te"))], reported=True
    )
    with pytest.raises(BadInput, match="no contexts"):
        scatter(Similarity("b", "bare", frame.drop("m_te")))
    with pytest.raises(BadInput, match="nothing to rank"):
        ranking([])


def test_wrong_input(checkpoint, patches, tmp_path):
    with pytest.raises(BadInput, match="no prompt template"):
        similarity(patches.test, checkpoint, "poem")
    with pytest.raises(BadInput, match="not a CLIP checkpoint"):
        similarity(patches.test, tmp_path)
    with pytest.raises(BadInput, match="clip:folder=PATH"):
        Clip(patches.card.shape)


def planted(strength: float, seed: int = 0) -> tuple[Collection, np.ndarray]:
    """Features that show the context clearly and the concept with the given strength."""
    rng = np.random.default_rng(seed)
    concept, context = rng.integers(0, 6, 900), rng.integers(0, 4, 900)
    features = np.c_[np.eye(4)[context], strength * np.eye(6)[concept]] + 0.05 * rng.normal(size=(900, 10))
    table = as_table({"concept": [f"k{c}" for c in concept], "place": [f"p{c}" for c in context]})
    card = Card("planted", "features", (10,), ("concept",), context="place", hash="1" * 64)
    return Collection(card, table, features.astype(np.float32)), features


def test_probe_sees_what_was_planted():
    for strength, expected in ((0.0, 0.0), (1.0, 1.0)):
        collection, features = planted(strength)
        probe = context_probe(collection.whole, features)
        assert probe.context.value == pytest.approx(1.0, abs=0.01)
        assert probe.concept.value == pytest.approx(expected, abs=0.12)
        assert probe.lead.value == pytest.approx(probe.context.value - probe.concept.value)
    collection, features = planted(0.0)
    finding = audit(collection, only=["context-probe"], net="pixels").findings[0]
    assert finding.light == "red" and finding.value > 0.8
    with pytest.raises(BadInput, match="rows of features"):
        context_probe(collection.whole, features[:10])
    features[7, 2] = np.nan
    with pytest.raises(BadInput, match="features of image 7 are not all finite"):
        context_probe(collection.whole, features)
    bare = Collection(Card("bare", "features", (10,), ("concept",)), collection.table, collection.array)
    with pytest.raises(Infeasible, match="no column of contexts"):
        context_probe(bare.whole, features)


def test_audit_runs_image_text_with_a_clip_and_says_why_without(checkpoint, patches):
    found = audit(patches, only=["image-text"], net=f"clip:folder={checkpoint}").findings[0]
    assert found.figure.startswith("<svg") and found.low <= found.value <= found.high
    with pytest.raises(Missing, match="--clip PATH"):
        audit(patches, only=["image-text"], net="pixels")
    assert "image-text" in audit(patches, net="pixels", minutes=0.02).left_out


def test_the_command_line_measures_draws_and_ranks(checkpoint, tmp_path):
    out = tmp_path / "similarity"
    places = ["world:classes=8,images=12,size=16", "world:classes=8,images=12,size=16,seed=3"]
    command = ["audit", *places, "--only", "image-text", "--clip", str(checkpoint), "--out", str(out), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 2 and rows[0]["collection"] != rows[1]["collection"]
    frame = pl.read_csv(out / "world-1.csv")
    assert rows[0]["M_ce"]["value"] == pytest.approx(frame["m_ce"].mean())
    assert rows[0]["M_te"]["value"] == pytest.approx(frame["m_te"].mean())
    assert {p.name for p in out.iterdir()} == {
        "figure2a.svg", "figure2b-world-1.svg", "figure2b-world-2.svg", "world-1.csv", "world-2.csv"
    }  # fmt: skip
    said = CliRunner().invoke(app, ["data", "stats", places[0], "--clip", str(checkpoint), "--json"])
    assert json.loads(said.stdout)["summary"][0]["M_ce"] == pytest.approx(rows[0]["M_ce"]["value"], abs=1e-4)
    wrong = CliRunner().invoke(app, ["audit", places[0], "--only", "image-text", "--clip", str(tmp_path / "none")])
    assert wrong.exit_code != 0 and isinstance(wrong.exception, BadInput)


def test_the_command_line_probes_where_there_is_no_clip():
    place = "world:classes=12,images=40,size=16"
    only = ["--only", "context-probe", "--net", "conv4:filters=4", "--split", "all"]
    done = CliRunner().invoke(app, ["audit", place, *only, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["findings"][0]
    context, concept = (found["details"][k]["value"] for k in ("context", "concept"))
    assert found["value"] == pytest.approx(context - concept) and -0.2 < concept <= 1 and -0.2 < context <= 1
    few = ["--column", "border", "--most", "300", "--folds", "3"]
    done = CliRunner().invoke(app, ["audit", place, place, *only, *few, "--json"])
    assert done.exit_code == 0, done.output
    rows = [a["findings"][0]["details"] for a in json.loads(done.stdout)["audits"]]
    assert len(rows) == 2 and rows[0] == rows[1] and rows[0]["images"] <= 300 and rows[0]["context"]["n"] == 3
    assert rows[0]["context"] != found["details"]["context"]
    wrong = CliRunner().invoke(app, ["audit", place, *only, "--column", "weather"])
    assert "has no column 'weather'" in str(wrong.exception)
