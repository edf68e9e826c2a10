"""Someone at the studio's page in a real browser."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import numpy as np
from PIL import Image

from challenge.browser import Browser, Person
from handful import world

from .running import Studio, wait

KEYS = {"Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "Home": 36, "Delete": 46}


def drawn(folder: Path, classes: int, each: int, size: int = 48) -> dict[str, list[Path]]:
    """Glyphs of the world as PNG files without any order in their names; class -> its files."""
    collection = world(size=size, images=each, ground=1.0, seed=3)
    column = collection.table[collection.card.labels[0]].cast(str).to_list()
    names = list(dict.fromkeys(column))[:classes]
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Path]] = {}
    for k, name in enumerate(names):
        for i, row in enumerate([r for r, c in enumerate(column) if c == name][:each]):
            pixels = collection.read(np.array([row]))[0]
            path = folder / f"{(i * 7 + k * 3) % 97:02d}-{i}{k}.png"
            Image.fromarray(pixels.squeeze()).save(path)
            found.setdefault(name, []).append(path)
    return found


class Visitor:
    """A tab of the studio's page."""

    def __init__(self, browser: Browser, studio: Studio, path: str = "", height: int = 2600) -> None:
        self.person: Person = browser.person(studio.url)
        self.call = lambda method, **more: browser.call(method, self.person.session, **more)
        self.call("Emulation.setDeviceMetricsOverride", width=1280, height=height, deviceScaleFactor=1, mobile=False)
        self.person.go(path or f"/?token={studio.token}")
        wait(lambda: self.run("!!document.querySelector('#classes button')"), "the page")

    def run(self, script: str) -> object:
        return self.person.run(script)

    def await_(self, script: str) -> object:
        """The value of a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str, what: str = "") -> object:
        wait(lambda: self.run(script), what or script)
        return self.run(script)

    def give(self, selector: str, files: list[Path]) -> None:
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(f) for f in files], nodeId=node)

    def press(self, key: str, shift: bool = False) -> None:
        code = KEYS.get(key, ord(key.upper()[0]))
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        more = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **more, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def click(self, selector: str, shift: bool = False) -> None:
        """A real click in the middle of it."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        more = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **more)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **more)

    def photograph(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        time.sleep(1.2)
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
