"""MetaDelta++: an ensemble of classifiers on one backbone, rotations as classes, a budget of time, prototypes at test."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.augment import augment
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded, EmbeddedLearner
from handful.methods.heads import CosineClassifier, squared_distances
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage
from handful.methods.training import validate
from handful.nets.given import Net
from handful.tasks import random
from handful.tasks.rule import Rule

State = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class MetaDelta(Embedded):
    """MetaDelta++, winner of NeurIPS 2021 and baseline of Cross-Domain MetaDL (Chen et al. 2021; Carrión-Ojeda et al.
    2022, E.6).

    One backbone is trained on batches by several classifiers at once, each over the classes times the four quarter
    turns: L = mean_j CE(g_j(f(turn_r(x))), 4y + r). The states that validated best are averaged as long as the average
    validates no worse (auto-ensembling). A task: nearest prototype, logits -|f(x)/|f(x)| - c_k|².

    Parameters
    ----------
    classifiers
        How many, in turn linear, cosine and two-layer.
    rotate
        Rotations as further classes.
    ensemble
        How many of the best validated states may enter the average; 1 keeps the best.
    seconds
        Time for training: 3.5 hours across domains, 30 minutes within one (section 4.2). ``schedule.steps`` bounds it too.
    backbone_rate, frozen
        Rate of the backbone, and prefixes of its parameters that stay as they are. The public baseline trains the last
        two stages of pre-trained weights at 1e-4 and the classifier at 1e-3; a random start trains everything.

    Notes
    -----
    Where the paper is silent the public baseline is followed: Adam, gradients added over ten batches, norm clipped at 5.
    Its scores at test come from an optimal transport over all queries together, which is transductive; here a query is
    compared with the prototypes alone. Validation is every 50 batches on 50 tasks; the batches are of 64.

    Its one stage is work of its own instead of steps of the common runner, because it ends by the clock, trains backbone
    and classifiers at two rates, and keeps several validated states. The runner promises that a killed training goes on
    to the same bits, which an end by the clock cannot keep; so there is no checkpoint and no log, and the same seed gives
    the same weights only where ``schedule.steps`` ends the training.
    """

    net: Net = "resnet18"
    classifiers: int = 2
    rotate: bool = True
    ensemble: int = 3
    seconds: float = 3.5 * 3600
    backbone_rate: float = 1e-3
    frozen: tuple[str, ...] = ()
    temperature: float = 0.1
    schedule: Schedule = field(
        default_factory=lambda: Schedule(
            steps=1_000_000, batch=64, accumulate=10, clip=5.0, validate_every=5, validate_tasks=50, augment=("flip",)
        )
    )

    name: ClassVar[str] = "metadelta++"

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        if self.classifiers < 1 or self.ensemble < 1:
            raise BadInput("metadelta++ needs at least one classifier and one state in the ensemble")
        width, classes = int(backbone.width), n_classes * (4 if self.rotate else 1)  # type: ignore[arg-type]
        kinds = [
            lambda: nn.Linear(width, classes),
            lambda: CosineClassifier(width, classes, 10.0),
            lambda: nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)),
        ]
        return {"classifiers": nn.ModuleList(kinds[i % 3]() for i in range(self.classifiers))}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        if self.rotate:
            # One turn an image, drawn from the step's seed: the classes are enlarged, the batch is not.
            turns = torch.randint(4, (len(x),), device=x.device)
            x = torch.stack([torch.rot90(image, int(turn), (1, 2)) for image, turn in zip(x, turns, strict=True)])
            labels = 4 * labels + turns
        features = m["backbone"](x).float()
        losses = [F.cross_entropy(classifier(features), labels) for classifier in m["classifiers"]]  # type: ignore[attr-defined]
        return torch.stack(losses).mean()

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        support, query = F.normalize(b.s, dim=-1), F.normalize(b.q, dim=-1)
        means = b.prototypes(support)
        return b.close(-squared_distances(query, means) / self.temperature)

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule, work=self.within_its_time)]

    def within_its_time(self, learner: EmbeddedLearner, train: Rule, valid: Rule | None) -> None:
        """Train until the time is up, then average the best states."""
        states = _train(self, learner, train, valid, time.monotonic() + self.seconds)
        if states:
            learner.modules.load_state_dict(_auto_ensemble(self, learner, valid, states))
        learner.modules.eval()


def _train(
    method: MetaDelta, learner: EmbeddedLearner, train: Rule, valid: Rule | None, until: float
) -> list[tuple[float, State]]:
    """Train until the steps or the time are up; the best validated states, best first."""
    schedule, m = method.schedule, learner.modules
    for name, parameter in m["backbone"].named_parameters():
        parameter.requires_grad_(not name.startswith(method.frozen) if method.frozen else True)
    backbone = [p for p in m["backbone"].parameters() if p.requires_grad]
    heads = list(m["classifiers"].parameters())
    groups = [{"params": backbone, "lr": method.backbone_rate}, {"params": heads, "lr": schedule.rate}]
    optimiser = torch.optim.Adam([group for group in groups if group["params"]], weight_decay=schedule.weight_decay)
    batches = train.batches(random.subseed(schedule.seed, "train"), schedule.batch)
    states: list[tuple[float, State]] = []
    with learner.compute.here() as device:
        for step in range(schedule.steps):
            if time.monotonic() >= until:
                break
            m.train()
            optimiser.zero_grad(set_to_none=True)
            for part in range(schedule.accumulate):
                number = step * schedule.accumulate + part
                images, labels = next(batches)
                generator = torch.Generator().manual_seed(random.subseed(schedule.seed, "augment", number))
                x = augment(torch.from_numpy(np.array(images)).to(device), schedule.augment, generator)
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(random.subseed(schedule.seed, "dropout", number))
                    loss = method.batch_loss(m, learner.backbone.normalise(x), torch.as_tensor(labels, device=device))  # type: ignore[operator]
                    (loss / schedule.accumulate).backward()
            if not torch.isfinite(loss):
                raise BadInput(f"the loss of {method.name} is {float(loss)} at step {step}; lower schedule.rate")
            if schedule.clip:
                nn.utils.clip_grad_norm_([*backbone, *heads], schedule.clip)
            optimiser.step()
            every = schedule.validate_every
            if valid is not None and every and (step + 1) % every == 0:
                m.eval()
                states.append((validate(learner, valid, schedule), copy.deepcopy(m.state_dict())))
                states = sorted(states, key=lambda pair: -pair[0])[: method.ensemble]
    return states


def _auto_ensemble(
    method: MetaDelta, learner: EmbeddedLearner, valid: Rule | None, states: list[tuple[float, State]]
) -> State:
    """Average the best states one by one, as long as the average validates no worse."""
    best, kept = states[0][0], [states[0][1]]
    for _, state in states[1:]:
        together = average([*kept, state])
        learner.modules.load_state_dict(together)
        learner.modules.eval()
        score = validate(learner, valid, method.schedule) if valid is not None else best
        if score >= best:
            best, kept = score, [*kept, state]
    return average(kept)


def average(states: list[State]) -> State:
    """The mean of each tensor; counters are taken from the first."""
    out: dict[str, Any] = {}
    for name, first in states[0].items():
        stacked = [state[name] for state in states]
        out[name] = torch.stack(stacked).mean(0) if first.is_floating_point() else first
    return out
