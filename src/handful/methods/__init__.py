"""Methods: learners behind one contract, found by name."""

from handful.door import open_door

__getattr__, __dir__ = open_door(__name__)
