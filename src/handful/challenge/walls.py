"""Which walls this machine gives submitted code, and what can be seen through them."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

from handful.challenge import seccomp
from handful.errors import BadInput, Missing

Isolation = Literal["strong", "userns", "none"]
PACKAGE = Path(__file__).resolve().parents[1]
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL")


@functools.cache
def detect() -> Isolation:
    """The strongest isolation this machine gives, or Missing in one sentence."""
    program = shutil.which("bwrap")
    if sys.platform != "linux" or program is None:
        raise Missing(
            "bubblewrap (bwrap) is not installed, so submitted code cannot be contained; install Debian's bubblewrap, "
            "or use --trust for code of your own"
        )
    if not seccomp.supported():
        raise Missing("there is no system-call filter for this processor; run submitted code on x86_64 or aarch64")
    kind: Isolation = "strong" if os.geteuid() == 0 else "userns"
    trial = subprocess.run(
        [*bubblewrap(kind, program), "--", "/usr/bin/true"], env={}, capture_output=True, text=True, timeout=30
    )
    if trial.returncode != 0:
        raise Missing(
            f"bubblewrap does not work here ({trial.stderr.strip()[:200]}); allow user namespaces or run as root"
        )
    return kind


def missing_reason() -> str | None:
    """Why untrusted code cannot run here, or None."""
    try:
        detect()
    except Missing as error:
        return str(error)
    return None


def bubblewrap(kind: Isolation, program: str) -> list[str]:
    """bubblewrap's arguments that do not depend on the job."""
    walls = [program, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    walls += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--clearenv", "--cap-drop", "ALL"]
    if kind == "userns":
        walls += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    else:
        for capability in _CAPABILITIES:
            walls += ["--cap-add", capability]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(name):
            walls += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            walls += ["--ro-bind", name, name]
    walls += ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    walls += ["--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu"]
    return [*walls, "--proc", "/proc", "--dev", "/dev"]


@functools.cache
def package_folders() -> tuple[str, ...]:
    """Where numpy and torch are installed: isolated mode does not look into a user's own site folder."""
    found = []
    for name in ("numpy", "torch"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            found.append(str(Path(spec.origin).parents[1]))
    return tuple(dict.fromkeys(found))


def interpreter_roots() -> tuple[str, ...]:
    """The folders besides /usr from which the interpreter and its packages are read."""
    roots = dict.fromkeys((sys.base_prefix, sys.prefix, *package_folders()))
    return tuple(root for root in roots if not Path(root).is_relative_to("/usr"))


def covered(roots: tuple[str, ...]) -> list[str]:
    """Those that a job's own /tmp or /dev/shm would cover, outermost only: each job binds them again."""
    below = [r for r in roots if any(Path(r).is_relative_to(place) for place in ("/tmp", "/dev/shm"))]
    return [r for r in below if not any(r != other and Path(r).is_relative_to(other) for other in below)]


def readable_roots() -> list[Path]:
    """The folders of this machine that submitted code can read."""
    return sorted({Path(root).resolve() for root in ("/usr", *interpreter_roots())} | {PACKAGE})


def check_hidden(paths: list[Path]) -> None:
    """Refuse hidden data that lie inside a folder which the sandbox shows."""
    for path in paths:
        for root in readable_roots():
            if path.resolve() == root or path.resolve().is_relative_to(root):
                raise BadInput(
                    f"{path} lies inside {root}, which submitted code can read; move the hidden data elsewhere"
                )
