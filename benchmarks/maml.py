"""MAML steps (conv4, 28x28, 5-way 1-shot, 5 inner steps, meta-batch 8) against a plain loop with torch.autograd.grad.

python benchmarks/maml.py
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from machine import maml_tasks, normalised, quiet, verdict
from torch.func import functional_call

from handful.methods import make


def plain(
    net: torch.nn.Module, last: torch.nn.Linear, tasks: list, inner: int, rate: float, second: bool
) -> torch.Tensor:
    """The textbook loop: batch statistics everywhere, adapt by autograd.grad, average the query losses."""
    losses = []
    for x, y, q, qy in tasks:
        params = {f"b.{k}": v for k, v in net.named_parameters()} | {f"l.{k}": v for k, v in last.named_parameters()}

        def logits(params: dict, x: torch.Tensor) -> torch.Tensor:
            features = functional_call(net, {k[2:]: v for k, v in params.items() if k.startswith("b.")}, (x,))
            return F.linear(features, params["l.weight"], params["l.bias"])

        for _ in range(inner):
            grads = torch.autograd.grad(
                F.cross_entropy(logits(params, x), y), list(params.values()), create_graph=second
            )
            params = {k: v - rate * g for (k, v), g in zip(params.items(), grads, strict=True)}
        losses.append(F.cross_entropy(logits(params, q), qy))
    return torch.stack(losses).mean()


def main() -> None:
    torch.set_num_threads(1)
    judged = quiet()
    tasks = maml_tasks()
    for name, second in (("maml", True), ("fo-maml", False)):
        learner = make(name, inner_steps=5, inner_rate=0.1).untrained((28, 28, 1))
        learner.modules.train()
        backbone, last = learner.modules["backbone"], learner.modules["last"]
        data = normalised(backbone, tasks)
        parameters = list(learner.modules.parameters())
        stacked = [torch.stack([d[i] for d in data]) for i in range(4)]
        forms = {
            "ours": lambda: learner.outer_loss(tasks, torch.Generator()),
            "plain": lambda: plain(backbone, last, data, 5, 0.1, second),
            "vmap": lambda: learner.vmapped_loss(*stacked, ways=5),
        }
        spent = dict.fromkeys(forms, float("inf"))
        for _ in range(4):
            for form, loss in forms.items():
                start = time.perf_counter()
                torch.autograd.grad(loss(), parameters, allow_unused=True)
                spent[form] = min(spent[form], time.perf_counter() - start)
        print(f"{name}: " + ", ".join(f"{k} {8 / v:.1f} tasks per second" for k, v in spent.items()))
        verdict(f"{name}, ours / plain loop", spent["plain"] / spent["ours"], 1.0, judged)


if __name__ == "__main__":
    main()
