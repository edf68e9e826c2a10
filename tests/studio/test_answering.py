"""`predict --serve`: what programs on this machine get, and pages of other origins do not."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")

import handful as hf
from photos.conftest import photo, write_photos

from .running import wait


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = tmp_path_factory.mktemp("answering")
    model = hf.fit(write_photos(place / "photos"), net="pixels")
    model.save(place / "model")
    process = subprocess.Popen(
        [sys.executable, "-m", "handful", "predict", str(place / "model"), "--serve"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline()).group()
        with httpx.Client(base_url=url, timeout=60) as client:
            wait(lambda: answers(client), "the server")
            yield model, client
    finally:
        process.kill()
        process.wait()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/classes").status_code == 200
    except httpx.TransportError:
        return False


def png(kind: int, number: int) -> bytes:
    stream = io.BytesIO()
    photo(kind, number).save(stream, "PNG")
    return stream.getvalue()


def test_it_answers_as_predict_does(served):
    model, client = served
    assert client.get("/classes").json() == list(model.classes)
    for kind in range(4):
        found = client.post("/answer", content=png(kind, 40)).json()
        wanted = model.predict(photo(kind, 40))
        assert found["answer"] == wanted.answers[0]
        np.testing.assert_allclose(list(found["probabilities"].values()), wanted.probabilities[0], atol=1e-9)
        assert found["nearest"] == ("ash", "birch", "cedar", "fir")[kind]


def test_what_is_no_photo_gets_a_sentence(served):
    _, client = served
    answer = client.post("/answer", params={"name": "x.png"}, content=b"no photo")
    assert answer.status_code == 400 and answer.json() == {"error": "x.png is not an image"}
    assert client.post("/answer", content=b"").status_code == 400


def test_pages_of_other_origins_are_refused(served):
    _, client = served
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}):
        assert client.post("/answer", content=png(0, 1), headers=headers).status_code == 403
    assert client.get("/classes", headers={"Host": "evil.example"}).status_code == 421


def test_it_describes_itself(served):
    _, client = served
    facts = client.get("/openapi.json").json()
    assert set(facts["paths"]) == {"/answer", "/classes"}
    assert "image/*" in facts["paths"]["/answer"]["post"]["requestBody"]["content"]
    assert "POST /answer" in client.get("/").text


@pytest.mark.parametrize("words", [[], ["--serve", "a.png"], ["--serve", "--json"], ["a.png", "--port", "9000"]])
def test_words_that_do_not_go_together(tmp_path, words, capsys):
    from handful.cli import main

    with pytest.raises(SystemExit) as end:
        main(["predict", str(tmp_path), *words])
    assert end.value.code == 2 and capsys.readouterr().err.startswith("handful: ")
