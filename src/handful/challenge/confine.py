"""What shuts a job in: namespaces, limits, an unused user, no capabilities. Imports nothing of the package."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Callable, Collection
from typing import Any

KEPT = "/opt/handful/kept"
NEW_PIDS = 0x20000000
_NEW_MOUNTS, _NEW_IPC, _NEW_NET = 0x00020000, 0x08000000, 0x40000000
_PRIVATE, _RECURSIVE, _BIND, _NOSUID, _NODEV, _NOEXEC = 1 << 18, 1 << 14, 1 << 12, 2, 4, 8
_REMOUNT, _READ_ONLY = 32, 1
_CAPBSET_DROP, _SET_NO_NEW_PRIVS, _SET_DUMPABLE, _AMBIENT, _AMBIENT_CLEAR = 24, 38, 4, 47, 4

libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """A function of the C library that gives 0, or an error."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(kind: bytes, place: bytes, flags: int, options: bytes | None) -> None:
    call("mount", kind, place, kind, ctypes.c_ulong(flags), options)


def private_namespaces(limits: dict[str, int], kept: list[str], without: Collection[str] = ()) -> None:
    """Fresh /tmp, /dev/shm, /proc, IPC and network for this job alone; they end with it.

    Local sockets that are queued inside each other outlive the process that made them, and their names can be read by
    whoever shares the network namespace. ``kept`` are folders of the interpreter that lie below /tmp or /dev/shm: they
    are bound again, read-only as they were. ``without`` names walls that a test takes down.
    """
    os.umask(0o022)
    call("unshare", _NEW_MOUNTS | _NEW_IPC | (0 if "network" in without else _NEW_NET))
    call("mount", b"none", b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None)
    size = f"size={limits['tmp_bytes']},nr_inodes={limits['inodes']},mode=1777".encode()
    shared = f"size={limits['shm_bytes']},nr_inodes={limits['inodes']},mode=1777".encode()
    for target, options in ((b"/tmp", size), (b"/dev/shm", shared)):
        if target.decode() not in without:
            mount(b"tmpfs", target, _NOSUID | _NODEV, options)
    for place in kept:
        os.makedirs(place, mode=0o755, exist_ok=True)
        call("mount", f"{KEPT}{place}".encode(), place.encode(), None, ctypes.c_ulong(_BIND | _RECURSIVE), None)
    mount(b"proc", b"/proc", _NOSUID | _NODEV | _NOEXEC, None)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    # Nothing in /proc is a job's to set; without this it could put itself last in line again.
    read_only = ctypes.c_ulong(_REMOUNT | _BIND | _READ_ONLY | _NOSUID | _NODEV | _NOEXEC)
    call("mount", None, b"/proc", None, read_only, None)


def set_limits(limits: dict[str, int]) -> None:
    """Per-process limits; the sum of memory is the evaluator's to watch."""
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, limits["memory_bytes"]),
        (resource.RLIMIT_AS, limits["memory_bytes"] + limits["address_slack"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_RTPRIO, 0),
    ):
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def become(uid: int) -> None:
    """Become a user that owns nothing, without groups, capabilities or a way back."""
    for capability in range(64):
        if libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    call("prctl", _AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Leaving root clears all sets but the inheritable one.
    version_3 = 0x20080522
    call("capset", struct.pack("<Ii", version_3, 0), bytes(24))


def seal(install_filter: Callable[[], None]) -> None:
    """No new privileges, then the filter of system calls."""
    call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", _SET_DUMPABLE, 1, 0, 0, 0)
    install_filter()


def check_sealed() -> None:
    """Fail closed: read back from the kernel that nothing is left to this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    wrong = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status[name], 16) != 0]
    wrong += [name for name, value in (("NoNewPrivs", "1"), ("Seccomp", "2")) if status.get(name) != value]
    if os.getuid() == 0:
        wrong.append("Uid")
    if wrong:
        raise OSError(f"the sandbox is not closed: {', '.join(wrong)}")
