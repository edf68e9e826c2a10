"""A local server that behaves as badly as asked: cuts, corrupts, redirects, stalls, answers with pages."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[["Handler", bytes], None]


class Shop(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.behaviours: dict[str, Behaviour] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()

    def put(self, name: str, data: bytes, behaviour: Behaviour | None = None) -> str:
        """Offer ``data``; the address it has."""
        self.files[f"/{name}"] = data
        if behaviour is not None:
            self.behaviours[f"/{name}"] = behaviour
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"

    def ranges(self, name: str) -> list[str | None]:
        """The Range header of every request for a file."""
        return [headers.get("Range") for path, headers in self.asked if path.partition("?")[0] == f"/{name}"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Shop

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        path = self.path.partition("?")[0]
        self.close_connection = True
        if path not in self.server.files:
            self.send_error(404)
            return
        try:
            self.server.behaviours.get(path, honest)(self, self.server.files[path])
        except (BrokenPipeError, ConnectionResetError):
            pass

    def start(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def begin(handler: Handler, data: bytes, *, ranges: bool = True, etag: str | None = "") -> bytes:
    """Send the head of an honest answer; the bytes that should follow."""
    wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    mark = tag(data) if etag == "" else etag
    more = {"ETag": mark} if mark else {}
    unchanged = handler.headers.get("If-Range") in (None, mark)
    if ranges and wanted and unchanged:
        start = int(wanted[1])
        if start >= len(data):
            handler.start(416, Content_Range=f"bytes */{len(data)}", Content_Length=0)
            return b""
        rest = data[start:]
        place = f"bytes {start}-{len(data) - 1}/{len(data)}"
        handler.start(206, Content_Length=len(rest), Content_Range=place, **more)
        return rest
    handler.start(200, Content_Length=len(data), Content_Type="application/octet-stream", **more)
    return data


def honest(handler: Handler, data: bytes) -> None:
    handler.wfile.write(begin(handler, data))


def cut(after: int, times: int = 1 << 30, **options: object) -> Behaviour:
    """Close the connection after some bytes of each of the first ``times`` answers."""
    done = [0]

    def behave(handler: Handler, data: bytes) -> None:
        done[0] += 1
        body = begin(handler, data, **options)  # type: ignore[arg-type]
        handler.wfile.write(body[:after] if done[0] <= times else body)

    return behave


def leaves(after: int) -> Behaviour:
    """The first answer is cut, and then the file is gone."""
    done = [0]

    def behave(handler: Handler, data: bytes) -> None:
        done[0] += 1
        if done[0] == 1:
            handler.wfile.write(begin(handler, data)[:after])
        else:
            handler.start(404, Content_Length=0)

    return behave


def corrupt(handler: Handler, data: bytes) -> None:
    body = bytearray(begin(handler, data))
    body[len(body) // 2] ^= 0xFF
    handler.wfile.write(bytes(body))


def ignores_ranges(after: int) -> Behaviour:
    """The first answer is cut, and later ones start over whatever is asked."""
    return cut(after, 1, ranges=False)


def changes(after: int, old: bytes) -> Behaviour:
    """Another version, with another tag, was there when the first connection was cut."""
    done = [0]

    def behave(handler: Handler, data: bytes) -> None:
        done[0] += 1
        if done[0] == 1:
            handler.wfile.write(begin(handler, old)[:after])
        else:
            honest(handler, data)

    return behave


def changes_silently(after: int, old: bytes) -> Behaviour:
    """As above, but ranges of the new version are given for the old one's tag."""
    done = [0]

    def behave(handler: Handler, data: bytes) -> None:
        done[0] += 1
        del handler.headers["If-Range"]
        handler.wfile.write(begin(handler, old)[:after] if done[0] == 1 else begin(handler, data))

    return behave


def misplaced(after: int) -> Behaviour:
    """Says that it continues, but sends the beginning again."""

    def behave(handler: Handler, data: bytes) -> None:
        body = begin(handler, data)
        if len(body) == len(data):
            asked = [h for p, h in handler.server.asked if p == handler.path]
            handler.wfile.write(data[:after] if len(asked) == 1 else data)
        else:
            handler.wfile.write(data[: len(body)])

    return behave


def stalls(after: int) -> Behaviour:
    def behave(handler: Handler, data: bytes) -> None:
        handler.wfile.write(begin(handler, data)[:after])
        handler.wfile.flush()
        handler.server.closing.wait(60)

    return behave


def drips(handler: Handler, data: bytes) -> None:
    """A byte at a time, for as long as the client bears it."""
    begin(handler, data)
    for i in range(len(data)):
        handler.wfile.write(data[i : i + 1])
        handler.wfile.flush()
        if handler.server.closing.wait(0.05):
            return


def redirects(to: str, status: int = 302) -> Behaviour:
    def behave(handler: Handler, data: bytes) -> None:
        handler.start(status, Location=to, Content_Length=0)

    return behave


def page(kind: str = "text/html; charset=utf-8") -> Behaviour:
    body = b"\n<!DOCTYPE html><html><body>Too many users have viewed or downloaded this file recently.</body></html>"

    def behave(handler: Handler, data: bytes) -> None:
        handler.start(200, Content_Type=kind, Content_Length=len(body))
        handler.wfile.write(body)

    return behave


def fails(status: int, times: int = 1 << 30) -> Behaviour:
    done = [0]

    def behave(handler: Handler, data: bytes) -> None:
        done[0] += 1
        if done[0] > times:
            honest(handler, data)
        else:
            handler.start(status, Content_Length=0)

    return behave


def unmeasured(handler: Handler, data: bytes) -> None:
    """No length, no ranges: the end of the connection is the end of the file."""
    handler.start(200, Content_Type="application/octet-stream")
    handler.wfile.write(data)


def longer(handler: Handler, data: bytes) -> None:
    handler.start(200, Content_Type="application/octet-stream")
    handler.wfile.write(data + b"more")


def bucket(keys: dict[str, bytes]) -> bytes:
    """The listing of a bucket, as S3 and MinIO write it."""
    objects = "".join(
        f"<Contents><Key>{key}</Key><ETag>&#34;{hashlib.md5(data).hexdigest()}&#34;</ETag>"
        f"<Size>{len(data)}</Size></Contents>"
        for key, data in keys.items()
    )
    text = f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}'
    return (text + "</ListBucketResult>").encode()


@contextmanager
def open_shop() -> Iterator[Shop]:
    shop = Shop()
    thread = threading.Thread(target=shop.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield shop
    finally:
        shop.closing.set()
        shop.shutdown()
        shop.server_close()
        thread.join(10)
