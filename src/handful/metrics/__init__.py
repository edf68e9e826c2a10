"""Scores of one task, means with intervals, paired comparison."""

from handful.door import open_door

__getattr__, __dir__ = open_door(__name__)
