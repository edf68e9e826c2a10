"""Random numbers nobody can foresee and everybody can check: drawn from the system, committed to by hash, revealed later."""

from __future__ import annotations

import hashlib
import hmac
import os


def new_secret() -> bytes:
    """Thirty-two bytes from the system."""
    return os.urandom(32)


def commitment(secret: bytes, context: str) -> str:
    """What is published before a phase begins; ``context`` names the challenge and the phase."""
    return hashlib.sha256(b"handful-challenge\x00" + context.encode() + b"\x00" + secret).hexdigest()


def holds(published: str, secret: bytes, context: str) -> bool:
    """Whether a revealed secret is the one that was committed to."""
    return hmac.compare_digest(published, commitment(secret, context))


def derive(secret: bytes, *words: object) -> int:
    """A seed below 2**63 for one use; seeds for different words tell nothing about each other or the secret."""
    text = "\x00".join(str(word) for word in words).encode()
    return int.from_bytes(hmac.new(secret, text, hashlib.sha256).digest()[:8], "little") >> 1
