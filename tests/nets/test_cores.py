"""Every core by default: batches on cores of their own, the same bits on any number of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from handful.cores import cores, given, quota, stay_on_one
from handful.errors import BadInput
from handful.nets import features
from handful.nets.building import build
from handful.nets.compute import Compute


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


@pytest.fixture
def fresh():
    given.cache_clear()
    yield
    given.cache_clear()


def test_the_machine_says_how_many_cores_and_a_person_may_say_fewer(monkeypatch, fresh):
    monkeypatch.delenv("HANDFUL_CORES", raising=False)
    all_of_them = cores()
    assert all_of_them >= 1
    for text, wanted in (("1", 1), ("100000", all_of_them)):
        given.cache_clear()
        monkeypatch.setenv("HANDFUL_CORES", text)
        assert cores() == wanted
    for text in ("0", "many", "-1"):
        given.cache_clear()
        monkeypatch.setenv("HANDFUL_CORES", text)
        with pytest.raises(BadInput, match="HANDFUL_CORES"):
            cores()


def test_a_thread_beside_others_has_one_core(monkeypatch):
    monkeypatch.setattr("handful.cores.given", lambda: 16)

    def count() -> int:
        stay_on_one()
        return cores()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(count).result() == 1
    assert cores() == 16


def written(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_containers_quota_counts_in_both_versions_of_control_groups(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("0::/jobs/seven\n")
    assert quota(tmp_path / "none", mine) == float("inf")
    written(tmp_path / "two" / "jobs", cpu__max="250000 100000\n")
    written(tmp_path / "two" / "jobs" / "seven", cpu__max="max 100000\n")
    assert quota(tmp_path / "two", mine) == 2.5  # of the group above
    mine.write_text("4:cpu,cpuacct:/box\n0::/\n")
    written(tmp_path / "one" / "cpu", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert quota(tmp_path / "one", mine) == float("inf")
    written(tmp_path / "one" / "cpu,cpuacct" / "box", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")
    assert quota(tmp_path / "one", mine) == 1.5


def test_a_quota_is_rounded_up_and_never_above_the_affinity(monkeypatch, fresh):
    monkeypatch.delenv("HANDFUL_CORES", raising=False)
    monkeypatch.setattr("handful.cores.os.sched_getaffinity", lambda pid: set(range(16)), raising=False)
    for allowed, wanted in ((2.5, 3), (0.2, 1), (40, 16), (float("inf"), 16)):
        given.cache_clear()
        monkeypatch.setattr("handful.cores.quota", lambda allowed=allowed: allowed)
        assert cores() == wanted
