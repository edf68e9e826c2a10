"""fit, predict, save, load: in Python and on the command line."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import handful as hf
from handful.cli import main
from handful.errors import BadInput, Mismatch, Missing
from handful.photos import encoder
from photos.conftest import NAMES, photo, write_photos


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = write_photos(tmp_path_factory.mktemp("fit") / "photos", each=8)
    return folder, hf.fit(folder, net="pixels")


def new(kinds=range(4), n=5):
    return [photo(k, 100 + i) for k in kinds for i in range(n)], [k for k in kinds for _ in range(n)]


def call(capsys, *arguments):
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_new_photos_are_recognised_and_strangers_are_none_of_these(fitted):
    _, model = fitted
    photos, truth = new(n=20)
    answers = model.predict(photos)
    nearest = answers.probabilities.argmax(1)
    assert (nearest == truth).mean() in model.report.expected
    assert answers.refused.mean() < 0.25
    strangers = model.predict(new(range(10, 20))[0])
    assert strangers.refused.mean() > 0.7
    assert all(a == "none of these" or a in NAMES for a in strangers)
    np.testing.assert_allclose(answers.probabilities.sum(1), 1)
    assert list(answers.frame.columns) == ["photo", "answer", "nearest", "probability", *(f"p({c})" for c in NAMES)]


def test_the_report_says_what_a_person_needs(fitted):
    report = fitted[1].report
    text = str(report)
    assert text.startswith("32 photos of 4 classes, 8 each\n") and "of the next 100, " in text and "confused" in text
    assert report.sizes == dict.fromkeys(NAMES, 8) and set(report.losses) == {"prototypes", "linear"}
    assert report.head == min(report.losses, key=report.losses.get) and report.how == "leave-one-out"
    assert json.loads(json.dumps(report.as_dict()))["expected"]["accuracy"] == report.expected.accuracy


def test_what_was_planted_is_named(tmp_path):
    folder = write_photos(tmp_path / "photos", each=8)
    shutil.move(folder / "ash" / "03.png", folder / "fir" / "moved.png")
    shutil.copy(folder / "birch" / "00.png", folder / "birch" / "again.png")
    Image.open(folder / "cedar" / "00.png").resize((200, 256)).save(folder / "ash" / "resized.png")
    report = hf.fit(folder, net="pixels").report
    assert report.suspects[0].photo in ("fir/moved.png", "ash/resized.png")
    assert {s.photo: s.looks_like for s in report.suspects} == {"fir/moved.png": "ash", "ash/resized.png": "cedar"}
    across = [c for c in report.copies if c.classes[0] != c.classes[1]]
    assert [(c.first, c.second, c.exact) for c in across] == [("ash/resized.png", "cedar/00.png", False)]
    assert len(report.left_out) == 1 and report.left_out[0].startswith("birch/") and report.sizes["birch"] == 8
    for words in (
        "looks mislabelled: fir/moved.png (looks like ash",
        "nearly a copy of cedar/00.png",
        "left out, a copy",
    ):
        assert words in str(report)


@pytest.mark.parametrize("net", ["pixels", "conv4"])
def test_a_model_folder_moves_and_answers_the_same(net, tmp_path, monkeypatch):
    monkeypatch.setattr(encoder, "SIDE", 32)
    folder = write_photos(tmp_path / "here" / "photos", each=3)
    (folder / "ash" / "broken.jpg").write_bytes(b"no")
    model = hf.fit(folder, net=net)
    model.save(tmp_path / "here" / "model")
    for name in ("model.json", "model.safetensors"):
        assert str(tmp_path).encode() not in (tmp_path / "here" / "model" / name).read_bytes()
    photos, _ = new(n=2)
    before = model.predict(photos)
    shutil.move(tmp_path / "here" / "model", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    again = hf.load(tmp_path / "there")
    after = again.predict(photos)
    assert (after.probabilities == before.probabilities).all() and (after.refused == before.refused).all()
    assert again.report == model.report and again.classes == model.classes


def test_weights_from_a_file_go_along_without_their_path(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder, "SIDE", 32)
    from safetensors.torch import save_file

    from handful.nets import build

    save_file(build("conv4", (32, 32, 3), seed=5).state_dict(), tmp_path / "mine.safetensors")
    folder = write_photos(tmp_path / "photos", each=2)
    model = hf.fit(folder, net=f"conv4:weights={tmp_path / 'mine.safetensors'}")
    model.save(tmp_path / "model")
    (tmp_path / "mine.safetensors").unlink()
    photos, _ = new(n=1)
    assert "mine" not in (tmp_path / "model" / "model.json").read_text()
    assert (hf.load(tmp_path / "model").predict(photos).probabilities == model.predict(photos).probabilities).all()


def test_another_encoder_is_refused_in_one_sentence(fitted, tmp_path, capsys):
    model = tmp_path / "model"
    fitted[1].save(model)
    facts = json.loads((model / "model.json").read_text())
    facts["encoder"]["hash"] = "0123456789abcdef"
    (model / "model.json").write_text(json.dumps(facts))
    with pytest.raises(Mismatch, match="was fitted with pixels of weights 0123456789abcdef"):
        hf.load(model)
    photo(0, 0).save(tmp_path / "a.png")
    code, out, err = call(capsys, "predict", model, tmp_path / "a.png")
    assert code == 2 and not out and err.count("\n") == 1


def test_a_network_that_is_not_installed_is_named_with_its_extra(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(Missing, match=r"\[pretrained\].*--net pixels"):
        hf.fit(folder)
    code, _, err = call(capsys, "fit", folder, "--out", tmp_path / "model")
    assert code == 2 and err.count("\n") == 1 and not (tmp_path / "model").exists()


def test_the_two_verbs(folder, tmp_path, capsys):
    code, out, _ = call(capsys, "fit", folder, "--out", tmp_path / "model", "--net", "pixels")
    assert code == 0 and "expect " in out and out.rstrip().endswith(f"model in {tmp_path / 'model'}")
    code, out, _ = call(capsys, "fit", folder, "--out", tmp_path / "model", "--net", "pixels", "--json")
    assert code == 0 and json.loads(out)["photos"] == 24
    (tmp_path / "new").mkdir()
    for k in range(4):
        photo(k, 50).save(tmp_path / "new" / f"{k}, so.png")
    (tmp_path / "new" / "broken.jpg").write_bytes(b"no")
    table = tmp_path / "answers.csv"
    code, out, err = call(capsys, "predict", tmp_path / "model", tmp_path / "new", "--csv", table)
    assert (
        code == 0
        and len(out.splitlines()) == 5
        and "1 unreadable" in out
        and err.count("broken.jpg is not an image") == 1
    )
    import polars as pl

    frame = pl.read_csv(table)
    assert frame["photo"].to_list() == [f"{tmp_path}/new/{k}, so.png" for k in range(4)]
    assert frame.height == 4 and set(frame["nearest"]) <= set(NAMES)
    code, out, _ = call(capsys, "predict", tmp_path / "model", tmp_path / "new" / "0, so.png", "--json")
    assert code == 0 and json.loads(out)["answers"][0]["nearest"] == "ash"


def wrong_folders(tmp_path, folder):
    empty, one, single, unreadable, loose = (tmp_path / n for n in ("empty", "one", "single", "unreadable", "loose"))
    empty.mkdir()
    write_photos(one, classes=("ash",))
    write_photos(single, each=2, classes=("ash", "fir"))
    (single / "fir" / "01.jpg").unlink()
    (unreadable / "a").mkdir(parents=True)
    (unreadable / "a" / "x.jpg").write_bytes(b"no")
    write_photos(loose)
    photo(0, 0).save(loose / "a.png")
    file = tmp_path / "file.jpg"
    photo(0, 0).save(file)
    return {
        empty: "holds no photos",
        one: "one class",
        single: "'fir' has one photo",
        unreadable: "no photo that can be read",
        loose: "in no class folder",
        file: "neither a folder nor a zip",
        tmp_path / "nowhere": "does not exist",
    }


def test_wrong_photos_are_one_sentence_and_nothing_half_written(tmp_path, folder, capsys):
    before = None
    for place, words in wrong_folders(tmp_path, folder).items():
        before = sorted(p.name for p in tmp_path.iterdir())
        code, out, err = call(capsys, "fit", place, "--out", tmp_path / "model", "--net", "pixels")
        assert (code, out, err.count("\n")) == (2, "", 1) and words in err, err
        assert sorted(p.name for p in tmp_path.iterdir()) == before
    for options in (("--head", "forest"), ("--refuse", "2"), ("--net", "pixles"), ("--net", "clip:folder=x")):
        code, out, err = call(capsys, "fit", folder, "--out", tmp_path / "model", *options)
        assert (code, out, err.count("\n")) == (2, "", 1), err
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "letter.txt").write_text("dear")
    assert call(capsys, "fit", folder, "--out", kept, "--net", "pixels")[0] == 2
    assert (kept / "letter.txt").read_text() == "dear"


def test_wrong_models_are_one_sentence(fitted, tmp_path, capsys):
    good = tmp_path / "good"
    fitted[1].save(good)
    image = tmp_path / "a.png"
    photo(0, 0).save(image)
    learner = tmp_path / "learner"
    hf.methods.NearestCentroid().untrained((8, 8, 3)).save(learner)
    cases = {tmp_path / "nowhere": "not a model folder", learner: "does not hold a classifier of photos"}
    for name, change in {
        "json": lambda p: (p / "model.json").write_text("{"),
        "lacks": lambda p: (p / "model.json").write_text('{"kind": "photos"}'),
        "tensors": lambda p: (p / "model.safetensors").write_bytes(b"no"),
        "gone": lambda p: (p / "model.safetensors").unlink(),
        "shape": lambda p: _reshape(p),
    }.items():
        cases[shutil.copytree(good, tmp_path / name)] = ""
        change(tmp_path / name)
    for place, words in cases.items():
        code, out, err = call(capsys, "predict", place, image)
        assert (code, out, err.count("\n")) == (2, "", 1) and words in err, (place, err)
    assert call(capsys, "predict", good, tmp_path / "no.jpg")[0] == 2
    (tmp_path / "bad.jpg").write_bytes(b"no")
    code, out, err = call(capsys, "predict", good, tmp_path / "bad.jpg", "--csv", tmp_path / "x.csv")
    assert (code, out, err.count("\n")) == (2, "", 1) and not (tmp_path / "x.csv").exists()
    code, _, err = call(capsys, "eval", good, "world", "--tasks", "2")
    assert code == 2 and "classifier of photos" in err
    with pytest.raises(BadInput, match="classifier of photos"):
        hf.methods.load(good)
    assert hf.load(learner).method.name == "nearest-centroid"


def _reshape(path):
    from safetensors.torch import load_file, save_file

    tensors = load_file(path / "model.safetensors")
    save_file({**tensors, "head.means": torch.zeros(4, 7)}, path / "model.safetensors")


def test_dicts_arrays_and_options(fitted):
    photos, _ = new(n=4)
    by_class = {c: [np.asarray(p) for p in photos[4 * k : 4 * k + 4]] for k, c in enumerate(NAMES)}
    model = hf.fit(by_class, net="pixels", head="prototypes", refuse=0.2)
    assert model.report.head == "prototypes" and set(model.report.losses) == {"prototypes"} and model.report.rate == 0.2
    assert len(model.predict(np.stack([np.asarray(p) for p in photos]))) == 16
    assert hf.fit(by_class, net="pixels", head="linear").report.head == "linear"
    with pytest.raises(BadInput, match="one class"):
        hf.fit({"a": photos[:4]}, net="pixels")
