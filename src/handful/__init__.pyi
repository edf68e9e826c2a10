# Written by handful.door.write() from the registry.

from handful import audits
from handful import challenge
from handful import data
from handful import methods
from handful import metrics
from handful import nets
from handful import photos
from handful import repair
from handful import report
from handful import runs
from handful import tasks
from handful._version import __version__
from handful.audits.audit import audit
from handful.audits.court import court
from handful.data.collection import Collection
from handful.data.from_frame import from_frame
from handful.data.opening import open_collection as open
from handful.data.world import world
from handful.methods.schedule import Schedule
from handful.nets.compute import Compute
from handful.photos.estimator import FewShotClassifier
from handful.photos.model import fit
from handful.photos.model import load_any as load
from handful.photos.named import by_names
from handful.report.report import Report
from handful.runs.evaluate import evaluate
from handful.runs.run import Run
from handful.tasks.episode import Support

__all__ = [
    "Collection",
    "Compute",
    "FewShotClassifier",
    "Report",
    "Run",
    "Schedule",
    "Support",
    "__version__",
    "audit",
    "audits",
    "by_names",
    "challenge",
    "court",
    "data",
    "evaluate",
    "fit",
    "from_frame",
    "load",
    "methods",
    "metrics",
    "nets",
    "open",
    "photos",
    "repair",
    "report",
    "runs",
    "tasks",
    "world",
]
