"""Tasks: episodes, what learners see of them, and the rules that draw them."""

from handful.tasks.anyway import AnyWay
from handful.tasks.episode import Episode, Query, Support, Task
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule

__all__ = ["AnyWay", "Episode", "NWay", "Query", "Rule", "Support", "Task"]
