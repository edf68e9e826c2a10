# Written by handful.door.write() from the registry.

from handful.runs.evaluate import evaluate
from handful.runs.run import Run

__all__ = [
    "Run",
    "evaluate",
]
