"""Does an image look like its concept or like its context? CLIP's image-text similarity (`probe` asks linear probes)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F

from handful.audits.context import Context
from handful.audits.finding import Diagnosis, Finding, above
from handful.audits.probe import ContextProbe
from handful.cache import cache_folder
from handful.data.collection import Collection, Part
from handful.errors import BadInput, Missing, nearest
from handful.files import read_npy, write_atomically
from handful.metrics.base import Estimate, mean_interval
from handful.nets.backbone import Backbone
from handful.nets.compute import Compute
from handful.nets.features import embed_rows, weights_hash
from handful.nets.texts import READERS, reader, said
from handful.options import parse_spec
from handful.progress import bar

TEMPLATES: dict[str, tuple[str, str]] = {
    "bare": ("{}", "{}"),
    "photo": ("a photo of a {}.", "a photo of a {}."),
    "scene": ("a photo of a {}.", "a photo with {} in the background."),
    "style": ("a picture of a {}.", "a picture in the style of {}."),
}
"""By name: the text of a concept and the text of a context. The paper gives none."""

REPORTED = {
    "miniImageNet": 0.211, "CIFAR-FS": 0.181, "Stanford Dogs": 0.244, "Stanford Cars": 0.164, "Aircraft": 0.228,
    "CUB-200-2011": 0.266, "Describable Textures": 0.194, "Traffic Signs": 0.193, "Omniglot": 0.212, "Fungi": 0.191,
    "VGG Flower": 0.177, "MSCOCO": 0.173, "Quick Draw": 0.168, "CropDiseases": 0.213, "ChestX": 0.183,
    "EuroSAT": 0.173, "ISIC2018": 0.186, "MetaCoCo": 0.142,
}  # fmt: skip
"""Mean M_ce of Table 1, by an unnamed CLIP and prompt."""


@dataclass(frozen=True, eq=False)
class Similarity:
    """Similarities of every image to the texts of its concept and of its context.

    ``frame`` has a row per image: image, concept, context, m_ce, m_te (the last two cosines; no context, no m_te);
    ``caution`` is what must stand beside numbers of a net that is no CLIP.
    """

    name: str
    template: str
    frame: pl.DataFrame
    caution: str = ""

    @property
    def concept(self) -> Estimate:
        """Mean M_ce, with an interval over images."""
        return mean_interval(self.frame["m_ce"].to_numpy(), "images")

    @property
    def context(self) -> Estimate | None:
        """Mean M_te; none for a collection without contexts."""
        return mean_interval(self.frame["m_te"].to_numpy(), "images") if "m_te" in self.frame.columns else None

    @property
    def lead(self) -> Estimate | None:
        """Mean of M_te - M_ce, paired by image: above 0, images look more like their contexts."""
        if "m_te" not in self.frame.columns:
            return None
        return mean_interval((self.frame["m_te"] - self.frame["m_ce"]).to_numpy(), "images")

    def by(self, column: str) -> pl.DataFrame:
        """Mean similarities by ``concept`` or ``context``."""
        means = [pl.col(c).mean() for c in ("m_ce", "m_te") if c in self.frame.columns]
        return self.frame.group_by(column).agg(pl.len().alias("images"), *means).sort(column)


def similarity(
    part: Part,
    clip: Backbone | str | Path,
    template: str = "photo",
    *,
    column: str = "",
    compute: Compute | None = None,
    cache: bool = True,
) -> Similarity:
    """M_ce and M_te of MetaCoCo (Eq. 1): cosines of CLIP's image features with the texts of concept and context.

    Parameters
    ----------
    clip
        A net with a text side, its spec (``lite2+minilm``), or the folder (or hub name) of a CLIP checkpoint.
    template
        One of `TEMPLATES`.
    column
        The column of contexts; the collection's own by default.
    cache
        Keep the image features in the cache folder and take them from there next time.

    Notes
    -----
    The paper calls d a cosine distance and uses it as a similarity: larger is more alike, as here.
    """
    if template not in TEMPLATES:
        raise BadInput(f"there is no prompt template {template!r}; {nearest(template, TEMPLATES)}")
    compute = compute or Compute()
    card = part.collection.card
    check_images(part)
    codes, names = part.codes(card.labels)
    context = column or card.context
    # Columns are looked at first: a missing label must not come to light after the images were embedded.
    where = part.codes((context,)) if context else None
    net = reader(clip, card.shape)
    net.to(compute.device).eval()
    images = F.normalize(torch.from_numpy(image_features(part, net, compute, cache)), dim=-1)
    for_concept, for_context = TEMPLATES[template]
    concepts = [said(*name) for name in names]
    columns: dict[str, object] = {
        "image": part.rows,
        "concept": [concepts[c] for c in codes],
        "m_ce": cosines(images, net, concepts, for_concept, codes),
    }
    if where is not None:
        codes, names = where
        contexts = [said(*name) for name in names]
        columns["context"] = [contexts[c] for c in codes]
        columns["m_te"] = cosines(images, net, contexts, for_context, codes)
    return Similarity(card.name, template, pl.DataFrame(columns), net.caution)


def check_images(part: Part) -> None:
    """Refuse features, which no CLIP can look at."""
    card = part.collection.card
    if card.kind != "images":
        raise BadInput(f"{card.name} holds features, and CLIP needs images; probe them with --net pixels")


def cosines(images: torch.Tensor, net: Backbone, names: list[str], template: str, codes: np.ndarray) -> np.ndarray:
    features = torch.stack([net.named(name, (template,)).cpu() for name in names])
    return (images * features[torch.from_numpy(codes)]).sum(1).double().numpy()


def image_features(part: Part, net: Backbone, compute: Compute, cache: bool) -> np.ndarray:
    """Features of every image of a part, embedded once for a checkpoint and a part."""
    facts = f"{part.id}/{weights_hash(net)}/{net.size}/{net.mean}/{net.std}{net.code}"
    path = cache_folder() / "clip" / f"{hashlib.sha256(facts.encode()).hexdigest()[:24]}.npy"
    if cache and (kept := _kept(path, len(part), net.width)) is not None:
        return kept
    with compute.here(), bar(f"looking at {part.collection.card.name} with CLIP", len(part)) as advance:
        features = embed_rows(net, part.collection, part.rows, compute, advance=advance)

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as stream:
            np.save(stream, features, allow_pickle=False)

    if cache:
        write_atomically(path, write)
    return features


def _kept(path: Path, rows: int, width: int) -> np.ndarray | None:
    """Features of before; None if there are none, or not whole ones."""
    try:
        array = read_npy(path)
    except (OSError, ValueError):
        return None
    return np.array(array) if array.shape == (rows, width) and array.dtype.kind == "f" else None


def scatter(found: Similarity, most: int = 3000, seed: int = 0) -> str:
    """Figure 2(b) as SVG: M_te of every image (across) against its M_ce (up), the means, and where they are equal."""
    import matplotlib.pyplot as plt

    from handful.report.figures import COLOURS, STYLE, as_svg

    if found.context is None:
        raise BadInput(f"{found.name} has no contexts, so there is no M_te to draw")
    frame = found.frame.sample(most, seed=seed) if len(found.frame) > most else found.frame
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        figure, axis = plt.subplots(figsize=(3.8, 3.6))
        axis.plot(frame["m_te"].to_numpy(), frame["m_ce"].to_numpy(), ".", ms=2.5, alpha=0.5, color=COLOURS[0])
        low = min(frame["m_te"].min(), frame["m_ce"].min())  # type: ignore[type-var]
        high = max(frame["m_te"].max(), frame["m_ce"].max())  # type: ignore[type-var]
        axis.plot([low, high], [low, high], ":", color="#555", lw=1, label="equal")  # type: ignore[arg-type]
        axis.plot([found.context.value], [found.concept.value], "o", color=COLOURS[1], label="mean")
        axis.set_xlabel("image and context, $M_{te}$")
        axis.set_ylabel("image and concept, $M_{ce}$")
        axis.legend(frameon=False, fontsize=8)
        return as_svg(figure)


def ranking(found: Sequence[Similarity], reported: bool = False) -> str:
    """Figure 2(a) as SVG: collections by mean M_ce, lowest first; with ``reported``, the paper's Table 1 in grey."""
    import matplotlib.pyplot as plt

    from handful.report.figures import COLOURS, STYLE, as_svg

    bars = [(s.name, s.concept.value, s.concept.half, COLOURS[0]) for s in found]
    if reported:
        bars += [(f"{name} (reported)", value, 0.0, "#b9bec5") for name, value in REPORTED.items()]
    if not bars:
        raise BadInput("there is nothing to rank; give at least one similarity")
    bars.sort(key=lambda bar: -bar[1])
    names, values, halves, colours = zip(*bars, strict=True)
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        figure, axis = plt.subplots(figsize=(4.8, 0.6 + 0.24 * len(bars)))
        axis.barh(range(len(bars)), values, xerr=np.nan_to_num(halves), color=colours, error_kw={"lw": 1}, capsize=2)
        axis.set_yticks(range(len(bars)), names)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("mean similarity of image and concept, $M_{ce}$")
        return as_svg(figure)


@dataclass(frozen=True)
class ImageText(Diagnosis):
    """M_te - M_ce by a net of images and texts: the one named, or the audit's own if it is one (``--net lite2+minilm``)."""

    clip: str = ""
    template: str = "photo"
    column: str = ""

    name: ClassVar[str] = "image-text"
    question: ClassVar[str] = "Do images look more like their context than like their concept?"
    topic: ClassVar[str] = "background"

    def missing(self, collection: Collection) -> str:
        if collection.card.kind != "images":
            return "the collection holds features, not images"
        return ContextProbe(self.column).missing(collection)

    def run(self, context: Context) -> list[Finding]:
        asked = self.clip or context.net
        if not self.clip and parse_spec(asked)[0] not in READERS:
            raise Missing(
                "image-text similarity needs a net of images and texts; give --clip PATH of a CLIP, or --clip lite2+minilm"
            )
        net = reader(asked, context.part.collection.card.shape)
        found = similarity(context.part, net, self.template, column=self.column, compute=context.compute)
        lead = found.lead
        assert lead is not None and found.context is not None
        sentence = (
            f"images are {found.context.value:.3f} like their context and {found.concept.value:.3f} like their concept "
            f"(cosines, template {found.template!r}{net.caution and f'; {net.caution}'})"
        )
        return [
            Finding(
                self.name, sentence, lead.value, lead.low, lead.high, "new images of the same classes",
                "red where images are more like their context, amber within 0.02", above(lead.value, -0.02, 0.0),
                scatter(found), {"context": found.context.as_dict(), "concept": found.concept.as_dict()},
                alt="Every image by its similarity to its context (across) and to its concept (up).",
            )
        ]  # fmt: skip
