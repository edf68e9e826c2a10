"""MTL: a pre-trained network that tasks may only scale and shift."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import EmbeddedLearner
from handful.methods.gradient.maml import rows
from handful.methods.layers.hard_tasks import HardTasks
from handful.methods.layers.stages import Staged
from handful.methods.stages import Loss, Stage
from handful.methods.training import Drawn, step_generator, task_batch_loss
from handful.nets import build as build_net
from handful.tasks.rule import Rule


class Scaled(nn.Module):
    """A backbone whose convolutions' weights are multiplied by learned scales and their biases moved by learned shifts.

    One scale for each pair of input and output channel, shared by the places of the kernel, and one shift an output
    channel: 1 and 0 at first, which leaves the backbone as it is.
    """

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net
        self.width, self.map_shape = net.width, net.map_shape
        self.names = [name for name, layer in net.named_modules() if isinstance(layer, nn.Conv2d)]
        layers = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
        self.scale = nn.ParameterList([torch.ones(layer.weight.shape[:2])[..., None, None] for layer in layers])
        self.shift = nn.ParameterList([torch.zeros(len(layer.weight)) for layer in layers])

    def normalise(self, images: Tensor) -> Tensor:
        return self.net.normalise(images)  # type: ignore[operator]

    def changed(self) -> dict[str, Tensor]:
        out = {}
        for name, scale, shift in zip(self.names, self.scale, self.shift, strict=True):
            layer = self.net.get_submodule(name)
            out[f"{name}.weight"] = layer.weight * scale  # type: ignore[operator]
            if layer.bias is not None:
                out[f"{name}.bias"] = layer.bias + shift  # type: ignore[operator]
        return out

    def forward(self, x: Tensor) -> Tensor:
        return functional_call(self.net, self.changed(), (x,))


@dataclass(frozen=True, kw_only=True)
class MTL(Staged):
    """Meta-transfer learning (Sun, Liu, Chua, Schiele, CVPR 2019).

    The backbone is pre-trained on all training classes and then frozen; tasks meta-learn only a scale on each pair of
    channels of its convolutions and a shift on each bias (SS), and where the linear base learner starts. A task
    descends from that start on its support, θ ← θ - rate ∇CE, and the query loss passes through the descent.

    Parameters
    ----------
    inner_rate, inner_steps
        0.01 and 100 in the paper's tasks (50 steps in training in its later public code); 20 steps of 0.1 on features of
        unit mean length here, which is not the published setting.
    ways
        Rows of the learned start; tasks with more ways start further rows at their mean.
    hard
        Hard tasks in each step (HT): the class that each of the step's ``schedule.tasks`` tasks gets wrong most often is set
        aside, and so many further tasks are made of these classes, other training classes beside them where they are too few.
        None by default; needs the rule ``n-way``.

    Notes
    -----
    The paper trains on its k tasks one after another and then on the hard ones; here they are one step, whose failures are
    those of the weights before it, so that a step depends on nothing but its number and a killed training goes on
    exactly. The public code (yaoyao-liu/meta-transfer-learning at 7f71fdd) has no hard tasks. Convolutions without a bias
    (ResNets, before batch norm) have no shift.
    """

    inner_rate: float = 0.1
    inner_steps: int = 20
    ways: int = 5
    hard: int = field(default=0, metadata={"later": True})

    name: ClassVar[str] = "mtl"
    tunes: ClassVar[bool] = True
    first: ClassVar[tuple[str, ...]] = ("backbone.net", "classifier")
    second: ClassVar[tuple[str, ...]] = ("backbone.scale", "backbone.shift", "last")

    def __post_init__(self) -> None:
        if self.hard < 0:
            raise BadInput(f"mtl cannot add {self.hard} hard tasks to a step; give a number from 0 on")

    def stages(self) -> list[Stage]:
        first, second = super().stages()
        return [first, replace(second, loss=self.loss_with_hard_tasks) if self.hard else second]

    def loss_with_hard_tasks(self, learner: EmbeddedLearner, train: Rule) -> Loss:
        drawn, hard = Drawn(train, self.schedule), HardTasks(train, self.hard, self.schedule.seed)

        def loss(step: int) -> Tensor:
            tasks = drawn.tasks(step)
            both = [*tasks, *hard.tasks(learner, tasks, step)]
            return task_batch_loss(learner, both, self.schedule.augment, step_generator(self.schedule, step))

        return loss

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.schedule.seed)
            backbone = Scaled(build_net(self.net, shape, self.schedule.seed))
            return nn.ModuleDict({"backbone": backbone, **self.extras(backbone, n_classes)})

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        last = nn.Linear(width, self.ways)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        return {**super().extras(backbone, n_classes), "last": last}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        weight, bias = rows(m["last"], b.C)  # type: ignore[arg-type]
        return b.close(descend(b, weight, bias, self.inner_rate, self.inner_steps))


def descend(b: Batch, weight: Tensor, bias: Tensor, rate: float, steps: int) -> Tensor:
    """Query logits after gradient steps on the support's mean cross-entropy, from one start for all tasks.

    The gradient is written out, (softmax - one-hot)ᵀ s / n, so that the outer loss passes through it. Features are
    divided by the support's root mean square length, which makes one rate fit every backbone.
    """
    hot = b.one_hot
    known = hot.sum(-1, keepdim=True)
    count = known.sum(1, keepdim=True).clamp_min(1)
    length = ((b.s.square().sum(-1, keepdim=True) * known).sum(1, keepdim=True) / count).sqrt().clamp_min(1e-8)
    s, q = b.s / length, b.q / length
    w, c = weight.expand(len(b.s), -1, -1), bias.expand(len(b.s), 1, -1)
    absent = b.absent[:, None, :]
    for _ in range(steps):
        p = torch.softmax((s @ w.transpose(1, 2) + c).masked_fill(absent, float("-inf")), -1)
        wrong = (p - hot) * known / count
        w, c = w - rate * wrong.transpose(1, 2) @ s, c - rate * wrong.sum(1, keepdim=True)
    return q @ w.transpose(1, 2) + c
