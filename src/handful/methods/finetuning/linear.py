"""Linear and Cosine: the fine-tuning baselines of interventional few-shot learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from handful.methods.finetuning.baseline import Baseline


@dataclass(frozen=True, kw_only=True)
class Linear(Baseline):
    """The fine-tuning baseline "Linear" of Yue, Zhang, Sun, Hua ("Interventional few-shot learning", NeurIPS 2020).

    A linear classifier is trained on each task's support, the features frozen: 100 passes in batches of 4, SGD 0.01 with
    momentum and dampening 0.9 and decay 0.001, as yue-zhongqi/ifsl at 3503392 adapts (MAML_MN_FT/methods/meta_template.py).
    """

    name: ClassVar[str] = "linear"


@dataclass(frozen=True, kw_only=True)
class Cosine(Linear):
    """The fine-tuning baseline "Cosine" of Yue et al., NeurIPS 2020: as `Linear`, with scores 2 g_c cos(w_c, f(x)), g_c
    learned for each class, which is the cosine layer of the same code."""

    name: ClassVar[str] = "cosine"
    cosine: ClassVar[dict[str, Any]] = {"scale": 2.0, "learn_norm": True}
