"""The rules of a challenge: quotas, phases, promotion, leaderboards."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, defer, selectinload

from handful.challenge import seeds
from handful.challenge.db import Database, Phase, Standing, Submission, User, now
from handful.challenge.scores import average_ranks
from handful.challenge.spec import Challenge
from handful.errors import BadInput

_OPEN = ("queued", "running")


def begin(session: Session, challenge: Challenge) -> None:
    """Draw the secrets of all phases and commit to them; the challenge begins in the public phase."""
    for name in challenge.phases:
        if session.get(Phase, name) is None:
            secret = seeds.new_secret()
            session.add(
                Phase(name=name, secret=secret, commitment=seeds.commitment(secret, f"{challenge.name}/{name}"))
            )
    session.flush()
    public = session.get(Phase, challenge.public)
    if public is not None and public.began is None:
        public.began = now()


def current(session: Session) -> str:
    """The phase the challenge is in: the one that has begun and not ended; after the end, the last."""
    began = [phase for phase in session.scalars(select(Phase)) if phase.began is not None]
    return max(began, key=lambda phase: (phase.ended is None, phase.ended)).name


def advance(session: Session, challenge: Challenge) -> str:
    """End the present phase and begin the next; into the final phase, the last valid feedback submissions go along."""
    session.scalars(select(Phase).with_for_update()).all()
    if ended(session):
        raise BadInput("the challenge has ended already")
    here = current(session)
    if open_submissions(session, here):
        raise BadInput(f"some submissions of the {here} phase still wait or run; wait until all are scored")
    old = session.get(Phase, here)
    assert old is not None
    old.ended = now()
    later = challenge.after(here)
    if later is None:
        return here
    new = session.get(Phase, later)
    assert new is not None
    new.began = old.ended
    if challenge.phase(new.name).role == "final":
        promote(session, challenge)
    return new.name


def due(session: Session, challenge: Challenge) -> bool:
    """Whether a date of the file has come and the phase can turn; what still waits or runs is let finish first."""
    if ended(session):
        return False
    here = current(session)
    at = challenge.turns(here)
    return at is not None and now() >= at and not open_submissions(session, here)


def keep_time(database: Database, challenge: Challenge) -> None:
    """Turn the phases whose dates have come."""
    while any(phase.begins or phase.ends for phase in challenge.phases.values()):
        with database.reading() as session:
            if not due(session, challenge):
                return
        with database.writing() as session:
            session.scalars(select(Phase).with_for_update()).all()
            if due(session, challenge):
                advance(session, challenge)


def frozen(session: Session, challenge: Challenge) -> bool:
    """Whether what teams say of themselves can no longer change; holds the phase still while the session lasts."""
    session.scalars(select(Phase).with_for_update(read=True)).all()
    return challenge.phase(current(session)).role == "final"


def ended(session: Session) -> bool:
    """Whether the challenge is over, after which hidden data sets are named."""
    return all(phase.ended is not None for phase in session.scalars(select(Phase)))


def open_submissions(session: Session, phase: str) -> int:
    """How many submissions of a phase are not finished."""
    query = select(func.count()).select_from(Submission).where(Submission.phase == phase, Submission.status.in_(_OPEN))
    return session.scalar(query) or 0


def results_are_final(session: Session, challenge: Challenge) -> bool:
    """Whether the period of scrutiny after the final phase is over."""
    phase = session.get(Phase, challenge.final)
    if phase is None or phase.ended is None:
        return False
    return now() >= phase.ended + dt.timedelta(days=challenge.scrutiny_days)


def revealed(session: Session, challenge: Challenge) -> dict[str, dict[str, Any]]:
    """Commitments of all phases, with the secrets of those that have ended."""
    known = {phase.name: phase for phase in session.scalars(select(Phase))}
    return {
        name: {"commitment": phase.commitment, "secret": phase.secret.hex() if phase.ended is not None else None}
        for name, phase in ((name, known[name]) for name in challenge.phases)
    }


@dataclass(frozen=True)
class Usage:
    """What a participant has used of their quota in a phase."""

    today: int
    total: int
    failed_today: int
    failed_total: int
    hours: float


def usage(session: Session, user: User, phase: str) -> Usage:
    """Scored and open runs count; the platform's failures do not; own failures are counted apart; hours always count."""
    mine = select(Submission).where(Submission.user_id == user.id, Submission.phase == phase)
    rows = list(session.scalars(mine))
    day = now() - dt.timedelta(days=1)
    counted = [row for row in rows if row.status in ("scored", *_OPEN)]
    failed = [row for row in rows if row.status == "failed" and row.code != "PLATFORM"]
    return Usage(
        sum(row.created > day for row in counted),
        len(counted),
        sum(row.created > day for row in failed),
        len(failed),
        sum(row.seconds for row in rows) / 3600,
    )


def check_quota(session: Session, challenge: Challenge, user: User, phase: str) -> None:
    """Refuse a submission beyond the quota, in one sentence."""
    quota, used = challenge.quota, usage(session, user, phase)
    if used.today >= quota.per_day:
        raise BadInput(f"you have used your {quota.per_day} submissions of the last 24 hours; come back later")
    if used.total >= quota.total:
        raise BadInput(f"you have used all your {quota.total} submissions of this phase")
    if used.failed_today >= quota.failures_per_day:
        raise BadInput(
            f"{used.failed_today} of your submissions failed in the last 24 hours; test on your own machine first"
        )
    if used.failed_total >= quota.failures_total:
        raise BadInput(f"{used.failed_total} of your submissions failed in this phase, which is the limit")
    if used.hours >= quota.compute_hours:
        raise BadInput(f"your submissions have used their {quota.compute_hours:g} hours of computing")


def check_open(session: Session, challenge: Challenge, user: User) -> str:
    """Refuse a submission that cannot be taken now, whatever is in it; give the phase."""
    phase = current(session)
    if ended(session):
        raise BadInput("the challenge has ended; it takes no more submissions")
    if challenge.phase(phase).role != "feedback":
        opens = " or ".join(challenge.having("feedback"))
        raise BadInput(f"the challenge is in its {phase} phase; submissions are open in the {opens} phase")
    begins, closes = challenge.phase(phase).begins, challenge.closes(phase)
    if begins is not None and now() < begins:
        raise BadInput(f"the {phase} phase begins on {begins:%Y-%m-%d %H:%M} UTC")
    if closes is not None and now() >= closes:
        raise BadInput(f"the {phase} phase closed on {closes:%Y-%m-%d %H:%M} UTC")
    check_standing(session, challenge, user)
    check_quota(session, challenge, user, phase)
    return phase


def standing(session: Session, challenge: Challenge, user_id: int) -> str:
    """approved, waiting or disqualified."""
    row = session.get(Standing, user_id)
    return row.state if row is not None else "waiting" if challenge.approval else "approved"


def decide(session: Session, user_id: int, state: str, reason: str = "") -> None:
    """An organiser approves, disqualifies or takes it back."""
    if state not in ("approved", "waiting", "disqualified"):
        raise BadInput(f"{state!r} is no standing; use approved, waiting or disqualified")
    row = session.get(Standing, user_id) or Standing(user_id=user_id)
    row.state, row.reason = state, reason[:400]
    session.add(row)
    session.flush()


def check_standing(session: Session, challenge: Challenge, user: User) -> None:
    """Refuse an account that may not take part."""
    state = standing(session, challenge, user.id)
    if state == "disqualified":
        row = session.get(Standing, user.id)
        why = f" ({row.reason})" if row is not None and row.reason else ""
        raise BadInput(f"the organisers have disqualified this account{why}")
    if state == "waiting":
        raise BadInput("the organisers have not approved this account yet; come back later")


def run_again(session: Session, challenge: Challenge, numbers: list[int] | None = None) -> int:
    """Queue finished submissions of the present phase once more, after a fix; all of them, or those of these numbers."""
    if ended(session):
        raise BadInput("the challenge has ended; its results stay as they are")
    query = select(Submission).where(Submission.phase == current(session), Submission.status.in_(("scored", "failed")))
    if numbers is not None:
        query = query.where(Submission.id.in_(numbers))
    rows = list(session.scalars(query.with_for_update()))
    if numbers is not None and len(rows) < len(set(numbers)):
        raise BadInput("only finished submissions of the present phase can be run again")
    for row in rows:
        row.status, row.attempts, row.worker, row.lease, row.progress = "queued", 0, "", None, ""
        row.finished, row.score, row.scores, row.code, row.told = None, None, None, "", {}
    session.flush()
    return len(rows)


def submit(
    session: Session, challenge: Challenge, user: User, league: str, name: str, sha256: str, archive: str
) -> Submission:
    """Queue a submission to the present phase."""
    if challenge.league(league).members:
        raise BadInput(f"{league} is a league of participants; submit to an open league, your team is listed there too")
    # Two uploads at once must not both see room for one, nor one slip in while the phase ends.
    session.scalars(select(Phase).with_for_update(read=True)).all()
    session.scalars(select(User).where(User.id == user.id).with_for_update()).one()
    phase = check_open(session, challenge, user)
    row = Submission(user_id=user.id, phase=phase, league=league, name=name, sha256=sha256, archive=archive)
    session.add(row)
    session.flush()
    return row


def last_valid(session: Session, phase: str) -> dict[tuple[int, str], Submission]:
    """Each participant's last scored submission in each open league, without its log."""
    query = select(Submission.user_id, Submission.league, Submission.id)
    query = query.where(Submission.phase == phase, Submission.status == "scored")
    numbers = {
        (user, league): n for user, league, n in session.execute(query.order_by(Submission.created, Submission.id))
    }
    chosen = select(Submission).where(Submission.id.in_(numbers.values())).options(defer(Submission.full_log))
    rows = {row.id: row for row in session.scalars(chosen)}
    return {key: rows[n] for key, n in numbers.items()}


def promote(session: Session, challenge: Challenge) -> list[Submission]:
    """Enter every last valid feedback submission that beats its league's baseline into the final."""
    promoted = []
    for (user_id, league), row in sorted(last_valid(session, challenge.having("feedback")[-1]).items()):
        user = session.get(User, user_id)
        assert user is not None
        if standing(session, challenge, user_id) == "disqualified":
            continue
        names = [league, *(other.name for other in challenge.leagues if other.members and user.qualifies(other.name))]
        if not any(row.score is not None and row.score > challenge.league(name).baseline for name in names):
            continue
        entry = Submission(
            user_id=user_id,
            phase=challenge.final,
            league=league,
            name=row.name,
            sha256=row.sha256,
            archive=row.archive,
            created=row.created,
            promoted_from=row.id,
        )
        session.add(entry)
        promoted.append(entry)
    session.flush()
    return promoted


@dataclass(frozen=True)
class Line:
    """One line of a leaderboard; ``rank`` is None for entrants who are not ranked, and ``why`` says why not."""

    rank: int | None
    user_id: int
    name: str
    submission: int
    score: float
    low: float | None
    high: float | None
    mean_rank: float | None
    created: dt.datetime
    by_dataset: dict[str, float]
    fact_sheet: bool
    learner: dict[str, Any]
    why: str = ""


@dataclass(frozen=True)
class Entries:
    """What the leaderboards of a phase are made from: the last entries, their teams, and the feedback scores before them."""

    last: dict[tuple[int, str], Submission]
    users: dict[int, User]
    before: dict[int, float | None]
    out: frozenset[int] = frozenset()


def entries_of(session: Session, challenge: Challenge, phase: str) -> Entries:
    """Read a phase's entries once, for as many leagues as are asked for."""
    last = last_valid(session, phase)
    teams = select(User).where(User.id.in_({user for user, _ in last})).options(selectinload(User.members))
    users = session.scalars(teams)
    before: dict[int, float | None] = {}
    if phase == challenge.final:
        before = {row.id: row.score for row in last_valid(session, challenge.having("feedback")[-1]).values()}
    out = session.scalars(select(Standing.user_id).where(Standing.state == "disqualified"))
    return Entries(last, {user.id: user for user in users}, before, frozenset(out))


def leaderboard(
    session: Session, challenge: Challenge, phase: str, league: str, found: Entries | None = None
) -> list[Line]:
    """Scored entries of a league, best first; the earlier submission wins a tie; conflicts are listed without rank."""
    spec = challenge.league(league)
    found = found or entries_of(session, challenge, phase)
    best: dict[int, Submission] = {}
    for (user_id, own_league), row in sorted(found.last.items(), key=lambda item: item[0]):
        if spec.members:
            if not found.users[user_id].qualifies(league):
                continue
        elif own_league != league:
            continue
        if phase == challenge.final:
            origin = found.before.get(row.promoted_from or 0)
            if origin is None or origin <= spec.baseline:
                continue
        # A team that is in two open leagues stands in a league of participants once, with its better score.
        if user_id in best and (best[user_id].score or 0) >= (row.score or 0):
            continue
        best[user_id] = row
    entries = [(row, found.users[user_id]) for user_id, row in best.items()]
    why = {user.id: "disqualified" if user.id in found.out else "conflict of interest" for _, user in entries}
    why = {user.id: why[user.id] for _, user in entries if user.conflicted or user.id in found.out}
    ranked = [(row, user) for row, user in entries if user.id not in why]
    ranks: dict[str, float] = {}
    if challenge.ranking == "ranks":
        ranks = average_ranks({str(row.id): _datasets(row) for row, _ in ranked})
    order = sorted(entries, key=lambda pair: _key(pair[0], ranks, challenge.ranking))
    lines, place = [], 0
    for row, user in order:
        if user.id not in why:
            place += 1
        low, high = (row.scores or {}).get("interval", [row.score, row.score])
        lines.append(
            Line(
                None if user.id in why else place,
                user.id,
                user.shown,
                row.id,
                float(row.score or 0),
                low,
                high,
                ranks.get(str(row.id)),
                row.created,
                _datasets(row),
                all(user.fact_sheet.get(question) for question in challenge.fact_sheet),
                (row.scores or {}).get("learner") or {},
                why.get(user.id, ""),
            )
        )
    return lines


def _datasets(row: Submission) -> dict[str, float]:
    return {name: each["value"] for name, each in ((row.scores or {}).get("by_dataset") or {}).items()}


def _key(row: Submission, ranks: dict[str, float], ranking: str) -> tuple[Any, ...]:
    score = -(row.score if row.score is not None else float("-inf"))
    if ranking == "ranks":
        return ranks.get(str(row.id), float("inf")), score, row.created, row.id
    return score, row.created, row.id
