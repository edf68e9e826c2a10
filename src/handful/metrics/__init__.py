"""Scores of one task, means with intervals, paired comparison."""

from handful.metrics.base import Estimate, Metric, mean_interval
from handful.metrics.compare import Comparison, paired

__all__ = ["Comparison", "Estimate", "Metric", "mean_interval", "paired"]
