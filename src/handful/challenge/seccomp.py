"""A system-call filter in classic BPF, built with struct and installed with ctypes: no extra package, no compiler.

The filter is a second wall behind namespaces and dropped capabilities. It refuses what a learner never needs and an
attack does: tracing, new namespaces, mounts, keys, BPF, io_uring, every socket family but local ones, memory that no
limit counts, and what reads or sets the state that files share between tasks (which pages are cached, locks, watches).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import platform
import struct
from collections.abc import Collection

_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_SET, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2, _ARG3 = 0, 4, 16, 24, 32, 40
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NEW_NAMESPACES = 0x7E020000
_NEWEST = 452
# Shared and anonymous: its pages stay when no process maps them any more, so that no count of processes sees them.
_SHARED_ANONYMOUS, _HUGE_PAGES = 0x21, 0x40000
_COLD, _PAGE_OUT, _MERGEABLE = 20, 21, 12
_BUFFER_SIZES = (7, 8, 32, 33)
# Duplicating, flags, owners and the size of pipes; what is missing are locks, leases, watches and hints, which the
# file keeps for whoever opens it next.
_FCNTL = (0, 1, 2, 3, 4, 8, 9, 1030, 1031, 1032)
# What is taken down when a test wants to see that a wall is needed.
GROUPS = {
    "page cache": "fadvise64 readahead sync_file_range preadv2 pwritev2 mincore cachestat madvise",
    "locks and watches": "flock fcntl inotify_init inotify_init1 inotify_add_watch",
    "shared memory": "mmap",
}
# Advice may be ignored; programs that ask for what is not there try again for ever unless it is said so.
_ANSWERS = dict.fromkeys(("fadvise64", "readahead", "sync_file_range"), 0)
_ANSWERS |= dict.fromkeys(("preadv2", "pwritev2", "mincore", "cachestat", "flock", "inotify_init"), errno.ENOSYS)
_ANSWERS |= dict.fromkeys(("inotify_init1", "inotify_add_watch"), errno.ENOSYS)


def _table(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (item.split("=") for item in text.split())}


_X86_64 = _table(
    """
    ptrace=101 process_vm_readv=310 process_vm_writev=311 kcmp=312 pidfd_getfd=438 process_madvise=440 mount=165
    umount2=166 pivot_root=155 chroot=161 unshare=272 setns=308 open_tree=428 move_mount=429 fsopen=430
    fsconfig=431 fsmount=432 fspick=433 mount_setattr=442 quotactl=179 quotactl_fd=443 swapon=167 swapoff=168
    reboot=169 sethostname=170 setdomainname=171 iopl=172 ioperm=173 acct=163 init_module=175 delete_module=176
    finit_module=313 kexec_load=246 kexec_file_load=320 syslog=103 settimeofday=164 clock_settime=227
    clock_adjtime=305 adjtimex=159 personality=135 modify_ldt=154 add_key=248 request_key=249 keyctl=250
    perf_event_open=298 bpf=321 userfaultfd=323 io_uring_setup=425 io_uring_enter=426 io_uring_register=427
    fanotify_init=300 name_to_handle_at=303 open_by_handle_at=304 migrate_pages=256 move_pages=279
    memfd_create=319 memfd_secret=447 shmget=29 shmat=30 shmctl=31 shmdt=67 semget=64 semop=65 semctl=66
    semtimedop=220 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 mq_open=240 mq_unlink=241 fadvise64=221 readahead=187
    sync_file_range=277 preadv2=327 pwritev2=328 mincore=27 cachestat=451 flock=73 inotify_init=253
    inotify_init1=294 inotify_add_watch=254 sched_setaffinity=203 sched_setattr=314 sched_setscheduler=144
    ioprio_set=251 splice=275 tee=276 vmsplice=278 io_setup=206 process_mrelease=448 mbind=237 set_mempolicy=238
    """
)
_AARCH64 = _table(
    """
    ptrace=117 process_vm_readv=270 process_vm_writev=271 kcmp=272 pidfd_getfd=438 process_madvise=440 mount=40
    umount2=39 pivot_root=41 chroot=51 unshare=97 setns=268 open_tree=428 move_mount=429 fsopen=430 fsconfig=431
    fsmount=432 fspick=433 mount_setattr=442 quotactl=60 quotactl_fd=443 swapon=224 swapoff=225 reboot=142
    sethostname=161 setdomainname=162 acct=89 init_module=105 delete_module=106 finit_module=273 kexec_load=104
    kexec_file_load=294 syslog=116 settimeofday=170 clock_settime=112 clock_adjtime=266 adjtimex=171
    personality=92 add_key=217 request_key=218 keyctl=219 perf_event_open=241 bpf=280 userfaultfd=282
    io_uring_setup=425 io_uring_enter=426 io_uring_register=427 fanotify_init=262 name_to_handle_at=264
    open_by_handle_at=265 migrate_pages=238 move_pages=239 memfd_create=279 memfd_secret=447 shmget=194
    shmctl=195 shmat=196 shmdt=197 semget=190 semctl=191 semtimedop=192 semop=193 msgget=186 msgctl=187
    msgrcv=188 msgsnd=189 mq_open=180 mq_unlink=181 fadvise64=223 readahead=213 sync_file_range=84 preadv2=286
    pwritev2=287 mincore=232 cachestat=451 flock=32 inotify_init1=26 inotify_add_watch=27 sched_setaffinity=122
    sched_setattr=274 sched_setscheduler=119 ioprio_set=30 splice=76 tee=77 vmsplice=75 io_setup=0
    process_mrelease=448 mbind=235 set_mempolicy=237
    """
)
_ARGUMENTS = ("clone", "clone3", "socket", "socketpair", "ioctl", "fcntl", "madvise", "mmap", "setsockopt")
# machine -> audit architecture, numbers of the calls whose arguments decide, the refused calls
_MACHINES = {
    "x86_64": (0xC000003E, dict(zip(_ARGUMENTS, (56, 435, 41, 53, 16, 72, 28, 9, 54), strict=True)), _X86_64),
    "aarch64": (0xC00000B7, dict(zip(_ARGUMENTS, (220, 435, 198, 199, 29, 25, 233, 222, 208), strict=True)), _AARCH64),
}


def supported() -> bool:
    """Whether a filter can be built for this machine."""
    return platform.machine() in _MACHINES


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _refuse(error: int) -> bytes:
    return _op(_RETURN, _ERRNO | error)


def _by_argument(number: int, argument: int, values: Collection[int], error: int, refused: bool = True) -> list[bytes]:
    """Refuse a call when its argument is one of ``values``, or, with ``refused`` false, when it is none of them."""
    count = len(values)
    out = [_op(_JUMP_EQUAL, number, 0, count + 3), _op(_LOAD, argument)]
    for i, value in enumerate(values):
        out.append(_op(_JUMP_EQUAL, value, count - i, 0))
    allow, refuse = _op(_RETURN, _ALLOW), _refuse(error)
    return [*out, allow, refuse] if refused else [*out, refuse, allow]


@functools.cache
def build(machine: str | None = None, without: tuple[str, ...] = ()) -> bytes:
    """The filter as an array of ``struct sock_filter``, as bubblewrap's ``--seccomp`` and the kernel take it.

    ``without`` names GROUPS that are let through, for tests that show what they are needed for.
    """
    arch, calls, refused = _MACHINES[machine or platform.machine()]
    open_calls = {name for group in without for name in GROUPS.get(group, "").split()}
    out = [
        _op(_LOAD, _ARCH),
        _op(_JUMP_EQUAL, arch, 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER),
        # Above the newest known call: also the whole x32 interface, which would step around the numbers below.
        _op(_JUMP_GREATER, _NEWEST, 0, 1),
        _refuse(errno.ENOSYS),
        # clone3 hides its flags behind a pointer; without it the C library falls back to clone.
        _op(_JUMP_EQUAL, calls["clone3"], 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for name, number in sorted(refused.items(), key=lambda item: item[1]):
        if name not in open_calls:
            out += [_op(_JUMP_EQUAL, number, 0, 1), _refuse(_ANSWERS.get(name, errno.EPERM))]
    out += [
        _op(_JUMP_EQUAL, calls["clone"], 0, 4),
        _op(_LOAD, _ARG0),
        _op(_JUMP_SET, _NEW_NAMESPACES, 0, 1),
        _refuse(errno.EPERM),
        _op(_RETURN, _ALLOW),
    ]
    if "mmap" not in open_calls:
        out += [
            _op(_JUMP_EQUAL, calls["mmap"], 0, 6),
            _op(_LOAD, _ARG3),
            _op(_JUMP_SET, _HUGE_PAGES, 2, 0),
            _op(_AND, _SHARED_ANONYMOUS),
            _op(_JUMP_EQUAL, _SHARED_ANONYMOUS, 0, 1),
            _refuse(errno.ENOMEM),
            _op(_RETURN, _ALLOW),
        ]
    for name in ("socket", "socketpair"):
        out += _by_argument(calls[name], _ARG0, (_AF_UNIX,), errno.EAFNOSUPPORT, refused=False)
    out += _by_argument(calls["ioctl"], _ARG1, (_TIOCSTI, _TIOCLINUX), errno.EPERM)
    out += _by_argument(calls["setsockopt"], _ARG2, _BUFFER_SIZES, errno.EPERM)
    if "madvise" not in open_calls:
        out += _by_argument(calls["madvise"], _ARG2, (_COLD, _PAGE_OUT, _MERGEABLE), errno.EINVAL)
    if "fcntl" not in open_calls:
        out += _by_argument(calls["fcntl"], _ARG1, _FCNTL, errno.EINVAL, refused=False)
    out.append(_op(_RETURN, _ALLOW))
    return b"".join(out)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install(program: bytes | None = None) -> None:
    """Put this process and all its future children under the filter, for good. Needs no-new-privileges to be set."""
    program = program or build()
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p).value)
    set_seccomp, mode_filter = 22, 2
    if libc.prctl(set_seccomp, mode_filter, ctypes.byref(header), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the system-call filter was refused: {errno.errorcode.get(number, number)}")
