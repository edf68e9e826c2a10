"""Whether batch norm folded into the convolutions, or channels last, makes embedding faster, by processor time on one thread.

    python benchmarks/folded.py [--rounds 9] [--size 32]

The best of so many rounds over batches of 64, in turns. Neither is used so far (`docs/scale.md`).
"""

from __future__ import annotations

import argparse
import copy
import time

import torch
from machine import quiet, verdict
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from handful.nets import build
from handful.nets.compute import Compute


def folded(net: nn.Module) -> nn.Module:
    """A copy in which every batch norm that follows a convolution in a sequence is part of it."""
    net = copy.deepcopy(net).eval()
    for block in net.modules():
        if isinstance(block, nn.Sequential):
            for i in range(len(block) - 1):
                if isinstance(block[i], nn.Conv2d) and isinstance(block[i + 1], nn.BatchNorm2d):
                    block[i], block[i + 1] = fuse_conv_bn_eval(block[i], block[i + 1]), nn.Identity()
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=32)
    options = parser.parse_args()
    quiet()
    for name in ("conv4", "resnet12"):
        net = build(name, (options.size, options.size, 3), 0).eval()
        x = torch.rand(64, 3, options.size, options.size)
        last = copy.deepcopy(net).to(memory_format=torch.channels_last)
        ways = {
            "plain": (net, x),
            "batch norm folded in": (folded(net), x),
            "channels last": (last, x.contiguous(memory_format=torch.channels_last)),
        }
        best: dict[str, float] = {}
        with torch.inference_mode(), Compute().here():
            for _ in range(options.rounds):
                for way, (each, images) in ways.items():
                    before = time.process_time()
                    y = each(images)
                    best[way] = min(best.get(way, torch.inf), time.process_time() - before)
                    assert torch.allclose(y, net(x), rtol=1e-2, atol=1e-3)
        for way in list(ways)[1:]:
            verdict(
                f"{name} at {options.size}: embedding, plain / {way}, processor time",
                best["plain"] / best[way],
                0,
                True,
            )


if __name__ == "__main__":
    main()
