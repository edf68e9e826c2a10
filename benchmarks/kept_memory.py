"""What keeping freed memory is worth: embedding and training on one thread with it and without, in processes of their own.

    python benchmarks/kept_memory.py

Prints images per second, times, and the peak memory of each process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

CASES = [("conv4", 32, 512), ("conv4", 84, 256), ("resnet12", 84, 64), ("lite0", 84, 256)]


def measure() -> dict[str, float]:
    """Images a second of each case, embedding and training, best of three rounds."""
    import numpy as np
    import torch

    from handful.nets import build
    from handful.nets.compute import Compute
    from handful.nets.features import embed_images

    out = {}
    compute = Compute()
    with compute.here():
        for name, size, n in CASES:
            images = np.random.default_rng(0).integers(0, 255, (n, size, size, 3), dtype=np.uint8)
            net = build(name, (size, size, 3)).eval()
            out[f"embedding, {name}, {size}x{size}"] = n / best(lambda: embed_images(net, images, compute))
            if name == "conv4":
                net.train()
                optimiser = torch.optim.Adam(net.parameters())
                x = torch.from_numpy(images[:50]).permute(0, 3, 1, 2).float() / 255

                def step() -> None:
                    optimiser.zero_grad()
                    net(x).square().mean().backward()
                    optimiser.step()

                out[f"training, {name}, {size}x{size}"] = len(x) / best(step)
    out["peak, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return out


def best(work) -> float:  # type: ignore[no-untyped-def]
    work()
    seconds = []
    for _ in range(3):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    found = {}
    for keep in ("0", "1"):
        environment = {**os.environ, "HANDFUL_KEEP_MEMORY": keep, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, __file__, "--one"], env=environment, capture_output=True, text=True, check=True
        )
        found[keep] = json.loads(done.stdout)
    print("| work | given back, images/s | kept, images/s | times |\n|---|---|---|---|")
    for name, value in found["0"].items():
        print(f"| {name} | {value:,.0f} | {found['1'][name]:,.0f} | {found['1'][name] / value:.2f} |")


if __name__ == "__main__":
    print(json.dumps(measure())) if "--one" in sys.argv else main()
