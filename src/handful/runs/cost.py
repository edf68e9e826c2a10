"""About how long a recipe takes on this machine: the work of its trainings and tasks over the speed of one short measurement.

An estimate to plan by, not a promise: backbones' multiplications are counted and everything else (heads, drawing, reading)
is taken as a fixed time for each step and task.
"""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from handful.cores import cores
from handful.data.collection import Card
from handful.errors import HandfulError
from handful.nets import build as build_net
from handful.nets.building import without_weights
from handful.options import parse_range, parse_spec
from handful.runs.matrix import configured
from handful.runs.recipe import MethodSpec, Recipe, RuleSpec

STEP, TASK, TUNING = 0.01, 0.005, 0.04
"""Seconds of a training step, of a task, and of what is fitted to a task, beside the backbone's work."""
BACKWARD = 3
"""Forward and backward together, in forward passes."""
ONCE = 10_000
"""Different images that a test's tasks have at most."""
UNKNOWN = 84
"""The side of the images of a collection that is not here."""
MEASURED = 0.1


@functools.cache
def speed() -> float:
    """Operations a second of one core in a convolution: a tenth of a second of processor time, whatever else runs."""
    x, w = torch.ones(16, 64, 21, 21), torch.ones(64, 64, 3, 3)
    work, rounds, before = 2 * 16 * 64 * 64 * 9 * 21 * 21, 0, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            F.conv2d(x, w, padding=1)
            start = time.thread_time()
            while time.thread_time() - start < MEASURED:
                F.conv2d(x, w, padding=1)
                rounds += 1
            return work * rounds / (time.thread_time() - start)
    finally:
        torch.set_num_threads(before)


@functools.cache
def operations(net: str, shape: tuple[int, ...]) -> float:
    """Operations of one image through a backbone; nothing is computed, only counted."""
    # Weights that a net brings along are not copied: only the sizes count.
    with warnings.catch_warnings(), torch.device("meta"), FlopCounterMode(display=False) as counted, torch.no_grad():
        warnings.simplefilter("ignore")
        backbone = build_net(without_weights(net), shape, 0).eval()
        backbone(backbone.normalise(torch.zeros((1, *shape), dtype=torch.uint8)))
    return float(counted.get_total_flops())


def seconds_of(recipe: Recipe, shape: tuple[int, ...]) -> float | None:
    """Seconds of a recipe on one core after another, shared by as many as there are; None where its cost is not known."""
    rows = [row for row in recipe.method if row.name]
    try:
        each = [row_seconds(recipe, row, shape) for row in rows]
    except (HandfulError, NotImplementedError, RuntimeError, TypeError):
        return None
    known = [seconds for seconds in each if seconds is not None]
    if len(known) < len(recipe.method):
        return None
    total = len(recipe.seeds) * sum(known)
    return max(total / cores(), *known)


def row_seconds(recipe: Recipe, row: MethodSpec, shape: tuple[int, ...]) -> float | None:
    """Training and evaluation of one row; None for a method that says nothing of its steps."""
    method: Any = configured(row, 0)
    image = operations(method.net, shape) / speed() if hasattr(method, "net") else 0.0
    tests = [t for t in recipe.test if not row.tests or t.label in row.tests]
    stages = method.stages() if row.trained and recipe.train is not None else []
    if stages and not any(stage.schedule for stage in stages):
        return None
    passes, task = own_passes(method), TASK + TUNING * method.tunes
    seconds = 0.0
    for stage in stages:
        if stage.schedule is None:
            continue
        s, rule = stage.schedule, recipe.train.merged(row.train) if recipe.train else RuleSpec()
        support, query = images_of(rule)
        images = s.batch if stage.on == "batches" else s.tasks * (support * (1 + passes[0]) + query)
        spent = s.steps * s.accumulate * (STEP + BACKWARD * images * image)
        seconds += min(spent, method.seconds) if hasattr(method, "seconds") else spent
        if s.validate_every and stage.validates and recipe.valid is not None:
            support, query = images_of(recipe.valid.merged(row.valid))
            each = task + (support * (1 + BACKWARD * passes[1]) + query) * image
            seconds += s.steps // s.validate_every * s.validate_tasks * each
    for test in tests:
        tasks, (support, query) = test.tasks * test.repeats, images_of(test)
        drawn = tasks * (support + query)
        # Frozen features are computed once for each image; a backbone that a task moves, anew for each task.
        seen = min(drawn, ONCE) if not passes[1] else drawn + BACKWARD * passes[1] * tasks * support
        seconds += tasks * task + seen * image
    return seconds


def own_passes(method: Any) -> tuple[float, float]:
    """How often a task's support passes the backbone to move it, in training and at test; 0 where it stands still."""
    if hasattr(method, "adapted"):
        moves = any(name.startswith("backbone") for name in method.adapted(["backbone", "last"]))
        return (float(method.inner_steps), float(method.test_steps)) if moves else (0.0, 1 / BACKWARD)
    if method.tunes and not method.untrained((32, 32, 3)).embeds:
        return 0.0, float(
            next((getattr(method, n) for n in ("tune_passes", "passes", "steps") if hasattr(method, n)), 0)
        )
    return 0.0, 0.0


def images_of(rule: RuleSpec) -> tuple[float, float]:
    """Support images and queries of a task, ranges taken at their middle."""
    more = rule.model_extra or {}
    if isinstance(more.get("of"), dict):
        more = {**more["of"], **more}
    classes = middle(more.get("ways", more.get("primitives", 5))) * (5 if rule.rule == "pairs" else 1)
    return classes * middle(more.get("shots", 5)), classes * middle(more.get("queries", 15))


def middle(value: Any) -> float:
    low, high = (found, found) if isinstance(found := parse_range(str(value), "tasks"), int) else found
    return (low + high) / 2


def shape_of(card: Card | None, place: str) -> tuple[int, ...]:
    """The images' shape of a collection: of its card, of a world's options, else what most benchmarks have."""
    if card is not None:
        return tuple(card.shape)
    name, options = parse_spec(place)
    side = int(options.get("size", 32)) if name == "world" else UNKNOWN
    return side, side, 3


def in_words(seconds: float | None) -> str:
    """A time as one says it."""
    if seconds is None:
        return "not known"
    on = f" on {cores()} core{'s' if cores() > 1 else ''}"
    for size, unit in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= 0.95 * size:
            n = max(1, round(seconds / size))
            return f"about {n:,} {unit}{'s' if n > 1 else ''}{on}"
    return f"less than a minute{on}"
