"""FGFL: a second network on the images' frequencies says which of them the first should learn from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import PADDING, Batch
from handful.methods.layers.dct import BLOCK, colours, luminance, to_frequencies, to_pixels
from handful.methods.layers.imagetasks import Images, OnImages
from handful.methods.layers.stages import Staged
from handful.methods.metric.protonet import ProtoNet
from handful.methods.stages import Stage
from handful.nets import Backbone
from handful.nets import build as build_net
from handful.nets.building import without_weights


class Reversed(torch.autograd.Function):
    """The same on the way forward; minus ``strength`` times the gradient on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return -ctx.strength * grad, None


@dataclass(frozen=True, kw_only=True)
class FGFL(OnImages, ProtoNet, Staged):
    """FGFL (Cheng, Yang, Zhou, Guo, Wen, "Frequency guidance matters in few-shot learning", ICCV 2023), on ProtoNet.

    In training a second backbone g sees the images' 8x8 block DCT. Grad-CAM on its last map, for the true class of each
    image, becomes a mask over frequencies, M = sigmoid(ω (A - σ)) with A in 0..1; masking the coefficients with M and with
    1 - M and going back to pixels gives each image a good and a bad version. The loss is
    L(f) + L(g) + 0.1 (four losses of bad against whole, behind reversed gradients) + 0.01 L(f on whole and good images)
    + 0.01 max(0, |f - f_good| - |f - f_bad| + 0.1). Tasks are answered by f alone, as ProtoNet answers them. Before the tasks
    f and g are pre-trained, each with a linear classifier over the training classes.

    Parameters
    ----------
    pretrain, schedule
        The two stages; ``pretrain.steps=0`` leaves the first out.
    temperature
        f's squared distances are divided by 64, as in the public code.
    sharpness, threshold
        ω = 100 and σ = 0.1 in the public code since 92c416d; its first version (23cdb60) has ω = 10 and names 100 and 0.5 for
        miniImageNet.
    frequency_temperature
        Products of g's features with unit prototypes are divided by 12.5, as there.
    against, augmented, apart, margin
        The weights 0.1, 0.01 and 0.01 and the triplet's margin, as there. ``reverse`` are the strengths of the reversed
        gradients: 0.5 through g, 0.1 through f, as in the first version; ``0,0`` is the last, which lets none through.

    Notes
    -----
    The losses and constants are those of chenghao-ch94/FGFL at 7922cd3, whose base is FEAT with encoders that were trained
    by FEAT (f) and ProtoNet (g) before; the paper adds the same guidance to several bases, and here it is on ProtoNet with
    encoders pre-trained by classification. Good and bad images pass with
    batch norm's running statistics, and A is scaled over the whole batch, as there. The code cuts masked coefficients to
    -128..127, which a block's mean exceeds; here only pixels are cut to their range. g's features are its last map's means.
    """

    temperature: float = 64.0
    sharpness: float = 100.0
    threshold: float = 0.1
    frequency_temperature: float = 12.5
    against: float = 0.1
    augmented: float = 0.01
    apart: float = 0.01
    margin: float = 0.1
    reverse: tuple[float, float] = (0.5, 0.1)

    name: ClassVar[str] = "fgfl"
    first: ClassVar[tuple[str, ...]] = ("backbone", "frequency", "classifier", "frequency_classifier")
    second: ClassVar[tuple[str, ...]] = ("backbone", "frequency")

    def __post_init__(self) -> None:
        if self.frequency_temperature <= 0 or min(self.against, self.augmented, self.apart, self.margin) < 0:
            raise BadInput("fgfl needs frequency_temperature above 0 and weights of at least 0")

    def stages(self) -> list[Stage]:
        first, second = Staged.stages(self)
        return [first, dataclasses.replace(second, loss=self.loss_on_images)]

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        height, width, channels = backbone.shape  # type: ignore[misc]
        if backbone.size is not None:
            height = width = backbone.size
        shape = (height + -height % BLOCK, width + -width % BLOCK, channels)  # type: ignore[operator]
        g = build_net(without_weights(self.net), shape, self.schedule.seed + 1)  # type: ignore[arg-type]
        return {
            "frequency": g,
            "classifier": nn.Linear(backbone.width, n_classes),  # type: ignore[arg-type]
            "frequency_classifier": nn.Linear(g.map_shape[0], n_classes),  # type: ignore[index]
        }

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        f, g = m["backbone"], m["frequency"]
        seen = g.maps(frequencies(f, x)).mean((2, 3)).float()  # type: ignore[operator, arg-type]
        named = m["classifier"](f(x).float()), m["frequency_classifier"](seen)
        return F.cross_entropy(named[0], labels) + F.cross_entropy(named[1], labels)

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        f: Any = m["backbone"]
        g: Any = m["frequency"]
        embedded = self.embed(m, images.x)
        whole = images.batch(embedded)
        every = torch.cat([whole.y, images.labels], 1)
        loss = cross_entropy(self.head(m, whole), images.labels)

        waves = frequencies(f, images.x)
        maps = g.maps(waves)
        seen = images.batch(maps.mean((2, 3)))
        scores = self.frequency_scores(seen, seen)
        loss = loss + cross_entropy(scores, every)
        mask = self.mask(scores, every, maps, waves.shape[-2:])

        good, bad = (still(f, pixels(f, waves * part, images.x)) for part in (mask, 1 - mask))
        without = still(g.maps, waves * (1 - mask)).mean((2, 3))
        return loss + self.guidance(m, images, embedded, good, bad, seen, without)

    def guidance(
        self,
        m: nn.ModuleDict,
        images: Images,
        embedded: Tensor,
        good: Tensor,
        bad: Tensor,
        seen: Batch,
        without: Tensor,
    ) -> Tensor:
        """The losses of the images' good and bad versions, weighed."""
        whole, helped = images.batch(embedded), images.batch(good)
        every = torch.cat([whole.y, images.labels], 1)
        hidden = images.batch(Reversed.apply(without, self.reverse[0]))
        harmed = images.batch(Reversed.apply(bad, self.reverse[1]))
        against = (
            cross_entropy(self.frequency_scores(hidden, seen), every)
            + cross_entropy(self.frequency_scores(seen, hidden), every)
            + cross_entropy(self.head(m, dataclasses.replace(harmed, q=whole.q)), images.labels)
            + cross_entropy(self.head(m, dataclasses.replace(whole, q=harmed.q)), images.labels)
        )
        two = dataclasses.replace(
            whole,
            s=torch.cat([whole.s, helped.s], 1),
            y=torch.cat([whole.y, whole.y], 1),
            q=torch.cat([whole.q, helped.q], 1),
            q_mask=None if whole.q_mask is None else torch.cat([whole.q_mask, whole.q_mask], 1),
        )
        augmented = cross_entropy(self.head(m, two), torch.cat([images.labels, images.labels], 1))
        apart = F.triplet_margin_loss(embedded, good, bad, self.margin)
        return self.against * against + self.augmented * augmented + self.apart * apart

    def frequency_scores(self, shown: Batch, asked: Batch) -> Tensor:
        """Products of all images of ``asked`` with the unit prototypes of ``shown``: ``(T, S + Q, C)``."""
        x = torch.cat([asked.s, asked.q], 1)
        return shown.close(x @ F.normalize(shown.prototypes(), dim=-1).transpose(1, 2) / self.frequency_temperature)

    def mask(self, scores: Tensor, labels: Tensor, maps: Tensor, size: Any) -> Tensor:
        """M ``(n, 1, h, w)`` over coefficients: Grad-CAM of the true classes' scores, from 0 (of no use) to 1."""
        true = torch.gather(scores, 2, labels.clamp_min(0)[..., None])[..., 0]
        slopes = torch.autograd.grad(true.masked_fill(labels < 0, 0.0).sum(), maps, retain_graph=True)[0]
        strength = F.relu((maps * slopes.mean((2, 3), keepdim=True)).sum(1, keepdim=True))
        strength = F.interpolate(strength, size=size, mode="bilinear", align_corners=True)
        low, high = strength.amin(), strength.amax()
        return torch.sigmoid(self.sharpness * ((strength - low) / (high - low + 1e-8) - self.threshold))


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=PADDING)


def frequencies(net: Backbone, x: Tensor) -> Tensor:
    """The DCT coefficients of normalised images on JPEG's scale: luminance of 0..255 less 128, colour differences as they are."""
    mean, std = (torch.tensor(v, device=x.device, dtype=x.dtype).view(1, -1, 1, 1) for v in (net.mean, net.std))
    waves = 255 * luminance((x * std + mean).clamp(0, 1))
    level = torch.zeros(1, x.shape[1], 1, 1, device=x.device, dtype=x.dtype)
    level[:, 0] = 128.0
    return to_frequencies(waves - level)


def pixels(net: Backbone, waves: Tensor, like: Tensor) -> Tensor:
    """Back from coefficients to normalised images of the size of ``like``, colours kept in their range."""
    level = torch.zeros(1, like.shape[1], 1, 1, device=like.device, dtype=like.dtype)
    level[:, 0] = 128.0
    x = colours((to_pixels(waves, *like.shape[-2:]) + level) / 255).clamp(0, 1)
    mean, std = (torch.tensor(v, device=x.device, dtype=x.dtype).view(1, -1, 1, 1) for v in (net.mean, net.std))
    return (x - mean) / std


def still(net: Any, x: Tensor) -> Tensor:
    """A pass with batch norm's running statistics, whatever mode the network is in; vectors, or maps of ``net.maps``."""
    layers = [n for n in getattr(net, "__self__", net).modules() if isinstance(n, nn.modules.batchnorm._BatchNorm)]
    modes = [layer.training for layer in layers]
    for layer in layers:
        layer.eval()
    out = net(x).float()
    for layer, mode in zip(layers, modes, strict=True):
        layer.train(mode)
    return out
