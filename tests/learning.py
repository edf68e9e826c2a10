"""What tests of learning share: the seed of training, arithmetic that rounds otherwise, and decisions with room to spare.

``scripts/safety`` runs them under several seeds and roundings and reads the margins that `decide` writes down.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import torch

from handful.metrics.base import Estimate

if TYPE_CHECKING:
    from handful.runs import Run

SEED = int(os.environ.get("HANDFUL_TEST_SEED", "0"))
PERTURBED = os.environ.get("HANDFUL_TEST_PERTURB", "") == "1"
MARGINS = os.environ.get("HANDFUL_TEST_MARGINS", "")


def decide(effect: Estimate, above: float | None = None, below: float | None = None, what: str = "") -> None:
    """Assert that the whole interval of an effect lies above, or below, a threshold; write down how far, in intervals.

    Equal tasks have no spread, but n of them are no certainty: an interval is taken to be at least 1 / n.
    """
    assert (above is None) != (below is None)
    threshold = above if above is not None else below
    half = max(effect.half, 1 / effect.n)
    margin = (effect.value - threshold) / half * (1 if above is not None else -1)  # type: ignore[operator]
    test = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)")
    write_down(test, what=what, effect=effect.value, half=half, threshold=threshold, margin=margin)
    side = "above" if above is not None else "below"
    assert margin > 1, f"{what or 'effect'} {effect.value:.4f} ± {half:.4f} is not clearly {side} {threshold}"


def write_down(test: str, **facts: object) -> None:
    """Keep what a test found, or how it ended, for ``scripts/safety``."""
    if MARGINS:
        with open(MARGINS, "a") as file:
            file.write(json.dumps({"test": test, "seed": SEED, "perturbed": PERTURBED, **facts}) + "\n")


def over_images(run: Run, column: str) -> Estimate:
    """A share of images, one row per class, with the binomial interval of its images: the classes are given here."""
    seen = {"seen1": 1, "unseen1": 0}.get(column)
    frame = run.frame if seen is None else run.frame.filter(run.frame["seen"] == seen)
    p, n = run.estimate(column).value, int(frame["queries"].sum())
    half = 1.96 * (p * (1 - p) / n) ** 0.5
    return Estimate(p, p - half, p + half, "images", n)


def prepare() -> None:
    """Give every training the seed of the environment and, if asked, round otherwise: two threads, channels last."""
    from handful.methods.schedule import Schedule
    from handful.methods.zero_shot.base import ZeroShotMethod

    if SEED:
        defaults: dict[str, Any] = Schedule.__init__.__kwdefaults__
        defaults["seed"] = SEED
        # Methods derived from it later take their default from its field.
        ZeroShotMethod.__dataclass_fields__["seed"].default = SEED
    torch.set_num_threads(2 if PERTURBED else 1)
    if PERTURBED:
        forward = torch.nn.Conv2d.forward

        def channels_last(self: torch.nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
            if not torch._C._functorch.is_batchedtensor(x) and x.dim() == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            return forward(self, x)

        torch.nn.Conv2d.forward = channels_last  # type: ignore[method-assign]
