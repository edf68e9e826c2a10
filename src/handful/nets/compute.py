"""Where and how tensors are computed: device, precision, batch size, threads."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch

from handful.errors import BadInput, nearest
from handful.options import Checked

_NO_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")


@dataclass(frozen=True, kw_only=True)
class Compute(metaclass=Checked):
    """Options of computation; none of them is part of what is computed.

    Parameters
    ----------
    device
        ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    precision
        ``float32``; ``bfloat16`` or ``float16`` by autocast in the backbone, heads and losses stay in float32. ``auto`` lets
        each evaluation take bfloat16 where the processor has it and no mean over the first tasks moves by more than 0.001; else it is float32.
    batch
        Images per batch when embedding; every batch is padded to this size, so that the last bits do not depend on how
        many images there are.
    threads
        Threads within one operation. With 1, the default, embedding and evaluation still use every core (see `handful.cores`): each batch and each
        chunk of tasks on a core of its own, which changes no bit; more threads within an operation change the last bits.
    compile
        A backend of torch.compile (``inductor``) that the backbone of an embedded method is trained through; none by default.
    sync_norm
        Under torchrun on CUDA: batch norm over the images of all processes instead of each process's own.
    """

    device: str = "cpu"
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    batch: int = 64
    threads: int = 1
    compile: str = ""
    sync_norm: bool = False

    def __post_init__(self) -> None:
        try:
            kind = torch.device(self.device).type
        except RuntimeError as error:
            raise BadInput(f"{self.device!r} is not a device; use cpu, cuda, cuda:N or mps") from error
        if kind == "cuda" and not torch.cuda.is_available():
            raise BadInput("device 'cuda' was asked for and this machine has none; use --device cpu")
        if kind == "mps" and not torch.backends.mps.is_available():
            raise BadInput("device 'mps' was asked for and this machine has none; use --device cpu")
        if self.batch < 1 or self.threads < 1:
            raise BadInput("batch and threads must be at least 1")
        if self.compile:
            known = ("inductor", "aot_eager", "eager", "cudagraphs")
            if self.compile not in known:
                raise BadInput(
                    f"compile takes a backend of torch.compile, not {self.compile!r}; {nearest(self.compile, known)}"
                )

    @contextmanager
    def here(self) -> Iterator[torch.device]:
        """Pin the threads for a block and put them back after it."""
        if torch.device(self.device).type == "cpu":
            keep_memory()
        before = torch.get_num_threads()
        torch.set_num_threads(min(self.threads, os.cpu_count() or 1))
        try:
            yield torch.device(self.device)
        finally:
            torch.set_num_threads(before)

    def autocast(self) -> torch.autocast:
        dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(self.precision)
        kind = torch.device(self.device).type
        return torch.autocast(kind, dtype=dtype or torch.bfloat16, enabled=dtype is not None)


@functools.cache
def keep_memory() -> bool:
    """Have the C library keep the memory of large tensors that are freed, up to 2 GB of it, for the next ones.

    By default glibc gives every block above 32 MB back to the system at once, and each batch pays for the same pages again:
    embedding and training on the processor spend up to two thirds of their time on that (`benchmarks/kept_memory.py`). For
    the whole process, from the first computation on; ``HANDFUL_KEEP_MEMORY=0`` leaves the C library as it is.
    """
    if not sys.platform.startswith("linux") or os.environ.get("HANDFUL_KEEP_MEMORY") == "0":
        return False
    mmap_threshold, trim_threshold = -3, -1
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(mmap_threshold, 1 << 30) and mallopt(trim_threshold, (1 << 31) - 1))


@contextmanager
def within_memory(advice: str) -> Iterator[None]:
    """Work whose end for want of memory is told in one sentence, with what to try."""
    try:
        yield
    except (
        MemoryError,
        RuntimeError,
    ) as error:  # torch's allocators raise RuntimeError, on the GPU a kind of their own
        said = str(error).lower()
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and not any(w in said for w in _NO_MEMORY):
            raise
        raise BadInput(f"memory ran out; {advice}") from error
