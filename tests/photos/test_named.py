"""predict --names: photos matched with texts, no model, no photo learned from."""

from __future__ import annotations

import json

import numpy as np
import pytest

import handful as hf
from handful.errors import BadInput, Mismatch
from made.benches import reader
from photos.conftest import photo, write_photos
from photos.test_model import call


def test_answers_are_the_softmax_of_the_encoders_own_cosines():
    found = hf.by_names(["oak", "elm_tree", "birch"], net=reader())
    images = [photo(k, 0) for k in range(3)]
    answers = found.predict(images)
    net = found.net
    x = np.stack([np.asarray(i.convert("RGB").resize((found.side, found.side))) for i in images])
    assert answers.classes == ("oak", "elm_tree", "birch") and not answers.refused.any()
    import torch

    with torch.no_grad():
        v = net(net.normalise(torch.from_numpy(x))).double()
        t = net.texts([f"a photo of a {n}." for n in ("oak", "elm tree", "birch")]).double()
    v, t = v / v.norm(dim=1, keepdim=True), t / t.norm(dim=1, keepdim=True)
    expected = torch.softmax(net.sharpness * v @ t.T, 1).numpy()
    np.testing.assert_allclose(answers.probabilities, expected, atol=0.02)  # photos are resized by another filter
    np.testing.assert_allclose(answers.probabilities.sum(1), 1)


def test_the_verb_answers_scores_and_says_by_what(tmp_path, capsys):
    place = write_photos(tmp_path / "photos", each=3)
    names = ",".join(sorted(p.name for p in place.iterdir()))
    words = ["predict", "--names", names, "--net", reader()]
    code, out, err = call(
        capsys, *words, place, "--json", "--page", tmp_path / "page.html", "--csv", tmp_path / "a.csv"
    )
    facts = json.loads(out)
    assert code == 0 and sum(facts["counts"].values()) == len(facts["answers"]) == 3 * len(names.split(","))
    assert "by their names alone, by clip:folder=" in facts["about"] and "No photo was learned from" in err
    assert "by their names alone" in (tmp_path / "page.html").read_text()
    code, out, _ = call(capsys, *words, place, "--score")
    assert code == 0 and " right: " in out and "was expected" not in out


@pytest.mark.parametrize("names", ["oak", "oak,oak", " , "])
def test_names_must_be_two_or_more_each_once(names):
    with pytest.raises(BadInput, match="names must be two or more, each once"):
        hf.by_names(names, net=reader())


def test_what_cannot_be_answered_is_said_in_a_sentence(tmp_path, capsys):
    write_photos(tmp_path / "photos", each=1)
    with pytest.raises(Mismatch, match="no text side"):
        hf.by_names("oak,elm", net="conv4")
    assert call(capsys, "predict", "--names", "oak,elm", "--net", reader(), tmp_path / "none")[0] == 2
    code, _, err = call(capsys, "predict", "--prompts", "bare", "model", tmp_path / "photos")
    assert code == 2 and "--prompts says how names are read; it goes with --names" in err
    code, _, err = call(
        capsys, "predict", "--names", "oak,elm", "--net", reader(), "--prompts", "foto", tmp_path / "photos"
    )
    assert code == 2 and "did you mean photo" in err
