"""The whole audit: a folder of one's own photos, the page, JSON and data frame, features of a file, wrong input."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

import handful as hf
from handful import registry
from handful.audits.context import Context, features_of, fewer
from handful.audits.finding import TOPICS, Diagnosis, Finding, first_clause
from handful.cli import main
from handful.errors import BadInput, Mismatch
from made.patterns import blobs

ALL = [name for name in registry.table("diagnoses") if name != "cscc"]
LACK = {
    "columns",
    "context-alone",
    "context-gap",
    "context-probe",
    "image-text",
    "composition",
    "structural-bias",
    "encoder-seen",
}


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Ten classes of twenty images of several sizes and formats, one image twice, one of one colour."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("own photos")
    for c in range(10):
        colour = rng.integers(0, 256, (4, 5, 3))
        (folder / f"class {c}").mkdir()
        for i in range(20):
            size = (60 + 7 * (i % 3), 48 + 5 * (i % 4))
            pixels = np.asarray(Image.fromarray(colour.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC))
            noisy = np.clip(pixels + rng.normal(0, 40, pixels.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"class {c}" / f"{i:02d}.{'png' if i % 2 else 'jpg'}")
    Image.fromarray(np.full((50, 50, 3), 128, np.uint8)).save(folder / "class 3" / "04.jpg")
    (folder / "class 5" / "01.png").write_bytes((folder / "class 2" / "01.png").read_bytes())
    return folder


class Outline(HTMLParser):
    """Headings, and every figure's words."""

    def __init__(self):
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.alts: list[str] = []

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        if "id" in known:
            self.ids.append(known["id"])
        if tag == "a":
            self.links.append(known.get("href", ""))
        if known.get("role") == "img" and tag == "div":
            self.alts.append(known.get("aria-label", ""))


def test_files_that_cannot_be_read_are_counted_and_named(capsys, photos, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    (folder / "class 1" / "07.png").write_bytes(b"no picture at all")
    whole = (folder / "class 2" / "02.jpg").read_bytes()
    (folder / "class 2" / "02.jpg").write_bytes(whole[: len(whole) // 3])
    code, out, err = call(capsys, "audit", str(folder), "--net", "pixels", "--only", "unreadable", "--json")
    assert code == 0, err
    (found,) = json.loads(out)["findings"]
    assert [file for file, _ in found["details"]["unread"]] == ["class 1/07.png", "class 2/02.jpg"]
    assert found["value"] == pytest.approx(3 / 200) and found["sentence"].startswith("2 files could not be read")
    code, _, err = call(capsys, "data", "stats", str(folder))
    assert code == 2 and "unreadable" in err  # other commands still refuse such a folder


def test_a_folder_of_photos_is_audited_without_further_information(capsys, photos, tmp_path):
    page = tmp_path / "own.html"
    only = [x for name in ALL if name not in LACK for x in ("--only", name)]
    net = "mlp:hidden=0,out=16"
    code, out, err = call(capsys, "audit", str(photos), "--net", net, *only, "--out", str(page), "--json")
    assert code == 0, err
    facts = json.loads(out)
    found = {f["name"]: f for f in facts["findings"]}
    assert found["unreadable"]["details"]["images"] and found["copies-across-classes"]["details"]["exact_copies"] == 2
    assert any("all classes were used" in note for note in facts["notes"]) and facts["net"] == net
    assert set(found["score-split"]["details"]["missing"]) == {"the context", "the nearest class"}
    assert {f["diagnosis"] for f in facts["findings"]} == set(ALL) - LACK
    for f in found.values():
        assert (
            f["sentence"]
            and f["threshold"]
            and f["over"]
            and f["light"] in ("green", "amber", "red", "grey")
            and f["alt"]
        )
        assert f["topic"] in TOPICS and f["question"]
    html = page.read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(html)
    assert html.index('id="the-verdict"') < html.index("<article") and facts["verdict"].split(".")[0] in html
    assert len(set(outline.ids)) == len(outline.ids) and len(outline.alts) == len(found) and all(outline.alts)
    assert {x[1:] for x in outline.links} <= set(outline.ids)
    assert (
        not re.search(r'(src|href)="(https?:)?//', html) and "prefers-color-scheme" in html and "@media print" in html
    )


def test_the_same_facts_as_data_frame_json_and_csv(tmp_path):
    result = hf.audit(blobs(), only=["imbalance", "power"], net="mlp:hidden=0,out=8")
    frame = result.frame
    assert frame["name"].to_list() == [f["name"] for f in result.as_dict()["findings"]] == ["imbalance", "power"]
    assert frame["value"].to_list() == pytest.approx([f["value"] for f in result.as_dict()["findings"]])
    for name in ("a.json", "a.csv", "a.html"):
        assert result.save(tmp_path / name).stat().st_size > 100
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(result.as_dict()))
    with pytest.raises(BadInput, match=r"\.html, \.json or \.csv"):
        result.save(tmp_path / "a.docx")
    assert result.verdict in str(result) and "imbalance" in result._repr_html_()


def test_what_cannot_run_is_named_with_its_reason():
    result = hf.audit(blobs(), net="pixels", minutes=0.0001)
    assert "not a pair" in result.left_out["composition"]
    late = [n for n, why in result.left_out.items() if "used up" in why]
    assert "score-split" in late and len(result.findings) + len(result.left_out) >= len(registry.table("diagnoses"))
    assert "What was not run" in result.html()


def test_features_of_a_file_take_the_place_of_a_net(tmp_path, capsys):
    c = blobs()
    x = np.eye(15, dtype=np.float32)[c.whole.classes] + np.random.default_rng(0).normal(0, 0.1, (len(c), 15)).astype(
        np.float32
    )
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", features=x, labels=c.whole.classes)
    for name in ("x.npy", "x.npz"):
        np.testing.assert_array_equal(features_of(tmp_path / name, c), x)
    result = hf.audit(c, features=tmp_path / "x.npy", only=["cscc-frozen"], minutes=0.05)
    assert result.net == "given features" and result.findings[0].value > 0.95
    folder = str(c.save(tmp_path / "packed").path)
    np.save(tmp_path / "short.npy", x[:-1])
    np.save(tmp_path / "nan.npy", np.where(np.arange(len(x))[:, None] == 3, np.nan, x))
    for file, words in (("short.npy", "rows"), ("nan.npy", "image 3"), ("none.npy", "does not exist")):
        code, _, err = call(capsys, "audit", folder, "--features", str(tmp_path / file))
        assert code == 2 and words in err and err.count("\n") <= 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "cscd"), "did you mean"),
        (("--net", "nothing"), "no net named"),
        (("--minutes", "0"), "above 0"),
        (("--planned", "1"), "two planned"),
        (("--split", "nowhere"), "no images in split"),
        (("--out", "page.pdf"), ".html"),
        (("--rule", "n-wey"), "did you mean"),
        (("--only", "composition"), "not a pair"),
    ],
)
def test_wrong_input_is_one_sentence(capsys, tmp_path, arguments, words):
    folder = str(blobs(n_classes=12, each=8).save(tmp_path / "packed").path)
    code, _, err = call(capsys, "audit", folder, *(() if "--net" in arguments else ("--net", "pixels")), *arguments)
    assert code == 2 and words in " ".join(err.split()), err
    assert "Traceback" not in err


def test_only_images_that_tasks_need_are_looked_at_and_each_once():
    c = blobs(n_classes=20, each=40)
    context = Context(c, net="pixels")
    read: list[int] = []
    look = context.view._embed
    context.view._embed = lambda images: (read.append(len(images)), look(images))[1]
    part = context.view.like(fewer(context.part, 60, 0))
    assert len(part) <= 60 and part.n_classes >= 5
    for _ in range(2):
        for episode in context.tasks(part=fewer(context.part, 60, 0)).draw_block(0, 0, 3):
            context.view.read(episode.query)
    assert sum(read) == context.view.seen <= 60


def test_a_diagnosis_of_ones_own_is_one_class_and_one_line(monkeypatch):
    class Size(Diagnosis):
        name, question, topic = "size", "How many images are there?", "clean"

        def run(self, context):
            n = float(len(context.collection))
            return [Finding(self.name, f"there are {n:.0f} images; no more", n, n, n, "nothing", "none", "green")]

    table = {**registry.table("diagnoses"), "size": "somewhere:Size"}
    get = registry.get
    monkeypatch.setattr(registry, "table", lambda kind: table)
    monkeypatch.setattr(registry, "get", lambda kind, name: Size if name == "size" else get(kind, name))
    result = hf.audit(blobs(), only=["size"], net="pixels")
    assert result.findings[0].value == 450 and "There are 450 images." in result.html()
    assert first_clause("a (b; c) d; e") == "A (b; c) d"


def test_rows_of_features_must_fit():
    with pytest.raises(Mismatch, match="rows of features"):
        Context(blobs(), features=np.zeros((3, 2), np.float32))
