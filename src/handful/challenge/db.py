"""What the service remembers: SQLAlchemy models on SQLite (WAL) or PostgreSQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    DateTime,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Text,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, sessionmaker

from handful.errors import BadInput

CONNECTIONS = 20


def clock() -> dt.datetime:
    """The time of day; a test puts another clock here."""
    return dt.datetime.now(dt.UTC)


def now() -> dt.datetime:
    """The present, in UTC, as both databases keep it."""
    return clock().replace(tzinfo=None)


class Base(DeclarativeBase):
    """Base of the tables."""


class User(Base):
    """An account: one person or one team, under one name."""

    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    email: Mapped[str] = mapped_column(String(200))
    real_name: Mapped[str] = mapped_column(String(120))
    pseudonym: Mapped[str] = mapped_column(String(40), default="")
    password: Mapped[str] = mapped_column(String(200))
    role: Mapped[str] = mapped_column(String(20), default="participant")
    conflicted: Mapped[bool] = mapped_column(Boolean, default=False)
    fact_sheet: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    created: Mapped[dt.datetime] = mapped_column(DateTime, default=now)
    members: Mapped[list[Member]] = relationship(back_populates="user", cascade="all, delete-orphan")

    @property
    def shown(self) -> str:
        """The name on the leaderboard."""
        return self.pseudonym or self.name

    @property
    def organiser(self) -> bool:
        """Whether this account runs the challenge."""
        return self.role == "organiser"

    def qualifies(self, league: str) -> bool:
        """Every member of the team must qualify for a participant league."""
        return bool(self.members) and all(league in member.leagues for member in self.members)


class Member(Base):
    """A member of a team and the participant leagues that they declare to qualify for."""

    __tablename__ = "members"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    name: Mapped[str] = mapped_column(String(120))
    leagues: Mapped[list[str]] = mapped_column(JSON, default=list)
    user: Mapped[User] = relationship(back_populates="members")


class Login(Base):
    """A browser session; only a hash of its token is kept."""

    __tablename__ = "logins"
    token: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    csrf: Mapped[str] = mapped_column(String(64))
    expires: Mapped[dt.datetime] = mapped_column(DateTime)


class TakenName(Base):
    """A name or pseudonym in the form in which names are compared; each belongs to one account only."""

    __tablename__ = "taken_names"
    folded: Mapped[str] = mapped_column(String(200), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)


class Attempt(Base):
    """Something that is slowed down when it comes too often: a login or a registration; ``key`` is a hash of whose."""

    __tablename__ = "attempts"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column("name", String(40), index=True)
    at: Mapped[dt.datetime] = mapped_column(DateTime, default=now)


class Token(Base):
    """An API token; only its hash is kept."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    created: Mapped[dt.datetime] = mapped_column(DateTime, default=now)


class Standing(Base):
    """What the organisers decided about an account; one without a row is as the challenge's file says."""

    __tablename__ = "standings"
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True)
    state: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str] = mapped_column(String(400), default="")


class Reset(Base):
    """A link that sets a new password once; only a hash of its token is kept."""

    __tablename__ = "resets"
    token: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    expires: Mapped[dt.datetime] = mapped_column(DateTime)


class Announcement(Base):
    """What the organisers tell everyone, in Markdown."""

    __tablename__ = "announcements"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[dt.datetime] = mapped_column(DateTime, default=now)
    text: Mapped[str] = mapped_column(Text)


class Phase(Base):
    """A phase's secret, its commitment, and when it began and ended."""

    __tablename__ = "phases"
    name: Mapped[str] = mapped_column(String(20), primary_key=True)
    secret: Mapped[bytes] = mapped_column(LargeBinary)
    commitment: Mapped[str] = mapped_column(String(64))
    began: Mapped[dt.datetime | None] = mapped_column(DateTime, default=None)
    ended: Mapped[dt.datetime | None] = mapped_column(DateTime, default=None)


class Submission(Base):
    """A submission is also its own place in the queue: queued, running under a lease, then scored or failed."""

    __tablename__ = "submissions"
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    phase: Mapped[str] = mapped_column(String(20), index=True)
    league: Mapped[str] = mapped_column(String(40), index=True)
    name: Mapped[str] = mapped_column(String(80))
    sha256: Mapped[str] = mapped_column(String(64))
    archive: Mapped[str] = mapped_column(String(200))
    created: Mapped[dt.datetime] = mapped_column(DateTime, default=now)
    promoted_from: Mapped[int | None] = mapped_column(Integer, default=None)
    status: Mapped[str] = mapped_column(String(12), default="queued", index=True)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    worker: Mapped[str] = mapped_column(String(80), default="")
    lease: Mapped[dt.datetime | None] = mapped_column(DateTime, default=None)
    progress: Mapped[str] = mapped_column(String(40), default="")
    finished: Mapped[dt.datetime | None] = mapped_column(DateTime, default=None)
    seconds: Mapped[float] = mapped_column(Float, default=0.0)
    score: Mapped[float | None] = mapped_column(Float, default=None)
    scores: Mapped[dict[str, Any] | None] = mapped_column(JSON, default=None)
    code: Mapped[str] = mapped_column(String(20), default="")
    told: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    full_log: Mapped[str] = mapped_column(Text, default="", deferred=True)
    user: Mapped[User] = relationship()


def one_at_a_time(session: Session, key: str) -> None:
    """Let no other session pass here with the same key until this one ends; SQLite has one writer in any case."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key, 0))))


def make_engine(url: str) -> Engine:
    """An engine for ``sqlite:///file`` or ``postgresql+psycopg://...`` that survives a restart of the server."""
    if url.startswith("postgresql://"):
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    # One connection for each thread of the service: nobody waits for a connection, they are made when first needed.
    try:
        make_url(url).get_dialect()
    except (ArgumentError, ImportError) as error:
        raise BadInput(f"{url!r} is no database's address; write sqlite:///FILE or postgresql://...") from error
    pool: dict[str, Any] = {"pool_size": CONNECTIONS, "max_overflow": 4, "pool_timeout": 10}
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, pool_recycle=300, **pool)
    engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False}, **pool)

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        # SQLAlchemy begins transactions itself below: readers share, writers wait for the busy timeout.
        connection.isolation_level = None
        for line in ("journal_mode=WAL", "busy_timeout=30000", "foreign_keys=ON", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {line}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")

    return engine


class Database:
    """Sessions for reading and for writing."""

    def __init__(self, url: str) -> None:
        self.engine = make_engine(url)
        self._writer = self.engine.execution_options(writes=True)
        self._read = sessionmaker(self.engine, expire_on_commit=False)
        self._write = sessionmaker(self._writer, expire_on_commit=False)

    @property
    def sqlite(self) -> bool:
        """Whether the database is a file of ours."""
        return self.engine.dialect.name == "sqlite"

    def create(self) -> None:
        """Make the tables that are not there yet."""
        Base.metadata.create_all(self._writer)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only looks."""
        with self._read() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that commits at the end; on SQLite it takes the write lock at once, so that counts stay true."""
        with self._write() as session, session.begin():
            yield session
