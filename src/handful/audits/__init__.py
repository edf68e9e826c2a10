"""What a benchmark measures: one file a diagnosis."""

from handful.door import open_door

__getattr__, __dir__ = open_door(__name__)
