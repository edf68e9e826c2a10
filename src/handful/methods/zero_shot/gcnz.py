"""GCNZ: six graph convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from handful.methods.zero_shot.sgcn import SGCN


@dataclass(frozen=True, kw_only=True)
class GCNZ(SGCN):
    """GCNZ, or GCN-6 (Wang, Ye, Gupta, "Zero-shot recognition via semantic embeddings and knowledge graphs", CVPR 2018).

    Six graph convolutions with hidden widths 2048, 2048, 1024, 1024, 512 and the symmetric normalisation of Kipf and
    Welling, D^-1/2 A D^-1/2. As in the public code (JudyYe/zero-shot-gcn, 0902b15, gcn/models.py) the layers have no
    bias and only the last two drop inputs. Its paper trains for 300 epochs, that code for 350.
    """

    hidden: tuple[int, ...] = (2048, 2048, 1024, 1024, 512)
    normalise: Literal["row", "symmetric"] = "symmetric"
    epochs: int = 300

    name: ClassVar[str] = "gcnz"
    has_bias: ClassVar[bool] = False
    dropped_layers: ClassVar[int | None] = 2
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"weight_decay": (5e-5, 5e-4), "epochs": (100, 300)}
