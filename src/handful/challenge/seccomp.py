"""A system-call filter in classic BPF, built with struct and installed with ctypes: no extra package, no compiler.

The filter is a second wall behind namespaces and dropped capabilities. It refuses what a learner never needs and an
attack does: tracing, new namespaces, mounts, keys, BPF, io_uring, every socket family but local ones, and memory that
no limit counts.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_SET, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NEW_NAMESPACES = 0x7E020000
_NEWEST = 452


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
    semtimedop=220 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 mq_open=240 mq_unlink=241
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
    msgrcv=188 msgsnd=189 mq_open=180 mq_unlink=181
    """
)
# machine -> audit architecture, numbers of (clone, clone3, socket, socketpair, ioctl), the refused calls
_MACHINES = {
    "x86_64": (0xC000003E, (56, 435, 41, 53, 16), _X86_64),
    "aarch64": (0xC00000B7, (220, 435, 198, 199, 29), _AARCH64),
}


def supported() -> bool:
    """Whether a filter can be built for this machine."""
    return platform.machine() in _MACHINES


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _refuse(error: int) -> bytes:
    return _op(_RETURN, _ERRNO | error)


def build(machine: str | None = None) -> bytes:
    """The filter as an array of ``struct sock_filter``, as bubblewrap's ``--seccomp`` and the kernel take it."""
    arch, (clone, clone3, socket, socketpair, ioctl), refused = _MACHINES[machine or platform.machine()]
    out = [
        _op(_LOAD, _ARCH),
        _op(_JUMP_EQUAL, arch, 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER),
        # Above the newest known call: also the whole x32 interface, which would step around the numbers below.
        _op(_JUMP_GREATER, _NEWEST, 0, 1),
        _refuse(errno.ENOSYS),
        # clone3 hides its flags behind a pointer; without it the C library falls back to clone.
        _op(_JUMP_EQUAL, clone3, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for number in sorted(refused.values()):
        out += [_op(_JUMP_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    out += [
        _op(_JUMP_EQUAL, clone, 0, 4),
        _op(_LOAD, _ARG0),
        _op(_JUMP_SET, _NEW_NAMESPACES, 0, 1),
        _refuse(errno.EPERM),
        _op(_RETURN, _ALLOW),
    ]
    for number in (socket, socketpair):
        out += [
            _op(_JUMP_EQUAL, number, 0, 4),
            _op(_LOAD, _ARG0),
            _op(_JUMP_EQUAL, _AF_UNIX, 1, 0),
            _refuse(errno.EAFNOSUPPORT),
            _op(_RETURN, _ALLOW),
        ]
    out += [
        _op(_JUMP_EQUAL, ioctl, 0, 5),
        _op(_LOAD, _ARG1),
        _op(_JUMP_EQUAL, _TIOCSTI, 1, 0),
        _op(_JUMP_EQUAL, _TIOCLINUX, 0, 1),
        _refuse(errno.EPERM),
        _op(_RETURN, _ALLOW),
        _op(_RETURN, _ALLOW),
    ]
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
