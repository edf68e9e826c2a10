"""fit and predict as people call them: layouts, scores, sorting, pages."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import handful as hf
from handful.errors import BadInput
from handful.photos.answers import NONE, Answers
from handful.photos.expecting import Expected
from handful.photos.scoring import held_out
from handful.photos.sorting import folder_name, sort_into
from photos.conftest import NAMES, photo, write_photos
from photos.test_model import call


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("verbs")
    hf.fit(write_photos(place / "photos", each=8), net="pixels").save(place / "model")
    return place / "model"


def answers_of(p, refused, photos=None):
    return Answers(tuple(photos or [f"{i}.png" for i in range(len(p))]), ("a", "b"), np.array(p), np.array(refused))


def test_a_score_counts_right_refused_and_strangers_as_by_hand():
    found = held_out(
        answers_of([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], [False, False, True, True]),
        ["a", "a", "a", "moose"],
        Expected(0.8, 0.6, 0.95),
    )
    assert (found.photos, found.right, found.answered, found.answered_right) == (3, 2, 2, 1)
    assert (found.strangers, found.strangers_refused) == (1, 1) and found.by_class == {"a": (3, 2, 1), "b": (0, 0, 0)}
    low, high = found.interval  # Wilson for 2 of 3: (p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)
    assert low == pytest.approx(0.2077, abs=1e-3) and high == pytest.approx(0.9385, abs=1e-3)
    assert "2 of 3 right" in str(found) and "80% (60 to 95) was expected" in str(found)
    with pytest.raises(BadInput, match="no photo there is of a class that the model knows"):
        held_out(answers_of([[1.0, 0.0]], [False]), ["moose"], Expected(0.8, 0.6, 0.95))


def test_predict_ends_with_a_summary_and_scores_a_labelled_folder(model, tmp_path, capsys):
    held = write_photos(tmp_path / "held", each=5, first=40)
    for i in range(5):
        (held / "zebra").mkdir(exist_ok=True)
        photo(17, i).save(held / "zebra" / f"{i}.png")
    code, out, _ = call(capsys, "predict", model, held, "--score", "--page", tmp_path / "page.html")
    assert code == 0 and "25 photos: " in out and "of 20 right" in out and "of 5 photos of other classes" in out
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") >= 25 and "None of these" in page and 'alt="' in page
    code, out, _ = call(capsys, "predict", model, held, "--score", "--json")
    facts = json.loads(out)
    assert facts["score"]["photos"] == 20 and sum(facts["counts"].values()) == 25
    code, out, err = call(capsys, "predict", model, held, held, "--score")
    assert code == 2 and not out and "--score takes one folder" in err


def test_names_with_markup_are_shown_as_text(model, tmp_path, capsys):
    (tmp_path / "new").mkdir()
    photo(0, 9).save(tmp_path / "new" / "<img src=x onerror=alert(1)>.png")
    code, _, _ = call(capsys, "predict", model, tmp_path / "new", "--page", tmp_path / "page.html")
    assert code == 0 and "<img src=x" not in (tmp_path / "page.html").read_text()


def test_photos_are_sorted_into_folders_and_none_is_lost(model, tmp_path, capsys):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        photo(0, 50 + len(place)).save(tmp_path / place / "same.png")
    code, _, _ = call(capsys, "predict", model, tmp_path / "one", tmp_path / "two", "--sort-into", tmp_path / "sorted")
    files = [p for p in (tmp_path / "sorted").rglob("*") if p.is_file()]
    assert code == 0 and len(files) == 2 and {p.parent.name for p in files} <= {*NAMES, NONE}
    assert (tmp_path / "one" / "same.png").is_file()
    code, _, err = call(capsys, "predict", model, tmp_path / "one", "--sort-into", tmp_path / "sorted")
    assert code == 2 and "is there already" in err
    with pytest.raises(BadInput, match="no file of its own"):
        sort_into(answers_of([[1.0, 0.0]], [False], ["nowhere.png"]), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["../../etc", "/root", "a/b", "..", "con\x00x", "C:\\x", "x" * 400])
def test_a_class_name_never_leads_out_of_the_folder(name, tmp_path):
    made = tmp_path / folder_name(name)
    made.mkdir()
    assert made.resolve().parent == tmp_path.resolve()


def test_fit_reads_tables_zips_and_packed_collections(tmp_path, capsys):
    folder = write_photos(tmp_path / "photos", each=4)
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*"))
    flat = tmp_path / "flat"
    flat.mkdir()
    rows = ["file;day;species"]
    for i, f in enumerate(files):
        name = f"{i}{f[f.rindex('.') :]}"
        (flat / name).write_bytes((folder / f).read_bytes())
        rows.append(f"{name};{i % 3};{f.split('/')[0]}")
    (flat / "labels.csv").write_text("\n".join(rows))
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as out:
        for f in files:
            out.write(folder / f, f)
    code, _, err = call(capsys, "fit", flat, "--out", tmp_path / "m", "--net", "pixels")
    assert code == 2 and "of which any may be the class; say which" in err and not (tmp_path / "m").exists()
    code, out, _ = call(capsys, "fit", flat, "--out", tmp_path / "m", "--net", "pixels", "--set", "labels=species")
    assert code == 0 and out.startswith("16 photos of 4 classes, 4 each")
    code, out, _ = call(capsys, "fit", tmp_path / "photos.zip", "--out", tmp_path / "m", "--net", "pixels")
    assert code == 0 and out.startswith("16 photos of 4 classes")
    assert call(capsys, "data", "pack", folder, tmp_path / "packed", "--size", "32")[0] == 0
    code, out, _ = call(capsys, "fit", tmp_path / "packed", "--out", tmp_path / "m", "--net", "pixels")
    assert code == 0 and out.startswith("16 photos of 4 classes")
    code, out, _ = call(capsys, "predict", tmp_path / "m", tmp_path / "photos.zip", tmp_path / "packed")
    assert code == 0 and "32 photos: " in out


def test_what_cannot_be_written_is_said_before_the_work(model, tmp_path, capsys):
    photo(0, 1).save(tmp_path / "a.png")
    for option in ("--csv", "--page"):
        code, out, err = call(capsys, "predict", model, tmp_path / "a.png", option, tmp_path)
        assert code == 2 and not out and err.count("\n") == 1 and f"{option} {tmp_path} is a folder" in err


def test_the_page_of_a_fit_shows_what_looks_mislabelled(tmp_path, capsys):
    folder = write_photos(tmp_path / "photos", each=8)
    photo(1, 99).save(folder / "ash" / "oops.png")
    code, out, _ = call(
        capsys, "fit", folder, "--out", tmp_path / "m", "--net", "pixels", "--page", tmp_path / "fit.html"
    )
    page = (tmp_path / "fit.html").read_text()
    assert code == 0 and "ash/oops.png (looks like birch" in out
    assert "Look mislabelled" in page and "labelled ash; looks like birch" in page and "data:image/jpeg" in page


def test_answers_and_reports_are_shown_in_notebooks(model):
    ready = hf.load(model)
    answers = ready.predict([photo(0, 70), photo(30, 3)])
    assert "<table>" in answers._repr_html_() and answers.summary in answers._repr_html_()
    assert "<li>expect " in ready.report._repr_html_()
