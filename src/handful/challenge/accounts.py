"""Accounts: argon2 passwords, browser sessions, CSRF tokens, API tokens."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from handful.challenge.archive import clean_name
from handful.challenge.db import Attempt, Login, Token, User, now
from handful.errors import BadInput

SESSION = dt.timedelta(days=7)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,39}")
_TRIES, _WINDOW = 10, dt.timedelta(minutes=15)


@functools.lru_cache(maxsize=1)
def _hasher():  # type: ignore[no-untyped-def]
    from argon2 import PasswordHasher

    return PasswordHasher()


@functools.lru_cache(maxsize=1)
def _nobody() -> str:
    """A hash to check the passwords of unknown names against, so that they cost as much time as known ones."""
    return hash_password(secrets.token_urlsafe(32))


def hash_password(password: str) -> str:
    """What is kept of a password; takes a good part of a second, so call it while nothing is locked."""
    return str(_hasher().hash(password))


def fingerprint(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def check_new(session: Session, name: str, password: str, email: str, real_name: str) -> None:
    """Refuse an account that cannot be made, in one sentence."""
    if not _NAME.fullmatch(name):
        raise BadInput("the name must be 2 to 40 letters, digits, dots, dashes or underscores")
    if not 10 <= len(password) <= 200:
        raise BadInput("the password must have at least 10 characters, and at most 200")
    if not re.fullmatch(r"[^@\s\x00]+@[^@\s\x00]+\.[^@\s\x00]+", email) or len(email) > 200:
        raise BadInput("the e-mail address is not valid")
    if not clean_name(real_name):
        raise BadInput("the organisers need your real name; the leaderboard can show a pseudonym")
    if session.scalar(select(func.count()).select_from(User).where(func.lower(User.name) == name.lower())):
        raise BadInput("that name is taken; choose another")


def register(
    session: Session,
    name: str,
    password: str,
    email: str,
    real_name: str,
    role: str = "participant",
    hashed: str | None = None,
) -> User:
    """A new account; ``hashed`` is the password's hash, if it was made before the session began."""
    check_new(session, name, password, email, real_name)
    user = User(
        name=name,
        email=email,
        real_name=clean_name(real_name, 120),
        password=hashed or hash_password(password),
        role=role,
    )
    session.add(user)
    session.flush()
    return user


@dataclass(frozen=True)
class Guess:
    """An attempt to log in that has been counted but not checked yet."""

    user: int | None
    stored: str
    attempt: int


def begin_guess(session: Session, name: str) -> Guess:
    """Count an attempt before it is checked, so that many at once cannot all be the first."""
    since = now() - _WINDOW
    tries = session.scalar(
        select(func.count()).select_from(Attempt).where(Attempt.name == name[:40], Attempt.at > since)
    )
    if (tries or 0) >= _TRIES:
        raise BadInput("too many wrong passwords for this name; wait a quarter of an hour")
    user = session.scalars(select(User).where(User.name == name)).first()
    attempt = Attempt(name=name[:40])
    session.add(attempt)
    session.flush()
    return Guess(user.id, user.password, attempt.id) if user is not None else Guess(None, _nobody(), attempt.id)


def is_right(guess: Guess, password: str) -> bool:
    """Whether the password is right; takes a good part of a second, so call it while nothing is locked."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        _hasher().verify(guess.stored, password[:200])
    except (VerificationError, InvalidHashError):
        return False
    return guess.user is not None


def end_guess(session: Session, guess: Guess) -> User | None:
    """The account of a right password; its attempt no longer counts."""
    session.execute(delete(Attempt).where(Attempt.id == guess.attempt))
    return session.get(User, guess.user)


def log_in(session: Session, user: User) -> str:
    """Begin a browser session and give its token."""
    token = secrets.token_urlsafe(32)
    session.execute(delete(Login).where(Login.expires < now()))
    session.add(
        Login(token=fingerprint(token), user_id=user.id, csrf=secrets.token_urlsafe(24), expires=now() + SESSION)
    )
    return token


def log_out(session: Session, token: str) -> None:
    """End a browser session."""
    session.execute(delete(Login).where(Login.token == fingerprint(token)))


def find_login(session: Session, token: str | None) -> tuple[User, Login] | None:
    """The account behind a cookie."""
    if not token:
        return None
    login = session.get(Login, fingerprint(token))
    if login is None or login.expires < now():
        return None
    user = session.get(User, login.user_id)
    return None if user is None else (user, login)


def new_token(session: Session, user: User) -> str:
    """An API token, shown once."""
    token = "hf_" + secrets.token_urlsafe(32)
    session.add(Token(user_id=user.id, hash=fingerprint(token)))
    return token


def find_token(session: Session, header: str | None) -> User | None:
    """The account behind ``Authorization: Bearer ...``."""
    if not header or not header.startswith("Bearer "):
        return None
    token = session.scalars(select(Token).where(Token.hash == fingerprint(header[7:].strip()))).first()
    return None if token is None else session.get(User, token.user_id)


def same(one: str, two: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(one.encode(), two.encode())
