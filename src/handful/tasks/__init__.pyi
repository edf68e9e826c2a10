# Written by handful.door.write() from the registry.

from handful.tasks.alphabet import WholeGroup
from handful.tasks.anyway import AnyWay
from handful.tasks.balanced import Balanced
from handful.tasks.base_to_new import BaseToNew
from handful.tasks.base_to_new import CrossDataset
from handful.tasks.bits import Bits
from handful.tasks.clustering import Clustering
from handful.tasks.context import IID
from handful.tasks.context import OOD
from handful.tasks.context import OODConflict
from handful.tasks.crossed import Crossed
from handful.tasks.episode import Episode
from handful.tasks.episode import Query
from handful.tasks.episode import Support
from handful.tasks.episode import Task
from handful.tasks.hard import Hard
from handful.tasks.meta_dataset import MetaDataset
from handful.tasks.mix import Mix
from handful.tasks.named import Named
from handful.tasks.noisy import LongTail
from handful.tasks.noisy import Noisy
from handful.tasks.nway import NWay
from handful.tasks.pairs import Pairs
from handful.tasks.rule import Rule
from handful.tasks.rule import make
from handful.tasks.strangers import Strangers
from handful.tasks.zero_shot import GeneralisedZeroShot
from handful.tasks.zero_shot import ZeroShot

__all__ = [
    "AnyWay",
    "Balanced",
    "BaseToNew",
    "Bits",
    "Clustering",
    "CrossDataset",
    "Crossed",
    "Episode",
    "GeneralisedZeroShot",
    "Hard",
    "IID",
    "LongTail",
    "MetaDataset",
    "Mix",
    "NWay",
    "Named",
    "Noisy",
    "OOD",
    "OODConflict",
    "Pairs",
    "Query",
    "Rule",
    "Strangers",
    "Support",
    "Task",
    "WholeGroup",
    "ZeroShot",
    "make",
]
