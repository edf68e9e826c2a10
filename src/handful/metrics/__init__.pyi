# Written by handful.door.write() from the registry.

from handful.metrics.accuracy import Accuracy
from handful.metrics.base import Estimate
from handful.metrics.base import Metric
from handful.metrics.base import mean_interval
from handful.metrics.base_to_new import BaseToNewAccuracy
from handful.metrics.calibration import Calibration
from handful.metrics.calibration import Conformal
from handful.metrics.clustering import ClusteringScores
from handful.metrics.clustering import Unsupervised
from handful.metrics.compare import PairedTest
from handful.metrics.compare import paired
from handful.metrics.context import Contexts
from handful.metrics.pairs import PairAccuracy
from handful.metrics.strangers import StrangerScores
from handful.metrics.zero_shot import GeneralisedAccuracy
from handful.metrics.zero_shot import ZeroShotAccuracy

__all__ = [
    "Accuracy",
    "BaseToNewAccuracy",
    "Calibration",
    "ClusteringScores",
    "Conformal",
    "Contexts",
    "Estimate",
    "GeneralisedAccuracy",
    "Metric",
    "PairAccuracy",
    "PairedTest",
    "StrangerScores",
    "Unsupervised",
    "ZeroShotAccuracy",
    "mean_interval",
    "paired",
]
