"""Fixtures of the breadth tests."""

from __future__ import annotations

import pytest

from .server import open_shop


@pytest.fixture
def shop():
    with open_shop() as server:
        yield server
