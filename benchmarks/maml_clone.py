"""MAML steps against the clone-and-adapt pattern of learn2learn, which is re-created here from its documentation.

    python benchmarks/maml_clone.py

(learn2learn needs gym and a compiler to install.) The pattern: `clone` makes a copy of the module whose parameters are clones in the
autograd graph; `adapt` takes the loss's gradients and replaces each parameter by p - rate * g; the outer loss is the query loss of the
adapted clone. It is timed twice: as it is usually written, where queries are normalised by the queries (a smaller computation than
ours, and a transductive one), and computing the same as ours, queries normalised by their support under the adapted weights; the losses
of the latter are compared with ours. Meta-batch of 8 tasks, 5-way 1-shot with 5 queries per class, 5 inner steps, conv4 at 28x28; the time is that of loss and
gradients of all initial weights.
"""

from __future__ import annotations

import copy
import time

import torch
import torch.nn.functional as F
from machine import maml_tasks, normalised, quiet, verdict
from torch import Tensor, nn

from handful.methods import make
from handful.methods.layers.support_norm import SupportNorm, known_first, use_support_norm
from handful.nets import build


class BySupport(SupportNorm):
    """The norm as one would write it down for the peer: plain operations, gradients left to autograd."""

    def forward(self, x: Tensor) -> Tensor:
        if self.first is None:
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        variance, mean = torch.var_mean(x[: self.first], (0, 2, 3), correction=0, keepdim=True)
        scale = self.weight.view(1, -1, 1, 1) * torch.rsqrt(variance + self.eps)
        return (x - mean) * scale + self.bias.view(1, -1, 1, 1)


def clone(module: nn.Module) -> nn.Module:
    """The same module with cloned parameters and buffers, gradients flowing back to the originals."""
    twin = copy.copy(module)
    twin._parameters = {k: None if p is None else p.clone() for k, p in module._parameters.items()}
    twin._buffers = {k: None if b is None else b.clone() for k, b in module._buffers.items()}
    twin._modules = {k: None if m is None else clone(m) for k, m in module._modules.items()}
    return twin


def adapt(module: nn.Module, loss: Tensor, rate: float, first_order: bool) -> None:
    """Replace every parameter by one gradient step."""
    places = [(m, k) for m in module.modules() for k, p in m._parameters.items() if p is not None]
    held = [m._parameters[k] for m, k in places]
    grads = torch.autograd.grad(loss, held, create_graph=not first_order)
    for (m, k), p, g in zip(places, held, grads, strict=True):
        m._parameters[k] = p - rate * g


def clone_and_adapt(
    model: nn.Module, tasks: list[tuple[Tensor, ...]], first_order: bool, by_support: bool = False
) -> Tensor:
    losses = []
    for x, y, q, qy in tasks:
        twin = clone(model)
        for _ in range(5):
            adapt(twin, F.cross_entropy(twin(x), y), 0.1, first_order)
        if by_support:
            with known_first(twin, len(x)):
                answers = twin(torch.cat([x, q]))[len(x) :]
        else:
            answers = twin(q)
        losses.append(F.cross_entropy(answers, qy))
    return torch.stack(losses).mean()


def main() -> None:
    torch.set_num_threads(1)
    judged = quiet()
    tasks = maml_tasks()
    for name, first_order in (("maml", False), ("fo-maml", True)):
        learner = make(name, inner_steps=5, inner_rate=0.1).untrained((28, 28, 1))
        learner.modules.train()
        model = nn.Sequential(build("conv4", (28, 28, 1)), nn.Linear(64, 5)).train()
        data = normalised(learner.backbone, tasks)
        same = nn.Sequential(build("conv4", (28, 28, 1)), nn.Linear(64, 5)).train()
        use_support_norm(same)
        for norm in [m for m in same.modules() if isinstance(m, SupportNorm)]:
            norm.__class__ = BySupport
        same.load_state_dict(dict(zip(same.state_dict(), learner.modules.state_dict().values(), strict=True)))
        ours, theirs, alike = (list(m.parameters()) for m in (learner.modules, model, same))
        forms = {
            "ours": lambda: torch.autograd.grad(learner.outer_loss(tasks, torch.Generator()), ours),
            "clone and adapt": lambda: torch.autograd.grad(clone_and_adapt(model, data, first_order), theirs),
            "the same by clone and adapt": lambda: torch.autograd.grad(
                clone_and_adapt(same, data, first_order, by_support=True), alike
            ),
        }
        apart = max(
            (a - b).abs().max().item()
            for a, b in zip(forms["ours"](), forms["the same by clone and adapt"](), strict=True)
        )
        if apart > 1e-4:
            raise SystemExit(f"{name}: the gradients differ by {apart}")
        spent = dict.fromkeys(forms, float("inf"))
        for _ in range(7):
            for form, step in forms.items():
                start = time.process_time()
                step()
                spent[form] = min(spent[form], time.process_time() - start)
        print(f"{name}: " + ", ".join(f"{k} {8 / v:.1f} tasks per second" for k, v in spent.items()))
        by = spent["the same by clone and adapt"] / spent["ours"]
        verdict(f"{name} step: clone and adapt computing the same / ours", by, 1.0, judged)
        verdict(f"{name} step: plain clone and adapt / ours", spent["clone and adapt"] / spent["ours"], 0, judged)


if __name__ == "__main__":
    main()
