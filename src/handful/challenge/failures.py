"""How a submission can fail: a fixed code, the phase it happened in, and what its author may be told."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass

CODES: dict[str, str] = {
    "BAD_ARCHIVE": "the archive cannot be unpacked, or has no model.py",
    "BAD_CONFIG": "config.json asks for something that cannot be given",
    "IMPORT_ERROR": "model.py could not be imported, or MyMetaLearner could not be constructed",
    "TRAIN_ERROR": "meta_fit raised an error",
    "SAVE_ERROR": "save raised an error, or left something that is not a regular file within the limits",
    "LOAD_ERROR": "MyLearner() or load raised an error",
    "FIT_ERROR": "fit raised an error",
    "PREDICT_ERROR": "predict raised an error",
    "TIMEOUT_IMPORT": "importing or loading took longer than its limit",
    "TIMEOUT_TRAIN": "meta_fit took longer than its limit",
    "TIMEOUT_SAVE": "save took longer than its limit",
    "TIMEOUT_FIT": "fit took longer than its limit",
    "TIMEOUT_PREDICT": "predict took longer than its limit",
    "TIMEOUT_TOTAL": "the whole run took longer than its limit",
    "OOM": "the processes together used more memory than the limit",
    "BAD_SHAPE": "predict returned an array of the wrong shape",
    "BAD_DTYPE": "predict returned something that is not an array of numbers",
    "BAD_LABEL": "predict returned labels that the task does not have",
    "NAN": "predict returned NaN or infinity",
    "PROTOCOL": "the process wrote to the evaluator's pipe out of turn",
    "OUTPUT_LIMIT": "the run printed more than its limit",
    "CRASH": "the process ended without an answer",
    "WEIGHTS": "the archive holds stored weights, which the league forbids",
    "PLATFORM": "the platform failed; the submission is not to blame",
}

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_KNOWN_ERRORS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)


@dataclass
class Failure(Exception):
    """A submission's failure; ``code`` is one of CODES, ``error`` the type of the exception if there was one."""

    code: str
    phase: str
    message: str
    error: str = ""
    log: str = ""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown failure code {self.code}")
        super().__init__(f"{self.code} in {self.phase}: {self.message}")

    @property
    def ours(self) -> bool:
        """Whether the platform is to blame."""
        return self.code == "PLATFORM"


def clean_text(text: str) -> str:
    """Text from a stranger's program without terminal escapes, control characters and direction marks."""
    return _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def tell(failure: Failure, policy: str, tail: int = 4000) -> dict[str, str]:
    """What the participant is told, by the phase's policy.

    ``full``: everything, for one's own machine and public data. ``tail``: the message and a bounded, cleaned end of
    the log. ``code``: the code and the error's type alone, and the type only if it is one of Python's own, since a
    submission can name its exceptions after what it saw. No log goes with a failure of the platform: what that is, no
    participant should be able to choose.
    """
    told = {"code": failure.code, "phase": failure.phase, "meaning": CODES[failure.code]}
    if failure.ours:
        return {**told, "error": "", "message": failure.message if policy == "full" else "", "log": ""}
    if policy == "full":
        return {**told, "error": failure.error, "message": failure.message, "log": failure.log}
    if policy == "tail":
        error, message = clean_text(failure.error)[:64], clean_text(failure.message)[:1000]
        return {**told, "error": error, "message": message, "log": clean_text(failure.log)[-tail:]}
    if policy == "code":
        return {**told, "error": failure.error if failure.error in _KNOWN_ERRORS else "", "message": "", "log": ""}
    raise ValueError(f"unknown log policy {policy}")
