"""Train-from-scratch: no meta-training; every task trains a whole network on its own support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import Mismatch
from handful.methods.contract import Learner, Method, Predictor
from handful.methods.metadl.adam import picks
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.given import Net
from handful.tasks.episode import Query, Support


@dataclass(frozen=True, kw_only=True)
class TrainFromScratch(Method):
    """Train-from-scratch, the weakest baseline of Cross-Domain MetaDL (Carrión-Ojeda et al., 2022, E.1 and Table 1).

    A network with a fresh last layer is trained on the support alone by Adam with cross-entropy and answers the queries.

    Parameters
    ----------
    net
        ``resnet18``; ``resnet18:weights=FILE`` starts from published weights (the paper's free-style league).
    steps, rate, task_batch
        100 iterations of Adam at 0.001 in batches of 4 (Table 1).
    seed
        Of the first weights of backbone and last layer, together with the task's own.

    Notes
    -----
    Queries are normalised by the running statistics of batch norm, so that no query sees another.
    """

    net: Net = "resnet18"
    steps: int = 100
    rate: float = 0.001
    task_batch: int = 4
    seed: int = 0

    name: ClassVar[str] = "train-from-scratch"
    tunes: ClassVar[bool] = True

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> ScratchLearner:
        backbone = build_net(self.net, tuple(shape), self.seed)
        return ScratchLearner(self, backbone, tuple(shape), compute or Compute())

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> ScratchLearner:
        from handful.nets.weights import load_state

        learner = self.untrained(tuple(facts["shape"]), compute=compute)
        load_state(learner.backbone, state, where)
        return learner


class ScratchLearner(Learner):
    """The first weights, kept as they are; each task trains a copy."""

    def __init__(self, method: TrainFromScratch, backbone: Any, shape: tuple[int, ...], compute: Compute):
        self.method: TrainFromScratch = method
        self.backbone, self.shape, self.compute = backbone, shape, compute

    def facts(self) -> dict[str, Any]:
        return {"shape": list(self.shape)}

    def state(self) -> dict[str, Tensor]:
        return self.backbone.state_dict()

    def fit(self, support: Support) -> ScratchPredictor:
        import copy

        method = self.method
        if support.images is None or tuple(support.images.shape[1:]) != self.shape:
            raise Mismatch(f"this {method.name} takes images of {self.shape}; pack them at that size")
        with self.compute.here() as device, torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(support.seed % (1 << 62) + method.seed)
            backbone = copy.deepcopy(self.backbone).to(device).train()
            last = nn.Linear(backbone.width, support.n_classes).to(device)
            optimiser = torch.optim.Adam([*backbone.parameters(), *last.parameters()], method.rate)
            labels = torch.as_tensor(np.asarray(support.labels), device=device)
            rows = picks(len(labels), method.steps, method.task_batch, support.seed % (1 << 62))
            for at in rows:
                images = torch.from_numpy(np.ascontiguousarray(support.images[at.numpy()])).to(device)
                optimiser.zero_grad(set_to_none=True)
                loss = F.cross_entropy(last(backbone(backbone.normalise(images)).float()), labels[at.to(device)])
                loss.backward()
                optimiser.step()
        return ScratchPredictor(self, backbone.eval(), last.eval())


class ScratchPredictor(Predictor):
    def __init__(self, learner: ScratchLearner, backbone: Any, last: nn.Linear):
        self.learner, self.backbone, self.last = learner, backbone, last

    def predict(self, query: Query) -> np.ndarray:
        from handful.nets.features import embed_images

        with self.learner.compute.here(), torch.no_grad():
            features = embed_images(self.backbone, query.images, self.learner.compute, False)
            return self.last(features.float()).float().cpu().numpy()
