"""A real server for the service's tests: uvicorn in a thread, on SQLite or on a PostgreSQL of the test's own."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from .test_service import PASSWORD, Site


class Served:
    """A site behind a socket."""

    def __init__(self, site: Site, port: int) -> None:
        self.site, self.port, self.url = site, port, f"http://127.0.0.1:{port}"

    def client(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.url, **{"timeout": 60, **options})

    def csrf(self, client: httpx.Client, page: str) -> str:
        return re.search(r'name="csrf" value="([^"]+)"', client.get(page).text).group(1)

    def register(self, client: httpx.Client, name: str) -> httpx.Response:
        form = {"name": name, "password": PASSWORD, "email": f"{name}@example.org", "real_name": f"Real {name}"}
        return client.post("/register", data={**form, "csrf": self.csrf(client, "/register")})

    def raw(self, head: str, *more: bytes) -> socket.socket:
        """A connection that has sent these bytes and may send more."""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        line.sendall(head.replace("\n", "\r\n").encode() + b"".join(more))
        return line


@contextmanager
def served(site: Site) -> Iterator[Served]:
    """Serve a site until the block ends."""
    import uvicorn

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(site.app, port=port, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield Served(site, port)
    finally:
        server.should_exit = True
        thread.join(10)
        site.database.engine.dispose()
