"""Training on two processes (gloo, through torchrun) is training on one: the same draws, the same losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from handful.errors import BadInput, Mismatch
from handful.methods import load, make
from handful.nets import build
from handful.nets.compute import Compute
from handful.tasks import NWay
from made.patterns import blobs
from methods.together import NET, all_of

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return blobs(n_classes=20, each=12).save(tmp_path_factory.mktemp("packed") / "blobs")


@pytest.fixture(scope="module")
def both(packed, tmp_path_factory):
    """What one process finds, what two find together, and the folder that the two wrote to."""
    folder = tmp_path_factory.mktemp("two")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(HERE / "together.py"), str(packed.path), str(folder)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    one = all_of(packed, tmp_path_factory.mktemp("one"))
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text[-3000:]
    return one, [json.loads((folder / f"rank{r}.json").read_text()) for r in (0, 1)], folder


@pytest.mark.parametrize("name", ["protonet", "baseline", "fo-maml", "protonet, accumulated"])
def test_two_processes_follow_the_loss_curve_of_one(both, name):
    one, (zero, other), _ = both
    assert len(one[name]["loss"]) == 6 and np.ptp(one[name]["loss"]) > 0
    np.testing.assert_allclose(zero[name]["loss"], one[name]["loss"], rtol=2e-5)
    assert zero[name]["valid"] == one[name]["valid"]
    for key, value in one[name]["sums"].items():
        assert zero[name]["sums"][key] == pytest.approx(value, rel=1e-3, abs=1e-4), key
    assert other[name]["sums"] == zero[name]["sums"], "all processes end with the same weights"


def test_tasks_in_micro_batches_are_the_tasks_in_one(both):
    one, _, _ = both
    np.testing.assert_allclose(one["protonet, accumulated"]["loss"], one["protonet"]["loss"], rtol=2e-5)


def test_batch_norm_sees_each_micro_batch_alone_on_one_process_as_on_two(both):
    one, (zero, _), _ = both
    a, b = one["protonet, batch norm"], zero["protonet, batch norm"]
    np.testing.assert_allclose(b["loss"], a["loss"], rtol=2e-5)
    running = [k for k in a["sums"] if "running_mean" in k]
    assert running and any(abs(a["sums"][k] - b["sums"][k]) > 1e-5 for k in running), (
        "running statistics are process 0's"
    )


def test_only_the_first_process_writes(both, packed):
    _, (_, other), folder = both
    assert other["protonet"]["loss"] == [] and not (folder / "rank1").exists()
    assert (folder / "refused0").read_text() == (folder / "refused1").read_text()
    assert "BadInput: 2 processes cannot share schedule.tasks of 3 evenly" in (folder / "refused0").read_text()
    learner = load(folder / "model")
    assert learner.method.schedule.tasks == 2
    profile = json.loads((folder / "model" / "profile.json").read_text())
    assert {"read", "learn", "update"} <= set(profile["shares"])
    assert 0 < sum(profile["shares"].values()) <= 1 + 1e-9


def short(**more):
    return {"net": NET.format("group"), "schedule": {"steps": 4, "batch": 24, "rate": 3e-3, **more}}


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_learns_nearly_the_same_and_goes_on_exactly(packed, tmp_path, precision, monkeypatch):
    train = NWay(packed.train, 3, 1, 2)
    compute = Compute(precision=precision)
    options = short(checkpoint_every=2, tasks=2, clip=5.0, optimiser="sgd", rate=0.01)
    whole = make("protonet", **options).meta_fit(train, compute=compute, keep=tmp_path / "whole").state()
    make("protonet", **options).meta_fit(train, keep=tmp_path / "exact")
    low, full = (pl.read_csv(tmp_path / name / "log.csv")["loss"].to_numpy() for name in ("whole", "exact"))
    away = np.abs(low / full - 1)
    # The scaler of float16 begins high and skips the steps that overflow, so later losses part further than the first.
    assert 0 < away[0] < 0.005 and away.max() < 0.1
    import handful.methods.training as training

    original = training._Progress.log

    def dying(self, step, loss):
        original(self, step, loss)
        if step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training._Progress, "log", dying)
    with pytest.raises(KeyboardInterrupt):
        make("protonet", **options).meta_fit(train, compute=compute, keep=tmp_path / "cut")
    monkeypatch.undo()
    saved = torch.load(tmp_path / "cut" / "checkpoint.pt", weights_only=True)
    assert bool(saved["scaler"]) == (precision == "float16")
    resumed = make("protonet", **options).meta_fit(train, compute=compute, keep=tmp_path / "cut").state()
    assert all(torch.equal(whole[k], resumed[k]) for k in whole)


def test_a_compiled_backbone_learns_the_same(packed, monkeypatch):
    train = NWay(packed.train, 3, 1, 2)
    eager = make("protonet", **short(steps=2)).meta_fit(train).state()
    calls = []
    original = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **more: calls.append(more) or original(self, **more))
    learner = make("protonet", **short(steps=2)).meta_fit(train, compute=Compute(compile="aot_eager"))
    assert calls == [{"backend": "aot_eager"}]
    for key, value in learner.state().items():
        torch.testing.assert_close(value, eager[key], atol=1e-5, rtol=1e-4)
    assert learner.backbone._compiled_call_impl is None
    with pytest.raises(Mismatch, match="torch.compile cannot"):
        make("maml", **short()).meta_fit(train, compute=Compute(compile="eager"))
    with pytest.raises(BadInput, match="did you mean inductor"):
        Compute(compile="inducter")


def test_norms_without_batch_statistics_do_not_look_at_the_neighbours():
    x = torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for norm in ("group", "layer", "none"):
        net = build(f"conv4:filters=8,norm={norm}", (16, 16, 3)).train()
        torch.testing.assert_close(net(x)[:2], net(x[:2]))
    net = build("conv4:filters=8", (16, 16, 3)).train()
    assert not torch.allclose(net(x)[:2], net(x[:2]))
    with pytest.raises(BadInput, match="give batch, group, layer or none"):
        build("conv4:norm=groups", (16, 16, 3))
    with pytest.raises(BadInput, match="multiple of 8 filters"):
        build("conv4:norm=group,filters=12", (16, 16, 3))
