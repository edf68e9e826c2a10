"""Accounts: argon2 passwords, browser sessions, CSRF tokens, API tokens."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import hmac
import math
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from handful.challenge.archive import clean_name
from handful.challenge.db import Attempt, Login, Reset, TakenName, Token, User, now, one_at_a_time
from handful.challenge.names import fold
from handful.errors import BadInput, HandfulError

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
    check_password(password)
    if not re.fullmatch(r"[^@\s\x00]+@[^@\s\x00]+\.[^@\s\x00]+", email) or len(email) > 200:
        raise BadInput("the e-mail address is not valid")
    if not clean_name(real_name):
        raise BadInput("the organisers need your real name; the leaderboard can show a pseudonym")
    if session.get(TakenName, fold(name)) is not None:
        raise BadInput("that name is taken, or one that looks like it; choose another")


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
    claim(session, user, name)
    return user


def claim(session: Session, user: User, name: str) -> None:
    """Take a name or pseudonym, so that no other account can have one that looks like it."""
    folded = fold(name)
    if not folded:
        raise BadInput("the name has nothing that can be seen; choose another")
    taken = session.get(TakenName, folded)
    if taken is None:
        session.add(TakenName(folded=folded, user_id=user.id))
        try:
            session.flush()
        except IntegrityError as error:
            raise BadInput("that name is taken, or one that looks like it; choose another") from error
    elif taken.user_id != user.id:
        raise BadInput("that name is taken, or one that looks like it; choose another")


def rename(session: Session, user: User, pseudonym: str) -> None:
    """Change the name on the leaderboard; the old one is free again."""
    if pseudonym == user.pseudonym:
        return
    mine = TakenName.user_id == user.id
    session.execute(delete(TakenName).where(mine, TakenName.folded != fold(user.name)))
    if pseudonym:
        claim(session, user, pseudonym)
    user.pseudonym = pseudonym


def claim_names(session: Session) -> None:
    """Enter the names of accounts that were made before names were compared in folded form."""
    known = set(session.scalars(select(TakenName.user_id)))
    for user in session.scalars(select(User).where(User.id.not_in(known)).order_by(User.id)):
        for name in (user.name, user.pseudonym):
            if name and session.get(TakenName, fold(name)) is None:
                session.add(TakenName(folded=fold(name), user_id=user.id))
                session.flush()


class TooOften(HandfulError):
    """Something that may be done again after so many seconds."""

    def __init__(self, sentence: str, seconds: int) -> None:
        super().__init__(f"{sentence}; try again in {seconds} seconds")
        self.seconds = seconds


def slow_down(session: Session, key: str, free: int, sentence: str) -> int:
    """Count an attempt, or refuse it: past ``free`` in a quarter of an hour each must wait longer than the one before.

    Only attempts of the same key are slowed, and none is shut out for good. Gives the attempt's number.
    """
    hashed = fingerprint(key)[:40]
    one_at_a_time(session, hashed)
    session.execute(delete(Attempt).where(Attempt.key == hashed, Attempt.at < now() - _WINDOW))
    n, last = session.execute(select(func.count(), func.max(Attempt.at)).where(Attempt.key == hashed)).one()
    if n >= free:
        pause = dt.timedelta(seconds=min(2 ** (n - free + 1), 300))
        left = (last + pause - now()).total_seconds()
        if left > 0:
            raise TooOften(sentence, math.ceil(left))
    attempt = Attempt(key=hashed)
    session.add(attempt)
    session.flush()
    return attempt.id


@dataclass(frozen=True)
class Guess:
    """An attempt to log in that has been counted but not checked yet."""

    user: int | None
    stored: str
    attempts: tuple[int, ...]


def begin_guess(session: Session, name: str, address: str) -> Guess:
    """Count an attempt before it is checked, so that many at once cannot all be the first.

    Counted by address and name together: a stranger who guesses cannot shut the owner out, who comes from elsewhere.
    """
    wrong = "too many wrong passwords"
    keys = ((f"login/{address}", 20 * _TRIES), (f"login/{address}/{name}", _TRIES))
    attempts = tuple(slow_down(session, key, free, wrong) for key, free in keys)
    user = session.scalars(select(User).where(User.name == name)).first()
    return Guess(user.id, user.password, attempts) if user is not None else Guess(None, _nobody(), attempts)


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
    session.execute(delete(Attempt).where(Attempt.id.in_(guess.attempts)))
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


def new_reset(session: Session, user: User) -> str:
    """A token that sets a new password once, within a day; earlier ones are void."""
    token = secrets.token_urlsafe(32)
    session.execute(delete(Reset).where((Reset.user_id == user.id) | (Reset.expires < now())))
    session.add(Reset(token=fingerprint(token), user_id=user.id, expires=now() + dt.timedelta(days=1)))
    return token


def find_reset(session: Session, token: str) -> User | None:
    """The account of a token that still holds."""
    row = session.get(Reset, fingerprint(token))
    return None if row is None or row.expires < now() else session.get(User, row.user_id)


def set_password(session: Session, user: User, hashed: str) -> None:
    """Change a password; whoever was logged in is no longer, and API tokens and links end."""
    user.password = hashed
    for table in (Reset, Login, Token):
        session.execute(delete(table).where(table.user_id == user.id))  # type: ignore[attr-defined]


def check_password(password: str) -> None:
    """Refuse a password that is too short or too long."""
    if not 10 <= len(password) <= 200:
        raise BadInput("the password must have at least 10 characters, and at most 200")


def ensure_organiser(session: Session, name: str, password: str | None) -> str | None:
    """The organiser's account of this name, made if it is not there; a password that was drawn for it is given."""
    user = session.scalars(select(User).where(User.name == name)).first()
    if user is None:
        drawn = password or secrets.token_urlsafe(12)
        register(session, name, drawn, f"{name}@example.org", name, "organiser")
        return None if password else drawn
    if not user.organiser:
        raise BadInput(f"{name} is a participant's account; choose another name for the organiser")
    if password:
        check_password(password)
        set_password(session, user, hash_password(password))
    return None


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
