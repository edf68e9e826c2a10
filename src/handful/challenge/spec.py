"""challenge.toml: everything an organiser decides, checked with file and line."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from handful import registry
from handful.challenge.plan import Times
from handful.challenge.sandbox import Limits
from handful.errors import BadInput, Missing, nearest
from handful.options import parameters

Role = Literal["public", "feedback", "final"]
"""What a phase is for: training data for all; open for submissions; the last submissions once more, on new data."""
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Range = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskSpec(_Frozen):
    """The rule that draws the tasks, and its options; the defaults are Cross-Domain MetaDL's any-way any-shot tasks."""

    model_config = ConfigDict(extra="allow", frozen=True)
    rule: str = "any-way"
    ways: int | Range = (2, 20)
    shots: int | Range = (1, 20)
    queries: int = Field(default=20, ge=1, le=100)

    @field_validator("ways", "shots")
    @classmethod
    def _ordered(cls, value: int | tuple[int, int]) -> int | tuple[int, int]:
        if not isinstance(value, int) and value[0] > value[1]:
            raise ValueError("the first number must not be larger than the second")
        return value

    @model_validator(mode="after")
    def _enough(self) -> TaskSpec:
        if (self.ways if isinstance(self.ways, int) else self.ways[0]) < 2:
            raise ValueError("ways must be at least 2")
        if self.rule not in registry.table("rules"):
            raise ValueError(f"there is no rule named {self.rule!r}; {nearest(self.rule, registry.table('rules'))}")
        known = list(parameters(registry.get("rules", self.rule)))[1:]
        if odd := [name for name in self.options if name not in known]:
            raise ValueError(f"the rule {self.rule} has no option {odd[0]!r}; {nearest(odd[0], known)}")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What the rule is made with: all of any-way's own, of other rules what the file says."""
        given = self.model_dump(exclude={"rule"})
        return given if self.rule == "any-way" else {k: v for k, v in given.items() if k in self.model_fields_set}


class PhaseSpec(_Frozen):
    """One phase: what it is for, its data, how much is asked, how long a run may take, how much is told.

    A phase whose name is that of a role has that role. ``begins`` and ``ends`` open and close it by themselves; without
    them the organiser does. Times without a zone are UTC.
    """

    data: str
    role: Role
    tasks_per_dataset: int = Field(default=100, ge=1, le=100_000)
    hours: float = Field(default=5.0, gt=0)
    seeds: int = Field(default=1, ge=1, le=10)
    log: Literal["full", "tail", "code"] = "tail"
    begins: dt.datetime | None = None
    ends: dt.datetime | None = None

    @field_validator("begins", "ends", mode="before")
    @classmethod
    def _no_date(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("begins", "ends")
    @classmethod
    def _utc(cls, value: dt.datetime | None) -> dt.datetime | None:
        if value is None or value.tzinfo is None:
            return value
        return value.astimezone(dt.UTC).replace(tzinfo=None)


class EnvironmentSpec(_Frozen):
    """What workers of this name have installed, in words; a worker says which environments it is (``work --environment``)."""

    name: Name
    text: str = ""
    gpu: bool = False


class LeagueSpec(_Frozen):
    """One ranking. ``baseline`` is the feedback score that opens the final; ``members`` what every team member must be.

    ``packages`` are those that a submission may import besides numpy and torch, with what they need; none: all that are
    installed. With ``pretrained = false`` packages that carry weights are hidden.
    """

    name: Name
    title: str = ""
    baseline: float = Field(default=0.0, ge=-1, le=1)
    pretrained: bool = True
    packages: tuple[str, ...] = ()
    members: str = ""
    environment: str = ""


class QuotaSpec(_Frozen):
    """Scored runs count; faults of the platform do not; a participant's own failures have a larger cap of their own."""

    per_day: int = Field(default=2, ge=1)
    total: int = Field(default=100, ge=1)
    failures_per_day: int = Field(default=20, ge=1)
    failures_total: int = Field(default=500, ge=1)
    compute_hours: float = Field(default=500.0, gt=0)


class LimitSpec(_Frozen):
    """What a run may use."""

    memory_mb: int = Field(default=16_384, ge=256)
    tmp_mb: int = Field(default=2_048, ge=1)
    upload_mb: int = Field(default=500, ge=1)
    saved_mb: int = Field(default=1_024, ge=1)
    processes: int = Field(default=128, ge=4)
    threads: int = Field(default=1, ge=1, le=256)
    load_seconds: float = Field(default=60, gt=0)
    train_hours: float = Field(default=5.0, gt=0)
    save_seconds: float = Field(default=120, gt=0)
    fit_seconds: float = Field(default=120, gt=0)
    predict_seconds: float = Field(default=120, gt=0)

    def limits(self) -> Limits:
        """For the sandbox."""
        return Limits(
            memory_bytes=self.memory_mb << 20,
            tmp_bytes=self.tmp_mb << 20,
            saved_bytes=self.saved_mb << 20,
            processes=self.processes,
        )

    def times(self, hours: float) -> Times:
        """For the evaluator's clock, given the hours of a whole run."""
        return Times(
            load=self.load_seconds,
            train=self.train_hours * 3600,
            save=self.save_seconds,
            fit=self.fit_seconds,
            predict=self.predict_seconds,
            total=hours * 3600,
        )


def _leagues() -> tuple[LeagueSpec, ...]:
    everyone = "every member of the team"
    return (
        LeagueSpec(name="free-style", title="Free-style", baseline=0.587),
        LeagueSpec(name="meta-learning", title="Meta-learning", baseline=0.361, pretrained=False),
        LeagueSpec(
            name="new-in-ml", title="New in ML", baseline=0.361, members=f"{everyone} has fewer than ten papers"
        ),
        LeagueSpec(name="women", title="Women", baseline=0.361, members=f"{everyone} is a woman"),
        LeagueSpec(
            name="rare-country",
            title="Rarely represented countries",
            baseline=0.361,
            members=f"{everyone} lives in one",
        ),
    )


class Protocol(_Frozen):
    """``cross-domain``: train on the public data sets. ``within-domain``: split each data set's classes."""

    kind: Literal["cross-domain", "within-domain"] = "cross-domain"
    train: float = Field(default=0.7, gt=0, lt=1)
    valid: float = Field(default=0.15, ge=0, lt=1)

    @model_validator(mode="after")
    def _room(self) -> Protocol:
        if self.train + self.valid >= 1:
            raise ValueError("train and valid must leave classes for the test")
        return self


class Challenge(_Frozen):
    """A challenge as its file describes it.

    ``rules`` is a file of Markdown beside it. With ``approval`` an account waits for an organiser before it can submit.
    The code of the first ``winners`` of each league can be read by all participants once the challenge has ended.
    """

    name: Name
    title: str = Field(min_length=1, max_length=120)
    text: str = ""
    image_size: int = Field(default=128, ge=8, le=1024)
    tasks: TaskSpec = TaskSpec()
    protocol: Protocol = Protocol()
    phases: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,19}$")], PhaseSpec]
    leagues: tuple[LeagueSpec, ...] = Field(default_factory=_leagues, min_length=1)
    environments: tuple[EnvironmentSpec, ...] = ()
    quota: QuotaSpec = QuotaSpec()
    limits: LimitSpec = LimitSpec()
    ranking: Literal["score", "ranks"] = "score"
    fact_sheet: tuple[str, ...] = (
        "method",
        "pre-trained weights",
        "external data",
        "hardware and time",
        "code licence",
    )
    scrutiny_days: int = Field(default=14, ge=0)
    rules: str = "rules.md"
    approval: bool = False
    winners: int = Field(default=3, ge=0)

    @field_validator("phases", mode="before")
    @classmethod
    def _roles(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for name, phase in value.items():
            if isinstance(phase, dict) and "role" not in phase and name not in get_args(Role):
                raise ValueError(f"the phase {name} has no role; add role = {' or '.join(get_args(Role))}")
        return {k: {"role": k, **v} if isinstance(v, dict) and k in get_args(Role) else v for k, v in value.items()}

    @field_validator("phases")
    @classmethod
    def _all_phases(cls, value: dict[str, PhaseSpec]) -> dict[str, PhaseSpec]:
        roles = [phase.role for phase in value.values()]
        for role in get_args(Role):
            if role not in roles:
                raise ValueError(f"the phase {role} is missing; add [phases.{role}]")
        if sorted(roles, key=get_args(Role).index) != roles or roles.count("public") > 1 or roles.count("final") > 1:
            raise ValueError("there is one public phase, then one or more for feedback, then one final phase")
        places = [phase.data for phase in value.values()]
        if len(set(places)) < len(places):
            raise ValueError("two phases use the same data; each phase needs data of its own")
        dates = [(name, at) for name, phase in value.items() for at in (phase.begins, phase.ends) if at is not None]
        for (_, one), (name, two) in pairwise(dates):
            if two < one:
                raise ValueError(f"the dates of {name} are earlier than those before; put the phases in order")
        return value

    @field_validator("leagues")
    @classmethod
    def _unique(cls, value: tuple[LeagueSpec, ...]) -> tuple[LeagueSpec, ...]:
        names = [league.name for league in value]
        if len(set(names)) < len(names):
            raise ValueError("two leagues have the same name")
        return value

    @model_validator(mode="after")
    def _environments(self) -> Challenge:
        known = [each.name for each in self.environments]
        for league in self.leagues:
            if league.environment and league.environment not in known:
                raise ValueError(
                    f"the league {league.name} names the environment {league.environment!r}; known: {known}"
                )
        return self

    def leagues_in(self, environments: list[str], devices: tuple[int, ...] = ()) -> list[str]:
        """The leagues whose submissions a worker of these environments takes; without any, those that name none."""
        known = [each.name for each in self.environments]
        for name in environments:
            if name not in known:
                raise BadInput(f"there is no environment {name!r} in challenge.toml; {nearest(name, known)}")
            if next(each for each in self.environments if each.name == name).gpu and not devices:
                raise Missing(f"the environment {name} needs a GPU; say which by --devices, for example --devices 0")
        return [league.name for league in self.leagues if league.environment in (environments or [""])]

    def phase(self, name: str) -> PhaseSpec:
        """One phase by name."""
        if name not in self.phases:
            raise BadInput(f"there is no phase {name!r}; known: {', '.join(self.phases)}")
        return self.phases[name]

    def having(self, *roles: Role) -> list[str]:
        """Names of the phases that have one of these roles, in their order."""
        return [name for name, phase in self.phases.items() if phase.role in roles]

    def after(self, name: str) -> str | None:
        """The phase that follows."""
        order = list(self.phases)
        return next(iter(order[order.index(name) + 1 :]), None)

    def closes(self, name: str) -> dt.datetime | None:
        """When a phase takes no more submissions, if the file says so."""
        later = self.after(name)
        return self.phases[name].ends or (self.phases[later].begins if later else None)

    def turns(self, name: str) -> dt.datetime | None:
        """When the next phase begins (or the challenge ends) by itself, if the file says so."""
        later = self.after(name)
        return (self.phases[later].begins if later else None) or self.phases[name].ends

    @property
    def public(self) -> str:
        """The phase whose data everyone may train on."""
        return self.having("public")[0]

    @property
    def final(self) -> str:
        """The phase that decides."""
        return self.having("final")[0]

    @property
    def ranked(self) -> list[str]:
        """The phases that have leaderboards."""
        return self.having("feedback", "final")

    def league(self, name: str) -> LeagueSpec:
        """One league by name."""
        for league in self.leagues:
            if league.name == name:
                return league
        raise BadInput(f"there is no league {name!r}; known: {', '.join(league.name for league in self.leagues)}")
