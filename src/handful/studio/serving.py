"""Opening a folder: a free port on this machine, a token, a browser."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from pathlib import Path
from typing import Any

from handful import registry
from handful.errors import BadInput, require
from handful.options import parse_spec
from handful.studio.room import Room

PORT = 8765


def listen(port: int | None) -> socket.socket:
    """A socket on the loopback address: at the port asked for, else at the usual one or any that is free."""
    for number in (port,) if port is not None else (PORT, 0):
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", number))
            found.listen(128)
        except OSError as error:
            found.close()
            if number == port:
                raise BadInput(f"port {port} is taken ({error.strerror}); give another --port, or none") from error
        else:
            return found
    raise BadInput("no port is free on this machine; close some programs and try again")


def serve(folder: Path, net: Any = "auto", port: int | None = None, browser: bool = True, seed: int = 0) -> None:
    """Serve the folder's page until stopped by the keyboard."""
    uvicorn = require("uvicorn", "serve")
    require("fastapi", "serve")
    from handful.studio.app import make_app

    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; give the folder with your photos, or one to make")
    if isinstance(net, str) and net != "auto":
        registry.get("nets", parse_spec(net)[0])  # a name that is none is said here; what it lacks, on the page
    folder.mkdir(parents=True, exist_ok=True)
    ear = listen(port)
    room = Room(folder, net, seed)
    token = secrets.token_urlsafe(24)
    number = ear.getsockname()[1]
    address = f"http://127.0.0.1:{number}/?token={token}"
    print(f"studio of {folder}: {address}\nstop it with Ctrl-C; labels are in {folder / 'labels.csv'}", flush=True)
    config = uvicorn.Config(
        make_app(room, token, number),
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    room.start()
    if browser:
        threading.Timer(0.8, webbrowser.open, [address]).start()
    try:
        uvicorn.Server(config).run(sockets=[ear])
    finally:
        room.close()
