"""refined-ProtoNet, in both forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.compositional.describe import SHOWN, described
from handful.methods.compositional.lifted import Lifted
from handful.methods.contract import Method
from handful.methods.embedded import Embedded
from handful.methods.heads import squared_distances
from handful.tasks.rule import Rule


def two_layers(n_in: int, hidden: int, n_out: int) -> nn.Sequential:
    """Two linear maps with a ReLU in between."""
    return nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, n_out))


@dataclass(frozen=True, kw_only=True)
class FeatureSelection(Embedded):
    """One axis of refined-ProtoNet without side information (RLCL Eq. 5-7).

    A prototype's own map decides which channels describe the class, and a query's own map which describe the query:

        g(v, F) = σ(h(GMP(F)) + h(GAP(F))) ⊗ v,   F_p the mean of the class's support maps, v_p = GAP(F_p)
        p(k | x) ∝ exp(-|g(GAP(F_x), F_x) - g(v_k, F_k)|²)

    Parameters
    ----------
    hidden
        Units between h's two layers; 0 is as many as there are channels (the paper gives no number).
    """

    hidden: int = 0

    maps: ClassVar[bool] = True

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        channels: int = backbone.map_shape[0]  # type: ignore[index, assignment]
        return {"h": two_layers(channels, self.hidden or channels, channels)}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(-squared_distances(select(m["h"], b.q), select(m["h"], b.prototypes())))


def select(h: nn.Module, maps: Tensor) -> Tensor:
    """Eq. 5: pooled maps ``(..., c, h, w) -> (..., c)``, each channel weighed by what the maps themselves say of it."""
    average, most = maps.mean((-2, -1)), maps.amax((-2, -1))
    return torch.sigmoid(h(most) + h(average)) * average


@dataclass(frozen=True, kw_only=True)
class DescriptionMixing(Embedded):
    """One axis of refined-ProtoNet with side information (RLCL Eq. 2-4).

    A class description w (a word vector) is mapped to the prototypes' space and mixed in, channel by channel:

        w' = ReLU(h₀(w)),   a = 1 / (1 + exp(-σ(h₁(w')))),   v' = a ⊗ v + (1 - a) ⊗ w'
        p(k | x) ∝ exp(-|GAP(F_x) - v'_k|²)

    Parameters
    ----------
    hidden
        Units between the two layers of h₀ and h₁; 0 is as many as there are channels.
    width
        Length of the descriptions; 0 takes the training rule's (300, word2vec's, for an untrained learner).
    gate
        ``printed`` is Eq. 2, whose weight of the prototype is a sigmoid of a sigmoid and lies between 0.5 and 0.731;
        ``single`` is σ(h₁(w')), which can lie anywhere between 0 and 1.
    """

    hidden: int = 0
    width: int = 0
    gate: Literal["printed", "single"] = "printed"

    needs: ClassVar[frozenset[str]] = SHOWN
    maps: ClassVar[bool] = True

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        channels: int = backbone.map_shape[0]  # type: ignore[index, assignment]
        hidden = self.hidden or channels
        return {"h0": two_layers(self.width or 300, hidden, channels), "h1": two_layers(channels, hidden, channels)}

    def mix(self, m: nn.ModuleDict, v: Tensor, w: Tensor) -> Tensor:
        """Eq. 2-3: prototypes ``(..., c)`` and descriptions ``(..., d)`` as refined prototypes."""
        mapped = torch.relu(m["h0"](w))
        weight = torch.sigmoid(m["h1"](mapped))
        if self.gate == "printed":
            weight = torch.sigmoid(weight)
        return weight * v + (1 - weight) * mapped

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        means = b.prototypes(b.s.mean((-2, -1)))
        refined = self.mix(m, means, described(b, self.width or 300))
        return b.close(-squared_distances(b.q.mean((-2, -1)), refined))


@dataclass(frozen=True, kw_only=True)
class RefinedProtoNet(Lifted, FeatureSelection):
    """refined-ProtoNet (RLCL, "Reference-limited compositional learning", 2022), prototypical features as descriptions.

    ProtoNet on pairs whose two branches each select channels, so that one embedding can be compared by colour on one axis
    and by shape on the other. See `FeatureSelection` for the equations.
    """

    name: ClassVar[str] = "refined-protonet"


@dataclass(frozen=True, kw_only=True)
class RefinedProtoNetWords(Lifted, DescriptionMixing):
    """refined-ProtoNet with side information: word vectors of the primitives mixed into their prototypes.

    See `DescriptionMixing` for the equations.
    """

    name: ClassVar[str] = "refined-protonet-words"

    def for_training(self, train: Rule, valid: Rule | None) -> tuple[Method, Rule]:
        method, train = super().for_training(train, valid)
        shown = None if self.width else train.draw(0, 0).descriptions
        return (method if shown is None else replace(self, width=shown[0].shape[1])), train
