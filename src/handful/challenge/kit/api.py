"""The import name ``api``, for submissions that expect the interface beside their ``model.py`` without a copy of it."""

from __future__ import annotations

from cdmetadl.api.api import Learner, MetaLearner, Predictor, Task

__all__ = ["Learner", "MetaLearner", "Predictor", "Task"]
