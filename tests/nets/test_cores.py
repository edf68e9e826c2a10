"""Every core by default: batches on cores of their own, the same bits on any number of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from handful.errors import BadInput
from handful.nets import compute, features
from handful.nets.building import build
from handful.nets.compute import Compute, cores


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (70, 16, 16, 3), dtype=np.uint8)


def test_no_bit_depends_on_the_number_of_cores(images, monkeypatch):
    net = build("conv4:filters=8", (16, 16, 3), 0)
    found, seen = [], set()
    forward = net.forward
    monkeypatch.setattr(net, "forward", lambda x: (seen.add(threading.get_ident()), forward(x))[1])
    for n in (1, 3):
        monkeypatch.setattr(features, "cores", lambda n=n: n)
        with Compute(batch=8).here():
            found.append(features.embed_images(net, images, Compute(batch=8)))
    assert torch.equal(*found) and found[0].shape == (70, 8)
    assert len(seen) > 1 and threading.get_ident() in seen  # one core: this thread; three: others


def test_threads_within_an_operation_leave_the_batches_to_one_another(images, monkeypatch):
    net = build("conv4:filters=8", (16, 16, 3), 0)
    monkeypatch.setattr(features, "cores", lambda: 3)
    monkeypatch.setattr(features, "ThreadPoolExecutor", None)  # calling it would fail
    assert features.embed_images(net, images, Compute(batch=8, threads=2)).shape == (70, 8)
    assert features.embed_images(net, images[:0], Compute(batch=8)).shape == (0, 8)


def test_the_machine_says_how_many_cores_and_a_person_may_say_fewer(monkeypatch):
    cores.cache_clear()
    monkeypatch.delenv("HANDFUL_CORES", raising=False)
    given = cores()
    assert given >= 1
    for text, wanted in (("1", 1), ("100000", given)):
        cores.cache_clear()
        monkeypatch.setenv("HANDFUL_CORES", text)
        assert cores() == wanted
    for text in ("0", "many", "-1"):
        cores.cache_clear()
        monkeypatch.setenv("HANDFUL_CORES", text)
        with pytest.raises(BadInput, match="HANDFUL_CORES"):
            cores()
    cores.cache_clear()


def test_a_containers_quota_counts(monkeypatch, tmp_path):
    cores.cache_clear()
    monkeypatch.delenv("HANDFUL_CORES", raising=False)
    monkeypatch.setattr(compute.os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    monkeypatch.setattr(compute, "Path", lambda text: tmp_path / "cpu.max")
    assert cores() == 3
    cores.cache_clear()
