"""MetaLearner → Learner → Predictor: the one contract for every method.

A Method is a frozen dataclass of options; ``meta_fit`` learns to learn and gives a Learner; ``fit`` learns one task and
gives a Predictor; ``predict`` answers with scores.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from torch import Tensor

from handful import registry
from handful.errors import BadInput, Mismatch
from handful.files import WRONG, read_json
from handful.methods.stages import Stage, marks, trained_on
from handful.methods.training import walk
from handful.nets.compute import Compute
from handful.options import Checked, build
from handful.tasks.episode import Query, Support
from handful.tasks.rule import Rule

MODEL, FACTS = "model.safetensors", "model.json"
MODELS = Path(__file__).parents[1] / "models"


class Predictor:
    """Answers the queries of one task."""

    def predict(self, query: Query) -> np.ndarray:
        """Logits ``(n_query, n_classes)``, float32."""
        raise NotImplementedError

    def support_scores(self) -> np.ndarray:
        """For tasks without labels: logits of the support images over the clusters."""
        raise NotImplementedError


class Learner:
    """Learns one task at a time; holds what meta-training left."""

    method: Method
    compute: Compute
    embeds: ClassVar[bool] = False
    """Whether it is a frozen embedding and a head over it, so that tasks can be answered together."""

    def fit(self, support: Support) -> Predictor:
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """What `load` needs beside the tensors to build this learner again."""
        return {}

    def state(self) -> dict[str, Tensor]:
        return {}

    def to(self, compute: Compute) -> Self:
        """The same learner on another device or precision."""
        self.compute = compute
        return self

    def twin(self) -> Self | None:
        """A copy that may learn in another thread of this process at the same time; None where two would share more than memory
        that stands still (torch's own random numbers, say), which is what is assumed of a learner that says nothing."""
        return None

    def save(self, path: str | Path) -> Path:
        """Write a model folder: ``model.safetensors`` and ``model.json``."""
        from safetensors.torch import save

        from handful.files import fresh_folder

        path = Path(path)
        with fresh_folder(path, force=(path / FACTS).is_file()) as folder:
            (folder / MODEL).write_bytes(save({k: v.detach().cpu().contiguous() for k, v in self.state().items()}))
            facts = {"method": self.method.name, "options": self.method.options(), **self.facts()}
            (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True, kw_only=True)
class Method(metaclass=Checked):
    """A meta-learner and its options.

    ``needs`` says what a support must show, ``axes`` how many label axes the method answers for; a ``transductive`` method
    may look at all queries together, and one that ``tunes`` optimises something on each task at test, by steps or in closed
    form. How it is trained is said by its `stages`; ``trains`` and ``learning`` follow from them.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset({"images", "labels"})
    axes: ClassVar[int] = 1
    transductive: ClassVar[bool] = False
    tunes: ClassVar[bool] = False

    def stages(self) -> list[Stage]:
        """How it is trained, in order; empty for a method that is not."""
        return []

    @property
    def trains(self) -> Literal["tasks", "batches", "no"]:
        """Whether it is trained on tasks, on batches or not at all."""
        return trained_on(self.stages())

    @property
    def learning(self) -> str:
        """MetaCoCo's tricks: GL (global labels in training), LL (local labels in tasks), TT (tuning at test)."""
        return marks(self.stages(), self.tunes)

    def for_training(self, train: Rule, valid: Rule | None) -> tuple[Method, Rule]:
        """The method and the rule that training goes by; refuses rules that it cannot learn from."""
        return self, train

    def meta_fit(
        self, train: Rule | None, valid: Rule | None = None, *, compute: Compute | None = None, keep: Path | None = None
    ) -> Any:
        """Learn to learn from a rule's tasks or batches, stage by stage: a Learner. ``keep`` is a folder for checkpoints and
        the log."""
        if train is None:
            raise Mismatch(f"{self.name} has to know the images' shape: give meta_fit a rule, or use untrained(shape)")
        method, train = self.for_training(train, valid)
        learner = method.untrained(train.image_shape, train.n_classes, compute or Compute())
        walk(method.stages(), learner, train, valid, keep)
        return learner

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> Learner:
        """The learner before any meta-training, for images of ``shape``."""
        raise NotImplementedError

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> Learner:
        """Rebuild a saved learner."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """All options, as results and models are known by. One that came later (``metadata={"later": True}``), and whose
        default is what was done before, is left out at its default, so that older results stay known."""
        return _told(self, dataclasses.asdict(self))

    def with_options(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)


def _told(thing: Any, options: dict[str, Any]) -> dict[str, Any]:
    for spec in dataclasses.fields(thing):
        value = getattr(thing, spec.name)
        if spec.metadata.get("later") and value == spec.default:
            del options[spec.name]
        elif dataclasses.is_dataclass(value):
            _told(value, options[spec.name])
    return options


def make(name: str, **options: Any) -> Method:
    """A registered method with options, nested ones as dicts or dotted names (``schedule.steps``)."""
    return registry.make("methods", name, options)


def packaged() -> list[str]:
    """Names of the trained models that come with the library, such as ``cifar-fs/protonet``."""
    return sorted(f"{p.parent.parent.name}/{p.parent.name}" for p in MODELS.glob(f"*/*/{FACTS}"))


def model_folder(path: str | Path) -> Path:
    """A model folder by its path, or by the name of a packaged model."""
    path = Path(path)
    return MODELS / path if not path.exists() and path.as_posix() in packaged() else path


def load(path: str | Path, compute: Compute | None = None, net: Any = None) -> Learner:
    """A learner from a model folder, or a packaged one by name (``cifar-fs/protonet``).

    ``net`` gives again what a folder cannot hold: a module from Python, or a class in a file (``torch:file.py:Class``).
    """
    from handful.nets.building import as_saved, given_again
    from handful.nets.weights import read_state

    path = model_folder(path)
    if not (path / FACTS).is_file():
        why = "" if path.is_dir() else f", and there is no packaged model of that name ({', '.join(packaged())})"
        raise BadInput(f"{path} is not a model folder: it has no {FACTS}{why}; make one with: handful train")
    try:
        facts = read_json(path / FACTS)
        if facts.get("kind") == "photos":
            raise BadInput(f"{path} is a classifier of photos, not a learner of tasks; use it with: handful predict")
        name, options = facts["method"], facts["options"]
        if not isinstance(name, str) or not isinstance(options, dict):
            raise ValueError("it names no method, or no options")
    except (OSError, *WRONG) as error:
        raise BadInput(f"{path / FACTS} is damaged ({error}); train the model again") from error
    if isinstance(options, dict) and "net" in options:
        options = {**options, "net": given_again(options["net"], net, str(path))}
    method = build(registry.get("methods", name), options, f"{path / FACTS}: {name}")
    state = read_state(path / MODEL)
    if hasattr(method, "net"):
        net = as_saved(method.net, state)
        method = method if net == method.net else method.with_options(net=net)
    try:
        return method.load(state, facts, compute or Compute(), str(path / MODEL))
    except (RuntimeError, *WRONG) as error:  # what a method kept beside its tensors is not there, or is something else
        raise BadInput(f"{path / FACTS} does not fit its model ({error}); train the model again") from error


def agree(method: Method, rule: Rule) -> None:
    """Refuse a method and a rule that do not go together, in one sentence."""
    lacking = method.needs - rule.shows
    if lacking:
        raise Mismatch(
            f"{method.name} needs {' and '.join(sorted(lacking))}, which {rule.name} tasks do not show; "
            "choose another method or another rule"
        )
    if method.axes != rule.axes:
        raise Mismatch(
            f"{method.name} answers for {method.axes} label {'axes' if method.axes > 1 else 'axis'}, {rule.name} tasks have "
            f"{rule.axes}; choose another method or rule"
        )
