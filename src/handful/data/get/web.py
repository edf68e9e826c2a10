"""Asking a server: no schemes but http and https, few redirects and none to a weaker one, no endless waits."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from handful._version import __version__

PAGE_TYPES = ("text/html", "application/xhtml")
PAGE_STARTS = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<body", b"<script", b"<!--")
MAGIC = {".zip": (b"PK\x03\x04", b"PK\x05\x06"), ".gz": (b"\x1f\x8b",), ".tgz": (b"\x1f\x8b",)}


@dataclass(frozen=True)
class Patience:
    """How long to bear with a server.

    ``stall`` seconds without a kilobyte end a connection; ``tries`` connections in a row with less than 64 KB end a
    mirror; ``pause`` seconds pass before the second one, doubled for each further; ``redirects`` are followed.
    """

    stall: float = 30.0
    tries: int = 4
    pause: float = 1.0
    redirects: int = 5


class Failed(Exception):
    """A mirror did not give the file; ``again`` where asking it once more may help."""

    def __init__(self, reason: str, retry: bool = False):
        super().__init__(reason)
        self.retry = retry


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    """Handlers by hand: `build_opener` would bring file, ftp and data along."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        _NoRedirect(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


@contextmanager
def ask(url: str, headers: dict[str, str], patience: Patience) -> Iterator[Any]:
    """The answer to a GET after redirects; `Failed` for anything but a success (416 is given to the caller)."""
    opener, sent = _opener(), {"User-Agent": f"handful/{__version__}", "Accept-Encoding": "identity", **headers}
    for _ in range(patience.redirects + 1):
        try:
            answer = opener.open(urllib.request.Request(url, headers=sent), timeout=patience.stall)
        except urllib.error.HTTPError as error:
            answer = error
        except TimeoutError as error:
            raise Failed(f"did not answer within {patience.stall:g} s", retry=True) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise Failed(f"did not answer within {patience.stall:g} s", retry=True) from error
            raise Failed(f"cannot be reached ({reason})", retry=not isinstance(reason, ssl.SSLError)) from error
        with answer:
            status = answer.status
            if status in (301, 302, 303, 307, 308):
                url = _next(url, answer.headers.get("Location"))
                continue
            if status not in (200, 206, 416):
                again = status in (408, 425, 429) or status >= 500
                raise Failed(f"answered {status} {http.client.responses.get(status, '')}".strip(), again)
            yield answer
            return
    raise Failed(f"redirects more than {patience.redirects} times")


def _next(url: str, location: str | None) -> str:
    if not location:
        raise Failed("redirects to nowhere")
    goal = urljoin(url, location)
    scheme = urlsplit(goal).scheme.lower()
    if scheme not in ("http", "https"):
        raise Failed(f"redirects to {scheme}:, which is not followed")
    if urlsplit(url).scheme.lower() == "https" and scheme == "http":
        raise Failed("redirects from https to http, which is not followed")
    return goal


def refuse_page(content_type: str | None, start: bytes, file: str) -> None:
    """A page where an archive should be: quota, login and error pages come with status 200."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if kind in PAGE_TYPES or text.startswith(PAGE_STARTS):
        raise Failed("gave a web page instead of the file (a quota, login or error page)")
    wanted = next((m for ending, m in MAGIC.items() if file.lower().endswith(ending)), None)
    if wanted is not None and start and not any(start.startswith(m[: len(start)]) for m in wanted):
        raise Failed(f"gave something that is not a {file.rpartition('.')[2]} file")
