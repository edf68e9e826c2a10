"""From what an audit finds to a better benchmark: one file for each kind of repair, a plan, a mask, a certificate."""

from handful.door import open_door

__getattr__, __dir__ = open_door(__name__)
