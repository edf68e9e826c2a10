"""Which walls this machine gives submitted code, and what can be seen through them."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import resource
import shutil
import stat
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from handful.challenge import confine, seccomp
from handful.errors import BadInput, Missing

Isolation = Literal["strong", "userns", "none"]
PACKAGE = Path(__file__).resolve().parents[1]
_DEVICES = ("null", "full", "random", "urandom")
_SHARED_CARDS = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_STREAMS = ("stdin", "stdout", "stderr")
MOST_FILES = 2500
_warm_until = 0.0
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


def bubblewrap(kind: Isolation, program: str, without: Collection[str] = ()) -> list[str]:
    """bubblewrap's arguments that do not depend on the job; ``without`` names walls that a test takes down."""
    walls = [program, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    # As root each task has a network of its own inside, and that wall is taken down there.
    walls += [] if kind == "userns" and "network" in without else ["--unshare-net"]
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
    for place in system_folders():
        walls += ["--ro-bind", place, place]
    walls += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    walls += ["--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu", "--proc", "/proc"]
    # Not bubblewrap's own /dev: shared memory from /dev/zero is counted nowhere, and terminals are of no use here.
    walls += ["--tmpfs", "/dev"]
    for name in _DEVICES:
        walls += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for target, name in (("/proc/self/fd", "fd"), *((f"/proc/self/fd/{i}", n) for i, n in enumerate(_STREAMS))):
        walls += ["--symlink", target, f"/dev/{name}"]
    return [*walls, "--dir", "/dev/shm"]


def cards(devices: Collection[int], place: Path = Path("/dev")) -> list[str]:
    """bubblewrap's arguments that show the chosen NVIDIA devices, and what all of them share; Missing where one is not."""
    out: list[str] = []
    for name in (f"nvidia{number}" for number in devices):
        if not (place / name).exists():
            raise Missing(
                f"this machine has no {place / name}; give the numbers of its NVIDIA devices, or no --devices"
            )
        out += ["--dev-bind", f"{place / name}", f"/dev/{name}"]
    for name in _SHARED_CARDS if out else ():
        if (place / name).exists():
            out += ["--dev-bind", f"{place / name}", f"/dev/{name}"]
    return out


def system_folders() -> list[str]:
    """What of /usr is shown: programs, libraries, the system's own interpreter; no more than these need."""
    own = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"
    found = [
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib32",
        "/usr/lib64",
        "/usr/libx32",
        own if os.path.isdir(own) else "/usr/lib",
    ]
    found += sorted(str(path) for path in Path("/usr/lib").glob("python3*"))
    found += sorted(str(path) for path in Path("/usr/local/lib").glob("python3*"))
    return [place for place in dict.fromkeys(found) if os.path.isdir(place) and not os.path.islink(place)]


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
    """The folders besides the system's from which the interpreter and its packages are read."""
    roots = dict.fromkeys((sys.base_prefix, sys.prefix, *package_folders()))
    system = system_folders()
    return tuple(
        root for root in roots if root != "/usr" and not any(Path(root).is_relative_to(place) for place in system)
    )


def tree(folder: Path) -> list[tuple[Path, int]]:
    """The files and links below a folder, relative to it, with their sizes."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_symlink() or path.is_file():
                found.append((path.relative_to(folder), path.lstat().st_size))
    return sorted(found)


def in_memory(folder: Path, inside: str, opened: list[int]) -> list[str]:
    """bubblewrap's arguments for a read-only copy in memory; the descriptors it reads are added to ``opened``."""
    files = tree(folder)
    if len(files) > MOST_FILES:
        raise BadInput(f"{folder} holds {len(files)} files, more than {MOST_FILES}; leave out what is not needed")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < len(files) + 256:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    size = sum(-(-size // 4096) * 4096 for _, size in files) + 4096 * (len(files) + 256)
    out = ["--perms", "0755", "--size", str(size), "--tmpfs", inside]
    for place in sorted(place for place, _, _ in os.walk(folder)):
        if (inner := os.path.relpath(place, folder)) != ".":
            out += ["--dir", f"{inside}/{inner}"]
    for path, _ in files:
        if (folder / path).is_symlink():
            out += ["--symlink", os.readlink(folder / path), f"{inside}/{path}"]
            continue
        fd = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        opened.append(fd)
        out += ["--file", str(fd), f"{inside}/{path}"]
    return [*out, "--remount-ro", inside]


def curtains(hidden: tuple[Path, ...], roots: tuple[str, ...]) -> list[str]:
    """bubblewrap's arguments that show the folders of ``hidden`` anew, without them: they are not there, not empty."""
    out: list[str] = []
    for folder in sorted({path.parent for path in hidden}):
        kept = [f"{confine.KEPT}{folder}"] if any(folder.is_relative_to(root) for root in covered(roots)) else []
        for place in (str(folder), *kept):
            out += ["--perms", "0755", "--tmpfs", place]
            for entry in sorted(folder.iterdir()):
                if entry not in hidden:
                    out += ["--ro-bind", str(entry), f"{place}/{entry.name}"]
            out += ["--remount-ro", place]
    return out


def covered(roots: tuple[str, ...]) -> list[str]:
    """Those that a job's own /tmp or /dev/shm would cover, outermost only: each job binds them again."""
    below = [r for r in roots if any(Path(r).is_relative_to(place) for place in ("/tmp", "/dev/shm"))]
    return [r for r in below if not any(r != other and Path(r).is_relative_to(other) for other in below)]


def readable_roots() -> list[Path]:
    """The folders of this machine that submitted code can read."""
    return sorted({Path(root).resolve() for root in (*system_folders(), *interpreter_roots())} | {PACKAGE})


def warm() -> None:
    """Begin to warm the files that are shown, every ten minutes at most, beside what else is done."""
    global _warm_until
    if time.monotonic() >= _warm_until:
        _warm_until = time.monotonic() + 600
        threading.Thread(target=_warm, daemon=True, name="warm").start()


def _warm() -> None:
    """Ask the system to read every file that is shown.

    A page that nobody has read yet takes longer to read: a task could read some of them to leave a mark for the next.
    Where the files do not fit into free memory together, nothing is done.
    """
    files, total = [], 0
    for root in readable_roots():
        for place, _, names in os.walk(root):
            for name in names:
                path = os.path.join(place, name)
                with contextlib.suppress(OSError):
                    facts = os.lstat(path)
                    if stat.S_ISREG(facts.st_mode) and facts.st_size:
                        files.append(path)
                        total += facts.st_size
    if total > _available():
        return
    for path in files:
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(fd)


def _available() -> int:
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def check_hidden(paths: list[Path]) -> None:
    """Refuse hidden data that lie inside a folder which the sandbox shows."""
    for path in paths:
        for root in readable_roots():
            if path.resolve() == root or path.resolve().is_relative_to(root):
                raise BadInput(
                    f"{path} lies inside {root}, which submitted code can read; move the hidden data elsewhere"
                )
