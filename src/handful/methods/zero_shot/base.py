"""What zero-shot methods share: features in, descriptions in, choices made on validation classes, a learner out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from torch import Tensor

from handful.errors import BadInput, Mismatch
from handful.methods.contract import Method
from handful.methods.stages import Stage
from handful.methods.zero_shot import tuning
from handful.methods.zero_shot.data import Candidates, Lessons, State, Training
from handful.methods.zero_shot.learner import ZeroShotLearner
from handful.nets.compute import Compute
from handful.nets.given import Net
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot


@dataclass(frozen=True, kw_only=True)
class ZeroShotMethod(Method):
    """Base of the zero-shot methods.

    A method fills in `learn` (training images and descriptions to tensors), `prepare` (what depends on the candidates
    alone, done once a split) and `score`.

    Parameters
    ----------
    net
        Backbone for collections of images; ``pixels`` takes given features as they are.
    features
        ``l2``: each image's features on the unit sphere; ``standard``: mean 0 and deviation 1 over the training images;
        ``raw``.
    descriptions
        ``l2``, ``centred`` (less the mean training description, then ``l2``) or ``raw``.
    tune
        With a validation rule, choose the options of the method's grid by accuracy on its classes; never on test
        classes. What was chosen is said, and stands in the learner's method; all tries are in its ``tuning``.
    kept
        Options of the grid that are not tuned; by default those that were given, even if at their default value.
    refit
        After all choices, learn from the training and the validation classes together.
    calibration
        Subtracted from the scores of seen classes (calibrated stacking); plus or minus infinity leaves only unseen or
        only seen classes. ``validation`` chooses the bias of the largest harmonic mean on held-out training images and
        the validation classes; the fitted learner's method carries it as a number.
    seed
        Of everything random in training.
    """

    net: Net = "pixels"
    features: Literal["l2", "standard", "raw"] = "l2"
    descriptions: Literal["l2", "centred", "raw"] = "l2"
    tune: bool = True
    kept: tuple[str, ...] | None = None
    refit: bool = True
    calibration: float | Literal["validation"] = 0.0
    seed: int = 0

    needs: ClassVar[frozenset[str]] = frozenset({"descriptions"})
    needs_graph: ClassVar[bool] = False
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __new__(cls, **given: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "_given", tuple(name for name in cls.grid if name in given))
        return made

    def __post_init__(self) -> None:
        given = self.__dict__.pop("_given", ())
        if self.kept is None:
            object.__setattr__(self, "kept", given)
        strange = [name for name in self.kept or () if name not in self.grid]
        if strange:
            raise BadInput(
                f"{self.name}: option kept cannot be {strange[0]!r}, which is not tuned; give some of {', '.join(self.grid)}"
            )

    def learn(self, data: Training) -> State:
        raise NotImplementedError

    def prepare(self, state: State, candidates: Candidates) -> Any:
        """What scoring needs of the candidates; the candidates themselves by default."""
        return candidates

    def score(self, state: State, prepared: Any, x: Tensor) -> Tensor:
        """Scores ``(images, candidates)`` of normalised features."""
        raise NotImplementedError

    @property
    def bias(self) -> float:
        """The calibration as a number; none before it was chosen."""
        return 0.0 if isinstance(self.calibration, str) else self.calibration

    # what a method gets

    def for_training(self, train: Rule, valid: Rule | None) -> tuple[Method, Rule]:
        if not isinstance(train, ZeroShot):
            raise Mismatch(
                f"{self.name} learns from classes with descriptions; give meta_fit a zero-shot rule on train"
            )
        if valid is not None:
            tuning.check(self, train, valid)
        elif self.calibration == "validation":
            raise BadInput(f"{self.name}: calibration=validation needs validation classes; give some, or a number")
        return self, train

    def stages(self) -> list[Stage]:
        """Options by the validation classes, the bias against seen classes by them too, then the fit that is kept."""
        works = [tuning.choose_options] if self.tune and tuning.tried(self) else []
        works += [tuning.choose_bias] if self.calibration == "validation" else []
        return [Stage("batches", work=work) for work in [*works, tuning.fit_all]]

    def learner(self, given: Lessons, compute: Compute) -> ZeroShotLearner:
        """Fit with these options, whatever the validation classes say."""
        made = ZeroShotLearner(self, given.shape, {}, compute)
        x = given.x
        frame: State = {"seen": given.s}
        if given.places is not None:
            frame["seen_places"] = given.places
        if given.graph is not None:
            frame |= {"child": given.graph.child, "parent": given.graph.parent, "nodes": given.graph.nodes}
        if self.features == "standard":
            frame |= {"mean": x.mean(0), "scale": x.std(0, unbiased=False).clamp_min(1e-6)}
        if self.descriptions == "centred":
            frame["centre"] = given.s.mean(0)
        made.tensors = frame
        made.tensors |= self.learn(
            Training(made.normalised(x), given.y, made.described(given.s), given.places, made.graph, given.memo)
        )
        return made

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> ZeroShotLearner:
        return ZeroShotLearner(self, tuple(shape), {}, compute or Compute())

    def load(self, state: State, facts: dict[str, Any], compute: Compute, where: str) -> ZeroShotLearner:
        moved = {k: v.to(compute.device) for k, v in state.items()}
        made = ZeroShotLearner(self, tuple(facts["shape"]), moved, compute)
        made.tuning = facts.get("tuning", [])
        return made
