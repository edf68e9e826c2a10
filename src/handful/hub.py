"""The Hugging Face hub: whether it can be reached at all."""

from __future__ import annotations

import importlib
import os
import socket
from urllib.parse import urlsplit

from handful.errors import Missing

SECONDS = 3.0
"""How long the hub has to answer before it counts as out of reach."""


def reach_hub(what: str) -> None:
    """Say at once that a model or data set is neither here nor to be had, instead of after minutes of retries."""
    hub = importlib.import_module("huggingface_hub.constants")
    address = urlsplit(hub.ENDPOINT)
    why = "HF_HUB_OFFLINE is set" if hub.HF_HUB_OFFLINE else ""
    if not why and not any(os.environ.get(k) for k in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        try:
            socket.create_connection((address.hostname, address.port or 443), timeout=SECONDS).close()
        except OSError as error:
            why = f"{address.hostname} cannot be reached: {error}"
    if why:
        raise Missing(
            f"{what} is not on this machine and cannot be fetched ({why}); name a local folder, or go online once"
        )
