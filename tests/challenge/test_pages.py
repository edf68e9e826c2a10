"""The pages in a real browser: they draw, fit a phone, load nothing from elsewhere and need no scripts."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from around import program

pytest.importorskip("fastapi", reason="needs handful[serve]")
from .test_service import PASSWORD, Site, archive, enter, root, token  # noqa: F401

CHROMIUM = program("chromium") or program("chromium-browser") or program("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: pages are tested without a browser only")


@pytest.fixture(scope="module")
def address(root, tmp_path_factory):  # noqa: F811
    """A served challenge with a few scored entries."""
    import uvicorn

    site = Site(root, tmp_path_factory.mktemp("pages"))
    boss = site.organiser()
    site.advance(boss)
    random = np.random.default_rng(0)
    for i, name in enumerate(("kestrel", "a-team-with-quite-a-long-name", "nightjar", "wren", "dunlin")):
        client = site.participant(name)
        value = 0.75 - 0.08 * i
        enter(site, client, value, datasets={f"d{j}": value + 0.05 * random.normal() for j in range(3)})
    client.post("/account", data={"csrf": token(client, "/account"), "conflicted": "yes", "pseudonym": "Dunlin & Co"})
    site.reader = client
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(site.app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}", site
    server.should_exit = True
    thread.join(10)


def browse(url: str, place, width: int = 1100, height: int = 1400) -> tuple[np.ndarray, str]:
    """A screenshot and the page's text after layout, scripts switched off by the page's own policy."""
    from PIL import Image

    profile = place / "profile"
    common = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
        "--hide-scrollbars",
    ]
    common += ["--disable-dev-shm-usage", "--no-first-run", "--virtual-time-budget=3000"]
    shot = place / "shot.png"
    subprocess.run(
        [*common, f"--window-size={width},{height}", f"--screenshot={shot}", url],
        check=True,
        capture_output=True,
        timeout=120,
    )
    dom = subprocess.run([*common, "--dump-dom", url], check=True, capture_output=True, text=True, timeout=120).stdout
    keep = os.environ.get("HANDFUL_SCREENSHOTS")
    if keep:
        shutil.copy(
            shot,
            os.path.join(keep, f"{url.split('/', 3)[3].replace('/', '-').replace('?', '-') or 'home'}-{width}.png"),
        )
    return np.asarray(Image.open(shot).convert("RGB")), dom


@pytest.mark.parametrize("page", ["", "data", "leaderboard", "register"])
def test_pages_draw_in_a_browser(address, tmp_path, page):
    url, _ = address
    image, dom = browse(f"{url}/{page}", tmp_path)
    assert image.shape[1] == 1100 and len(np.unique(image.reshape(-1, 3), axis=0)) > 50, "something was drawn"
    assert "<script" not in dom and 'src="http' not in dom and 'href="http' not in dom


def test_the_librarys_stylesheet_is_applied(address, tmp_path):
    from handful.report import page

    url, _ = address
    image, _ = browse(f"{url}/", tmp_path)
    text = re.search(r"--paper: #(\w{6})", page.CSS.read_text()).group(1)
    paper = np.array([int(text[i : i + 2], 16) for i in (0, 2, 4)])
    assert (np.abs(image[-10].astype(int) - paper).max(1) <= 2).mean() > 0.9, "the ground has the library's colour"
    assert (image[2] == 255).all(), "the header stands out from it"


def test_a_page_fits_a_phone(address, tmp_path):
    url, _ = address
    image, _ = browse(f"{url}/leaderboard", tmp_path, width=500, height=1600)
    right = image[:, -6:].reshape(-1, 3)
    assert (right.min(1) > 200).mean() > 0.97, "nothing runs over the right edge"
