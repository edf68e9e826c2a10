"""The studio's server: who is heard, what two tabs see of each other, what a kill leaves, photos of every kind."""

from __future__ import annotations

import io

import httpx
import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="needs handful[serve]")

from photos.conftest import photo, write_photos

from .running import Studio, wait


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """One server for all tests that only look, or label and take it back."""
    folder = tmp_path_factory.mktemp("studio")
    write_photos(folder, each=3)
    for i in range(4):
        photo(0, 50 + i).save(folder / f"new-{i}.png")
    photo(1, 0).save(folder / "again.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff no photo")
    (folder / "drawing.psd").write_bytes(b"8BPS")
    (folder / "empty.png").write_bytes(b"")
    with Studio(folder) as found:
        found.folder = folder
        found.embedded()
        yield found


def test_only_the_token_lets_in(studio):
    with httpx.Client(base_url=studio.url) as stranger:
        for path in ("/", "/api/changes", "/thumb/0", "/studio.js", "/?token=wrong", "/carry/model.zip"):
            assert stranger.get(path).status_code == 403, path
        assert stranger.post("/api/undo", json={}).status_code == 403
        answer = stranger.get(f"/?token={studio.token}")
        assert answer.status_code == 303 and answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert stranger.get("/").status_code == 200, "the cookie is enough from then on"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
    ],
)
def test_a_page_of_another_origin_is_refused_even_with_the_token(studio, headers, status):
    for path in ("/api/changes", "/thumb/0"):
        assert studio.client.get(path, headers=headers).status_code == status
    assert studio.client.post("/api/undo", json={}, headers=headers).status_code == status


def test_every_answer_forbids_framing_sniffing_and_foreign_scripts(studio):
    for path in ("/", "/api/changes", "/nowhere", "/thumb/99999"):
        headers = studio.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_class_folders_become_labels_and_broken_files_are_listed_with_the_reason(studio):
    rows = {row[1]: row for row in studio.changes()["photos"]}
    assert rows["ash/00.png"][2] == "ash" and rows["new-0.png"][2] is None
    assert rows["broken.jpg"][3] == rows["drawing.psd"][3] == rows["empty.png"][3] == "broken"
    assert rows["empty.png"][4] == "is empty" and ".psd" in rows["drawing.psd"][4]
    assert studio.client.get(f"/thumb/{rows['broken.jpg'][0]}").status_code == 404
    assert rows["new-0.png"][3] == "ready" and rows["new-0.png"][5] is None


def test_a_thumbnail_is_small_and_is_not_sent_twice(studio):
    number = studio.numbers()["ash/00.png"]
    answer = studio.client.get(f"/thumb/{number}")
    assert Image.open(io.BytesIO(answer.content)).size == (160, 160)
    again = studio.client.get(f"/thumb/{number}", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_a_tab_is_told_what_changed_and_no_more(studio):
    numbers, before = studio.numbers(), studio.changes()
    studio.post("/api/label", photos=[numbers["new-0.png"]], label="ash")
    news = studio.changes(before["version"])
    assert [(r[1], r[2]) for r in news["photos"]] == [("new-0.png", "ash")]
    assert studio.changes(news["version"])["photos"] == []
    studio.post("/api/undo")
    assert [(r[1], r[2]) for r in studio.changes(news["version"])["photos"]] == [("new-0.png", None)]


def test_suggestions_name_the_class_that_photos_were_drawn_from(studio):
    found = studio.findings(lambda f: len(f.get("classes", [])) == 4)
    numbers = studio.numbers()
    said = {n: (label, p) for n, label, p, refused in found["suggestions"]}
    assert [said[numbers[f"new-{i}.png"]][0] for i in range(4)] == ["ash"] * 4
    assert numbers["ash/00.png"] not in said, "a labelled photo needs no suggestion"
    assert found["expected"]["low"] <= found["expected"]["accuracy"] <= found["expected"]["high"]
    why = studio.client.get(f"/api/why/{numbers['new-1.png']}").json()
    near = {v: k for k, v in numbers.items()}[why["near"][0][0]]
    assert near.startswith("ash/") and why["answers"][0][0] == "ash"


def test_what_is_carried_away_answers_as_the_studio_does(studio, tmp_path):
    import zipfile

    import polars as pl

    import handful as hf

    found = studio.findings(lambda f: len(f.get("classes", [])) == 4)
    numbers = {v: k for k, v in studio.numbers().items()}
    answers = studio.client.get("/carry/answers.csv")
    assert "attachment" in answers.headers["content-disposition"]
    rows = {r["photo"]: r for r in pl.read_csv(answers.content).iter_rows(named=True)}
    zipfile.ZipFile(io.BytesIO(studio.client.get("/carry/model.zip").content)).extractall(tmp_path)
    model = hf.load(tmp_path / "model")
    for n, label, p, _ in found["suggestions"]:
        said = model.predict(studio.folder / numbers[n])
        assert rows[numbers[n]]["nearest"] == label == said.frame["nearest"][0]
        assert abs(said.probabilities.max() - p) < 1e-3 > abs(rows[numbers[n]]["probability"] - p)
    again = hf.fit(studio.folder, net="pixels", layout="csv")
    assert again.classes == model.classes, "the table is what fit reads"


def test_what_a_network_cannot_do_is_a_sentence(studio):
    studio.findings()
    for path in ("/heat/0", "/carry/app.html"):
        answer = studio.client.get(path)
        assert answer.status_code == 400 and "lite2" in answer.json()["error"]


@pytest.mark.parametrize("strategy", ["auto", "random", "margin", "diverse", "typical"])
def test_what_to_label_next_is_a_photo_without_a_label(studio, strategy):
    found = studio.client.get("/api/next", params={"strategy": strategy, "count": 50}).json()["photos"]
    rows = {row[0]: row for row in studio.changes()["photos"]}
    assert len(found) == len(set(found)) == 5
    assert all(rows[n][2] is None and rows[n][3] == "ready" for n in found)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/label", {"photos": [0], "label": "x" * 101}),
        ("/api/label", {"photos": [99999], "label": "x"}),
        ("/api/label", {"photos": "all", "label": "x"}),
        ("/api/label", {"photos": [-1], "label": "x"}),
        ("/api/labels", {"labels": {"one": "x"}}),
        ("/api/class", {"name": "a\x00b"}),
    ],
)
def test_a_request_that_makes_no_sense_gets_a_sentence(studio, path, body):
    before = studio.changes()["version"]
    answer = studio.client.post(path, json=body)
    assert answer.status_code in (400, 422) and answer.json()["error"]
    assert studio.changes()["version"] == before


def png(number: int) -> bytes:
    stream = io.BytesIO()
    photo(2, number).save(stream, "PNG")
    return stream.getvalue()


def test_dropped_files_are_kept_under_safe_names(tmp_path):
    folder = tmp_path / "inner" / "photos"
    with Studio(folder) as studio:
        drop = lambda name, data: studio.client.post("/api/drop", params={"name": name}, content=data)  # noqa: E731
        assert drop("trip/a.png", png(1)).json() == {"name": "trip/a.png"}
        assert drop("trip/a.png", png(1)).json() == {"name": "trip/a.png"}, "the same file again is the same file"
        assert drop("trip/a.png", png(2)).json() == {"name": "trip/a (2).png"}, "another of that name is not lost"
        markup = "<img src=x onerror=alert(1)>.png"
        assert drop(markup, png(3)).json() == {"name": markup}
        for name in (
            "../../evil.png",
            "/etc/evil.png",
            ".hidden.png",
            "a/../../../b.png",
            "\\..\\c.png",
            "d.exe",
            "",
            "a\nb.png",
        ):
            answer = drop(name, png(4))
            inside = folder / "etc" / "evil.png"
            assert answer.status_code == 400 or inside.exists(), name
        studio.post("/api/scan")
        rows = {r[1] for r in studio.embedded()["photos"]}
        assert {"trip/a.png", "trip/a (2).png", markup} <= rows
    assert {p.name for p in tmp_path.rglob("*.png")} == {"a.png", "a (2).png", markup, "evil.png"}
    assert not (tmp_path / "evil.png").exists() and not (tmp_path / "inner" / "evil.png").exists()


def test_kill_nine_loses_no_label_and_no_embedding(tmp_path):
    for i in range(12):
        photo(i % 3, i).save(tmp_path / f"{i:02d}.png")
    studio = Studio(tmp_path).start()
    try:
        epoch = studio.embedded()["epoch"]
        numbers = studio.numbers()
        for i in range(12):
            studio.post("/api/label", photos=[numbers[f"{i:02d}.png"]], label="abc"[i % 3])
        studio.post("/api/undo")
    finally:
        studio.kill()
    with Studio(tmp_path) as again:
        assert again.labels() == {f"{i:02d}.png": "abc"[i % 3] for i in range(11)}
        assert again.changes()["epoch"] != epoch, "a tab from before must ask for everything again"
        stale = again.client.get("/api/changes", params={"since": 10**6, "epoch": epoch}).json()
        assert len(stale["photos"]) == 12
        again.post("/api/undo")
        assert "10.png" not in again.labels() and len(again.labels()) == 10
    text = (tmp_path / "labels.csv").read_text()
    assert text.startswith("file,label\n") and text.count("\n") == 11


def test_kinds_of_photos(tmp_path):
    base = photo(0, 1, (64, 64), noise=0)
    base.save(tmp_path / "plain.png")
    base.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=98)
    base.save(tmp_path / "w.webp", lossless=True)
    base.save(tmp_path / "g.gif")
    Image.fromarray(np.asarray(base.convert("L")).astype(np.uint16) << 8).save(tmp_path / "deep.png")
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was held upright: the viewer turns the picture by a quarter clockwise
    base.rotate(90, expand=True).save(tmp_path / "turned.png", exif=turned)
    with Studio(tmp_path) as studio:
        rows = {r[1]: r for r in studio.embedded()["photos"]}
        assert {r[3] for r in rows.values()} == {"ready"}, rows
        same = {rows[n][0] if rows[n][5] is None else rows[n][5] for n in ("plain.png", "turned.png", "w.webp")}
        assert len(same) == 1, "the same picture in three files is found three times"


def test_what_a_network_lacks_is_said_on_the_page(tmp_path):
    photo(0, 0).save(tmp_path / "a.png")
    with Studio(tmp_path, net="resnet18:weights=nowhere.safetensors") as studio:
        wait(lambda: studio.changes()["progress"]["trouble"], "the sentence")
        assert "nowhere.safetensors" in studio.changes()["progress"]["trouble"]
        studio.post("/api/label", photos=[0], label="still kept")
        assert studio.labels() == {"a.png": "still kept"}


def test_a_file_where_the_folder_should_be(tmp_path, capfd):
    from handful.cli import main

    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as end:
        main(["studio", str(tmp_path / "file"), "--no-browser"])
    assert end.value.code == 2 and "is a file" in capfd.readouterr().err
