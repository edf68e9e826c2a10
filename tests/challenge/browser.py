"""A real browser for a test: chromium over its debugging pipe, one context (cookies of its own) for each person."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import time
from pathlib import Path

from around import program

CHROMIUM = program("chromium") or program("chromium-browser") or program("google-chrome")


class Browser:
    """Use as a context manager; ``person()`` gives a tab with cookies of its own."""

    def __init__(self, profile: Path) -> None:
        self.profile, self.numbers, self.buffer = profile, itertools.count(1), b""

    def __enter__(self) -> Browser:
        their_in, self.out = os.pipe()
        self.into, their_out = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command = [CHROMIUM, *flags, f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"]
        # The browser reads its orders from descriptor 3 and answers on 4.
        script = f'exec "$@" 3<&{their_in} 4>&{their_out} {their_in}<&- {their_out}>&-'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)

    def call(self, method: str, session: str | None = None, **params: object) -> dict:
        """One order and its answer; what the browser says besides is left aside."""
        number = next(self.numbers)
        order = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.out, json.dumps(order).encode() + b"\0")
        end = time.monotonic() + 120
        while time.monotonic() < end:
            while b"\0" in self.buffer:
                raw, _, self.buffer = self.buffer.partition(b"\0")
                said = json.loads(raw)
                if said.get("id") == number:
                    assert "error" not in said, (method, said["error"])
                    return said["result"]
            if select.select([self.into], [], [], 1)[0]:
                self.buffer += os.read(self.into, 1 << 20)
        raise TimeoutError(method)

    def person(self, address: str) -> Person:
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Person(self, session, address)


class Person:
    """Someone at a browser: goes to pages, reads them, fills in forms."""

    def __init__(self, browser: Browser, session: str, address: str) -> None:
        self.browser, self.session, self.address = browser, session, address

    def run(self, script: str) -> object:
        answer = self.browser.call("Runtime.evaluate", self.session, expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def settle(self, before: str) -> str:
        """Wait until another page than the one marked ``before`` is there, and give its text."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                if self.run(f"document.readyState === 'complete' && window.mark !== {before!r}"):
                    return self.text()
            except AssertionError:
                pass
            time.sleep(0.05)
        raise TimeoutError(self.run("document.URL"))

    def mark(self) -> str:
        name = f"page-{next(self.browser.numbers)}"
        self.run(f"window.mark = {name!r}")
        return name

    def go(self, path: str) -> str:
        before = self.mark()
        self.browser.call("Page.navigate", self.session, url=self.address + path)
        return self.settle(before)

    def text(self) -> str:
        return str(self.run("document.body ? document.body.innerText : ''"))

    def send(self, action: str, files: dict[str, Path] | None = None, button: str = "", **fields: str) -> str:
        """Fill in the form with this action and send it as a click on its button does."""
        form = f"document.querySelector('form[action={json.dumps(action)}]')"
        assert self.run(f"!!{form}"), (action, self.text()[:500])
        for name, value in fields.items():
            box = f"{form}.elements[{json.dumps(name)}]"
            self.run(f"if ({box}.type === 'checkbox') {box}.checked = true; else {box}.value = {json.dumps(value)}; 1")
        for name, path in (files or {}).items():
            root = self.browser.call("DOM.getDocument", self.session)["root"]["nodeId"]
            selector = f"form[action={json.dumps(action)}] input[name={name}]"
            node = self.browser.call("DOM.querySelector", self.session, nodeId=root, selector=selector)["nodeId"]
            self.browser.call("DOM.setFileInputFiles", self.session, files=[str(path)], nodeId=node)
        before = self.mark()
        pressed = (
            f"{form}.querySelector('button[value={json.dumps(button)}]')"
            if button
            else f"{form}.querySelector('button')"
        )
        self.run(f"{pressed}.click(); 1")
        return self.settle(before)
