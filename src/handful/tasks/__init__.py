"""Tasks: episodes, what learners see of them, and the rules that draw them."""

from handful.door import open_door

__getattr__, __dir__ = open_door(__name__)
