# Written by handful.door.write() from the registry.

from handful.audits.audit import Audit
from handful.audits.ceiling import SupervisedCeiling
from handful.audits.composition import Composition
from handful.audits.context_gap import ContextAlone
from handful.audits.context_gap import ContextGap
from handful.audits.cscc import FrozenCSCC
from handful.audits.cscc import TrainedCSCC
from handful.audits.curves import Curves
from handful.audits.difficulty import Difficulty
from handful.audits.duplicates import Duplicates
from handful.audits.encoder_seen import EncoderSeen
from handful.audits.power import Power
from handful.audits.probe import ContextProbe
from handful.audits.records import Columns
from handful.audits.records import Imbalance
from handful.audits.records import Overlap
from handful.audits.records import Unreadable
from handful.audits.score_split import ScoreSplit
from handful.audits.shortcuts import Shortcuts
from handful.audits.similarity import ImageText
from handful.audits.zero_shot.diagnosis import StructuralBias

__all__ = [
    "Audit",
    "Columns",
    "Composition",
    "ContextAlone",
    "ContextGap",
    "ContextProbe",
    "Curves",
    "Difficulty",
    "Duplicates",
    "EncoderSeen",
    "FrozenCSCC",
    "ImageText",
    "Imbalance",
    "Overlap",
    "Power",
    "ScoreSplit",
    "Shortcuts",
    "StructuralBias",
    "SupervisedCeiling",
    "TrainedCSCC",
    "Unreadable",
]
