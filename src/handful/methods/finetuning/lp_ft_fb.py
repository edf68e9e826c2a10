"""LP-FT-FB: linear probing, then fine-tuning of the whole network on the support, both with Firth's penalty."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.contract import Predictor
from handful.methods.heads import CosineClassifier
from handful.methods.layers.pretrained import Pretrained
from handful.methods.modules import ModuleLearner
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.tasks.episode import Query, Support


def firth_loss(logits: Tensor, labels: Tensor, firth: float) -> Tensor:
    """Cross-entropy + firth · mean of -log p over images and classes.

    Firth's bias reduction of a multinomial logistic classifier, up to a constant: the divergence of its answers from
    uniform ones (Ghaffari, Saleh, Forsyth, Wang, ICLR 2022).
    """
    return F.cross_entropy(logits, labels) - firth * torch.log_softmax(logits, -1).mean()


@dataclass(frozen=True, kw_only=True)
class LPFTFB(Pretrained):
    """LP-FT-FB (Wang, Yue, Ye, He, Li, Li, "Revisit finetuning strategy for few-shot learning to transfer the
    embeddings", ICLR 2023).

    A task first trains a classifier on frozen features (LP), so that the features are not distorted by a random
    one, then the whole network at a small rate (FT); both minimise CE - firth · mean log p.

    Parameters
    ----------
    probe_passes, probe_rate, probe_firth
        Passes over the support in batches of 4 by SGD with momentum and dampening 0.9 and decay 0.001; rate 0.01 and
        Firth weight 1 as in the public code, which makes 300 passes.
    tune_passes, tune_rate, tune_firth
        Plain gradient descent, all parameters but batch norm's; rate 0.001 and Firth weight 0.001 as in the public code,
        which makes 300 passes: hundreds of times what other methods spend on a task.
    classifier
        ``cosine`` as in the public code: cosines times a learned norm of each class and 2 (10 above 200 classes). ``linear``:
        a linear layer.

    Notes
    -----
    The public code is whzyf951620/LinearProbingFinetuningFirthBias at 5acc53c; it probes on features that distribution
    calibration has added to, which is left out.
    """

    probe_passes: int = 100
    probe_rate: float = 0.01
    probe_firth: float = 1.0
    tune_passes: int = 10
    tune_rate: float = 0.001
    tune_firth: float = 0.001
    task_batch: int = 4
    classifier: Literal["cosine", "linear"] = "cosine"

    name: ClassVar[str] = "lp-ft-fb"
    tunes: ClassVar[bool] = True

    def tuner(self, backbone: nn.Module, last: nn.Module, orders: torch.Generator) -> torch.optim.Optimizer:
        """What is tuned after the probe, and how."""
        norms = {id(p) for m in backbone.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
        tuned = [p for p in [*backbone.parameters(), *last.parameters()] if id(p) not in norms]
        return torch.optim.SGD(tuned, self.tune_rate)

    def untrained(  # type: ignore[override]
        self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None
    ) -> TunedLearner:
        return TunedLearner(self, self.modules(tuple(shape), n_classes), tuple(shape), n_classes, compute or Compute())


class TunedLearner(ModuleLearner):
    """Tunes a copy of the pre-trained network on each support."""

    method: LPFTFB

    def fit(self, support: Support) -> TunedPredictor:
        method, images = self.method, self.fitting(support.images)
        with self.compute.here() as device, torch.enable_grad():
            y = torch.as_tensor(np.asarray(support.labels), device=device)
            orders = torch.Generator().manual_seed(int(support.seed))
            backbone = copy.deepcopy(self.backbone).eval()
            features = embed_images(backbone, images, self.compute)
            last = self.first(features.shape[1], support.n_classes, orders).to(device)
            self.probe(last, features, y, orders)
            x = backbone.normalise(torch.from_numpy(images.copy()).to(device))  # type: ignore[operator]
            optimiser = method.tuner(backbone, last, orders)
            for pick in self.batches(len(y), method.tune_passes, orders):
                optimiser.zero_grad()
                firth_loss(last(backbone(x[pick])), y[pick], method.tune_firth).backward()
                optimiser.step()
        return TunedPredictor(backbone, last, self.compute)

    def first(self, width: int, n_classes: int, orders: torch.Generator) -> nn.Module:
        """A task's classifier with torch's own start, drawn from the task's seed."""
        last: Any = nn.Linear(width, n_classes)
        if self.method.classifier == "cosine":
            last = CosineClassifier(width, n_classes, scale=2.0 if n_classes <= 200 else 10.0, learn_norm=True)
        with torch.no_grad():
            last.weight.copy_((2 * torch.rand(last.weight.shape, generator=orders) - 1) * width**-0.5)
            if self.method.classifier == "cosine":
                last.norm.copy_(last.weight.norm(dim=-1))
            else:
                last.bias.copy_((2 * torch.rand(last.bias.shape, generator=orders) - 1) * width**-0.5)
        return last

    def probe(self, last: nn.Module, features: Tensor, y: Tensor, orders: torch.Generator) -> None:
        """Train a classifier on frozen features."""
        method = self.method
        optimiser = torch.optim.SGD(
            last.parameters(), method.probe_rate, momentum=0.9, dampening=0.9, weight_decay=0.001
        )
        for pick in self.batches(len(y), method.probe_passes, orders):
            optimiser.zero_grad()
            firth_loss(last(features[pick]), y[pick], method.probe_firth).backward()
            optimiser.step()

    def batches(self, n: int, passes: int, orders: torch.Generator) -> list[Tensor]:
        size = self.method.task_batch or n
        return [pick for _ in range(passes) for pick in torch.randperm(n, generator=orders).split(size)]


class TunedPredictor(Predictor):
    def __init__(self, backbone: nn.Module, last: nn.Module, compute: Compute):
        self.backbone, self.last, self.compute = backbone, last, compute

    def predict(self, query: Query) -> np.ndarray:
        with self.compute.here(), torch.no_grad():
            return self.last(embed_images(self.backbone, np.asarray(query.images), self.compute)).cpu().numpy()
