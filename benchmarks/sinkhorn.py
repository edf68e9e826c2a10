"""Sinkhorn K-means over many small tasks: this library's inner solver against POT's, in the same outer loop.

    python benchmarks/sinkhorn.py [--tasks 1000] [--gamma 5] [--tolerance 1e-4]

Every solver runs the same 20 outer steps on the same points until its own plans are right to the tolerance; the worst
marginal error that each reached (largest over steps and tasks, L1 over points) is printed beside its time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np
import ot
import torch
from machine import quiet, verdict
from torch import Tensor

from handful.methods.clustering.sinkhorn import sinkhorn
from handful.methods.clustering.sinkhorn_kmeans import squared_distances, weighted_means

Solve = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor | None]]


def points(tasks: int, dtype: torch.dtype) -> Tensor:
    g = torch.Generator().manual_seed(0)
    means = torch.randn(tasks, 5, 1, 64, generator=g, dtype=dtype)
    return (means + 0.9 * torch.randn(tasks, 5, 5, 64, generator=g, dtype=dtype)).flatten(1, 2)


def outer(x: Tensor, solve: Solve, steps: int = 20) -> tuple[Tensor, float, float]:
    """Centroids, CPU seconds (one thread, so that a busy machine does not count), and the worst marginal error on the way."""
    g = torch.Generator().manual_seed(1)
    c = 0.01 * torch.randn(len(x), 5, 64, generator=g, dtype=x.dtype)
    warm: Tensor | None = None
    worst, start, checked = 0.0, time.process_time(), 0.0
    for _ in range(steps):
        plan, warm = solve(squared_distances(x, c), warm)
        pause = time.process_time()
        worst = max(worst, float((plan.sum(2) - 1 / x.shape[1]).abs().sum(1).max()))
        worst = max(worst, float((plan.sum(1) - 1 / 5).abs().sum(1).max()))
        checked += time.process_time() - pause
        c = weighted_means(x, plan)
    return c, time.process_time() - start - checked, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--gamma", type=float, default=5.0)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    judged = quiet()
    gamma, most = args.gamma, 5000
    # POT stops on the L2 norm over points, this library on L1: a vector of 25 has L1 of at most 5 times L2.
    l2 = args.tolerance / 5

    def ours(cost: Tensor, warm: Tensor | None) -> tuple[Tensor, Tensor | None]:
        plan = sinkhorn(cost, gamma, iterations=most, tolerance=args.tolerance, start=warm)
        return plan.plan, plan.v

    def cold(cost: Tensor, warm: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return sinkhorn(cost, gamma, iterations=most, tolerance=args.tolerance).plan, None

    def batched(cost: Tensor, warm: Tensor | None) -> tuple[Tensor, Tensor | None]:
        done = ot.solve_batch(cost, gamma, max_iter=most, tol=l2, method="log_sinkhorn", grad="detach")
        return done.plan, None

    def loop(cost: Tensor, warm: Tensor | None) -> tuple[Tensor, Tensor | None]:
        a, b = np.full(25, 1 / 25), np.full(5, 1 / 5)
        plans = [ot.sinkhorn(a, b, m, gamma, numItermax=most, stopThr=l2, warn=False) for m in cost.double().numpy()]
        return torch.as_tensor(np.stack(plans)).to(cost), None

    x = points(args.tasks, torch.float32)
    rows: dict[str, dict[str, float]] = {}
    above: Tensor | None = None
    for name, solve, repeats in (
        ("handful, warm starts", ours, args.repeats),
        ("handful, cold starts", cold, args.repeats),
        ("POT, ot.solve_batch (log_sinkhorn)", batched, args.repeats),
        ("POT, a Python loop of ot.sinkhorn (float64)", loop, 1),
    ):
        runs = [outer(x, solve) for _ in range(repeats)]
        rows[name] = {"seconds": min(r[1] for r in runs), "worst_marginal_error": runs[0][2]}
        if above is not None:
            rows[name]["largest_centroid_difference_to_row_above"] = float((runs[0][0] - above).abs().max())
        above = runs[0][0]
        print(name, rows[name], file=sys.stderr, flush=True)
    first = rows["handful, warm starts"]["seconds"]
    print("| solver | CPU seconds | times ours | worst marginal error |\n|---|---|---|---|")
    for name, r in rows.items():
        print(f"| {name} | {r['seconds']:.3f} | {r['seconds'] / first:.1f} | {r['worst_marginal_error']:.1e} |")
    for name in list(rows)[2:]:
        verdict(f"Sinkhorn K-means: {name} / ours", rows[name]["seconds"] / first, 1, judged)
    print(
        json.dumps(
            {"tasks": args.tasks, "gamma": gamma, "torch": torch.__version__, "pot": ot.__version__, "rows": rows}
        )
    )


if __name__ == "__main__":
    main()
