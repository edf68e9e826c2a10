"""Nodes killed and added at random: the table is that of an undisturbed run. ``scripts/chaos`` does five minutes of it."""

from __future__ import annotations

import pytest

from .chaos import disturb


@pytest.mark.slow
def test_nodes_that_come_and_go_change_no_bit(monkeypatch):
    pytest.importorskip("ray", reason="needs handful[ray]")
    monkeypatch.setenv("PYTHONPATH", "")
    found = disturb(30, seed=1)
    assert found.killed >= 1 and found.runs >= 1
    assert found.equal == found.runs
