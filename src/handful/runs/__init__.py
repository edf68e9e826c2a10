"""Runs: evaluate, results on disk, engines."""

from handful.runs.evaluate import evaluate
from handful.runs.run import Run

__all__ = ["Run", "evaluate"]
