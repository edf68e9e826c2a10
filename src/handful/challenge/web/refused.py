"""How a request is refused."""

from __future__ import annotations


class Refused(Exception):
    """A request that gets a page with one sentence; ``retry`` says after how many seconds to come back."""

    def __init__(self, status: int, sentence: str, retry: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {} if retry is None else {"Retry-After": str(retry)}
