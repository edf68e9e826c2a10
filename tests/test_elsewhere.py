"""The core runs where there is no resource module, no mallopt and no bubblewrap, as on a machine that is not Linux."""

from __future__ import annotations

import os
import subprocess
import sys

CORE = """
import ctypes, sys
sys.modules["resource"] = None

class Bare:
    def __init__(self, name=None, *rest, **more):
        if name is not None:
            raise OSError(name)
    def __getattr__(self, name):
        raise AttributeError(name)

import torch, numpy, polars, scipy.stats
ctypes.CDLL = Bare
import handful as hf
from handful.nets.compute import keep_memory
from handful.tasks import NWay

world = hf.world(classes=20, images=12, size=16, seed=0)
method = hf.methods.ProtoNet(net="conv4:filters=4", schedule=hf.Schedule(steps=2))
learner = method.meta_fit(NWay(world.train, 3, 1, 2))
run = hf.evaluate(learner, NWay(world.test, 3, 1, 2), n=5)
import handful.cli
print(run.frame.height, keep_memory())
"""


def test_the_core_runs_without_resource_mallopt_and_bubblewrap(tmp_path):
    env = {**os.environ, "PATH": str(tmp_path), "HANDFUL_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", CORE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:1] == ["5"]
