# Written by handful.door.write() from the registry.

from handful.repair.contexts import BalancedContexts
from handful.repair.duplicates import Copies
from handful.repair.kinds import Entry
from handful.repair.labels import WrongLabels
from handful.repair.plan import Plan
from handful.repair.relatives import Relatives
from handful.repair.repair import apply
from handful.repair.repair import propose
from handful.repair.repair import undone
from handful.repair.shortcuts import ShortcutWeights
from handful.repair.small import SmallClasses
from handful.repair.splits import BestSplit
from handful.repair.unreadable import UnreadableImages

__all__ = [
    "BalancedContexts",
    "BestSplit",
    "Copies",
    "Entry",
    "Plan",
    "Relatives",
    "ShortcutWeights",
    "SmallClasses",
    "UnreadableImages",
    "WrongLabels",
    "apply",
    "propose",
    "undone",
]
