"""The encoder alone: classes by their names, or a linear classifier on its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from handful.methods.adapters.base import Adapter, sharpness, unit
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.layers.logistic import fit_logistic
from handful.methods.stages import Stage
from handful.nets.given import Net


@dataclass(frozen=True, kw_only=True)
class Prompts(Adapter):
    """Zero-shot by prompts (Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021).

    The logit of a class is the encoder's sharpness times the cosine of the image and the class's text, which is the mean over
    prompts. Support images are not looked at.
    """

    name: ClassVar[str] = "prompts"
    needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    tunes: ClassVar[bool] = False
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"prompts": ("bare", "photo", "ensemble")}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(sharpness(m) * unit(b.q) @ self.words(m, b).transpose(1, 2))


@dataclass(frozen=True, kw_only=True)
class LinearProbe(Embedded):
    """Logistic regression on a frozen encoder's features of length 1, the baseline of Radford et al. (ICML 2021).

    Parameters
    ----------
    strength
        What the data weigh against the penalty, as scikit-learn's C.
    """

    net: Net = "lite2+minilm"
    strength: float = 10.0

    name: ClassVar[str] = "linear-probe"
    tunes: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"strength": (0.1, 1.0, 10.0, 100.0, 1000.0)}

    def stages(self) -> list[Stage]:
        return []

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(fit_logistic(b, unit(b.s), unit(b.q), strength=self.strength))
