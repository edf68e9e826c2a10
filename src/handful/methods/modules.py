"""What learners that hold trained modules share: device, state, facts, and the size of images they take."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
from torch import Tensor, nn

from handful.errors import Mismatch
from handful.methods.contract import Learner
from handful.nets import Backbone
from handful.nets.compute import Compute


class ModuleLearner(Learner):
    """A learner whose meta-training left modules, one of them the backbone."""

    def __init__(
        self, method: Any, modules: nn.ModuleDict, shape: tuple[int, ...], n_classes: int | None, compute: Compute
    ):
        self.method = method
        self.modules, self.shape, self.n_classes = modules, shape, n_classes
        self.to(compute)

    def to(self, compute: Compute) -> Self:
        self.compute = compute
        self.modules.to(compute.device).eval()
        return self

    @property
    def backbone(self) -> Backbone:
        return cast(Backbone, self.modules["backbone"])

    def fitting(self, images: np.ndarray | None) -> np.ndarray:
        """Images of the size that the backbone was made for; others are refused."""
        if images is None or tuple(images.shape[1:]) != self.shape:
            given = "none" if images is None else tuple(images.shape[1:])
            raise Mismatch(f"this {self.method.name} takes images of {self.shape}, not {given}; pack them at that size")
        return np.asarray(images)

    def facts(self) -> dict[str, Any]:
        return {"shape": list(self.shape), **({} if self.n_classes is None else {"n_classes": self.n_classes})}

    def state(self) -> dict[str, Tensor]:
        return self.modules.state_dict()
