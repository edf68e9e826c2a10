"""Progress in a log: a line every half minute with how far, how long still, and what the work says of itself."""

from __future__ import annotations

import numpy as np

from handful import progress
from handful.methods.contract import make
from handful.tasks.nway import NWay
from made.benches import small


def test_a_log_gets_a_line_every_half_minute(capsys):
    now = iter(np.arange(0.0, 200.0, 10.0))
    advance = progress.lines("packing birds", 16, clock=lambda: float(next(now)))
    for i in range(8):
        advance(1, f"step {i}")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "handful: packing birds: 3 of 16 (19%), 2:10 left, step 2",
        "handful: packing birds: 6 of 16 (38%), 1:40 left, step 5",
    ]


def test_short_work_and_silent_workers_write_nothing(capsys, monkeypatch):
    with progress.bar("work", 3) as advance:
        for _ in range(3):
            advance(1)
    monkeypatch.setattr(progress, "EVERY", -1.0)
    monkeypatch.setattr(progress, "_silent", True)
    with progress.bar("work", 3) as advance:
        advance(1)
    assert capsys.readouterr().err == ""


def test_a_training_tells_loss_and_speed_in_a_log(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", -1.0)
    rule = NWay(small().train, 3, 1, 2)
    make("protonet", net="conv4:filters=4", **{"schedule.steps": 2}).meta_fit(rule)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("handful: training protonet: 1 of 2 (50%), ")
    assert "loss " in lines[1] and " images/s" in lines[1] and " tasks/s" in lines[1]
