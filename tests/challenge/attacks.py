"""Quiet attacks as expressions, each with the wall that stops it: true means that it got through.

They run inside the sandbox, all in one task. ``syscall(number, ...)`` is true when the kernel took the call.
"""

from __future__ import annotations

FILTER, MOUNTS, LIMITS, PROC = "system-call filter", "mounts", "limits", "read-only /proc"
NETWORK, PIPES, USER = "network namespace of the task", "pipes and control socket", "unused user, no capabilities"

SETUP = r"""
import mmap, fcntl, resource, signal, glob, tempfile
AF_UNIX = socket.AF_UNIX
SHARED = os.__file__
def opened(path=SHARED): return os.open(path, os.O_RDONLY)
def wrote(path, text):
    with open(path, "w") as f: f.write(text)
    return True
def mapped(flags, size=1 << 20):
    return bool(mmap.mmap(-1, size, flags=flags))
def fcntl_(command, value=0):
    return fcntl.fcntl(opened(), command, value) is not None
def option(number):
    s = socket.socket(AF_UNIX); s.setsockopt(socket.SOL_SOCKET, number, 1 << 24); return True
def advised(advice):
    m = mmap.mmap(opened(), 4096, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    m.madvise(advice); return True
def family(number):
    return bool(socket.socket(number, socket.SOCK_STREAM if number != 17 else socket.SOCK_RAW))
def evicts():
    fd = opened(BIG); os.pread(fd, 4096, 0)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT) is not None
BIG = torch._C.__file__
"""

QUIET: list[tuple[str, str, str]] = [
    ("page cache: preadv2 with RWF_NOWAIT", FILTER, "os.preadv(opened(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1"),
    ("page cache: preadv2 with RWF_HIPRI", FILTER, "os.preadv(opened(), [bytearray(1)], 0, os.RWF_HIPRI) == 1"),
    ("page cache: evict with fadvise, then look", FILTER, "evicts()"),
    ("page cache: mincore", FILTER, "syscall(27, 0, 0, 0)"),
    ("page cache: cachestat", FILTER, "syscall(451, opened(), 0, 0, 0)"),
    ("page cache: MADV_PAGEOUT", FILTER, "advised(21)"),
    ("page cache: MADV_COLD", FILTER, "advised(20)"),
    ("merged pages: MADV_MERGEABLE", FILTER, "advised(12)"),
    ("flock on a shared file", FILTER, "fcntl.flock(opened(), fcntl.LOCK_SH | fcntl.LOCK_NB) is None"),
    ("record lock on a shared file", FILTER, "fcntl.lockf(opened(), fcntl.LOCK_SH | fcntl.LOCK_NB) is None"),
    ("asking for another's record lock", FILTER, "fcntl_(fcntl.F_GETLK, bytes(32))"),
    ("lock of an open file description", FILTER, "fcntl_(37, bytes(32))"),
    ("lease on a shared file", FILTER, "fcntl_(fcntl.F_SETLEASE, fcntl.F_RDLCK)"),
    ("directory notification", FILTER, "fcntl.fcntl(opened('/usr/bin'), fcntl.F_NOTIFY, 1) is not None"),
    ("write hint kept by the inode", FILTER, "fcntl_(1036, (5).to_bytes(8, 'little'))"),
    ("reading a write hint", FILTER, "fcntl_(1035, bytes(8))"),
    ("inotify on shared folders", FILTER, "syscall(294, 0)"),
    ("inotify, old call", FILTER, "syscall(253)"),
    ("fanotify", FILTER, "syscall(300, 0, 0)"),
    ("uncounted memory: shared anonymous mapping", FILTER, "mapped(mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)"),
    ("uncounted memory: shared mapping of /dev/zero", MOUNTS, "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 1 << 20)"),
    ("uncounted memory: huge pages", FILTER, "mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000, 2 << 20)"),
    ("uncounted memory: memfd_create", FILTER, "os.memfd_create('x') >= 0"),
    ("uncounted memory: memfd_secret", FILTER, "syscall(447, 0)"),
    ("uncounted memory: System V segment", FILTER, "libc.shmget(0, 1 << 20, 0o1600) >= 0"),
    ("uncounted memory: message queue", FILTER, "libc.msgget(0, 0o1600) >= 0"),
    ("uncounted memory: POSIX queue", FILTER, "syscall(240, b'x', 66, 0o600, 0)"),
    ("uncounted memory: vmsplice into a pipe", FILTER, "syscall(278, os.pipe()[1], 0, 0, 0)"),
    ("uncounted memory: splice from tmpfs", FILTER, "syscall(275, opened(), 0, os.pipe()[1], 0, 4096, 0)"),
    ("uncounted memory: tee", FILTER, "syscall(276, os.pipe()[0], os.pipe()[1], 1, 0)"),
    ("uncounted memory: asynchronous input and output", FILTER, "syscall(206, 8, ctypes.byref(ctypes.c_ulong()))"),
    ("uncounted memory: files in /dev", MOUNTS, "wrote('/dev/x', 'x')"),
    ("uncounted memory: locked pages", LIMITS, "libc.mlock(ctypes.create_string_buffer(1 << 16), 1 << 16) == 0"),
    ("larger send buffer", FILTER, "option(socket.SO_SNDBUF)"),
    ("larger receive buffer", FILTER, "option(socket.SO_RCVBUF)"),
    ("forced send buffer", FILTER, "option(32)"),
    ("forced receive buffer", FILTER, "option(33)"),
    ("other CPUs", FILTER, "os.sched_setaffinity(0, range(os.cpu_count())) is None"),
    ("more CPUs than threads", "pinned CPUs", "len(os.sched_getaffinity(0)) > 1"),
    ("real-time priority", FILTER, "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) is None"),
    ("higher priority", USER, "os.setpriority(os.PRIO_PROCESS, 0, -10) is None"),
    ("disk priority", FILTER, "syscall(251, 1, 0, 0)"),
    ("last in line for the kernel's killer", PROC, "wrote('/proc/self/oom_score_adj', '0')"),
    ("not first in line for the kernel's killer", PROC, "open('/proc/self/oom_score_adj').read().strip() != '1000'"),
    ("own name in /proc", PROC, "wrote('/proc/self/comm', 'bwrap')"),
    ("user map", PROC, "wrote('/proc/self/uid_map', '0 0 1')"),
    ("sockets of other tasks", NETWORK, "[l for l in open('/proc/net/unix').read().splitlines()[1:]]"),
    ("network devices", NETWORK, "[l for l in open('/proc/net/dev').read().splitlines()[2:] if 'lo:' not in l]"),
    ("IPv6", FILTER, "family(10)"),
    ("packets", FILTER, "family(17)"),
    ("virtual machine sockets", FILTER, "family(40)"),
    ("Bluetooth", FILTER, "family(31)"),
    ("crypto sockets", FILTER, "family(38)"),
    ("control socket", PIPES, "[f for f in os.listdir('/proc/self/fd') if os.readlink('/proc/self/fd/' + f)[:6] == 'socket']"),
    ("terminals", MOUNTS, "os.path.exists('/dev/ptmx') or os.path.exists('/dev/tty')"),
    ("documents and data of the system", MOUNTS, "os.path.exists('/usr/share') or os.path.exists('/usr/src')"),
    ("configuration of the system", MOUNTS, "[n for n in os.listdir('/etc') if n != 'ld.so.cache']"),
    ("mounts of the machine", MOUNTS, "[p for p in ('/boot', '/media', '/srv', '/root', '/work', '/run') if os.path.isdir(p) and os.listdir(p) and not os.__file__.startswith(p) and not torch.__file__.startswith(p)]"),
    ("kernel log", FILTER, "syscall(103, 3, 0, 0)"),
    ("swap", FILTER, "syscall(167, b'/tmp/x', 0)"),
    ("clock", FILTER, "syscall(227, 0, 0)"),
    ("hostname", FILTER, "socket.sethostname('x') is None"),
    ("kernel modules", FILTER, "syscall(313, 0, b'', 0)"),
    ("personality", FILTER, "syscall(135, 0x0040000)"),
    ("file handles", FILTER, "syscall(304, -100, 0, 0)"),
    ("moving pages", FILTER, "syscall(279, 0, 0, 0, 0, 0, 0)"),
    ("another's descriptors", FILTER, "syscall(438, 0, 0, 0)"),
    ("joining a namespace", FILTER, "syscall(308, opened('/proc/self/ns/net'), 0)"),
    ("core files", LIMITS, "resource.getrlimit(resource.RLIMIT_CORE)[1] > 0"),
    ("more descriptors", LIMITS, "resource.setrlimit(resource.RLIMIT_NOFILE, (10**5, 10**5)) is None"),
]  # fmt: skip

# The attacks that have a test or a parameter of their own, by the wall that stops them.
LOUD: dict[str, list[str]] = {
    "hidden data are not mounted": ["labels on disk", "home folders", "training data in meta-test", "secret in memory", "objects of the evaluator", "frames of the caller"],
    NETWORK: ["TCP", "UDP", "netlink", "abstract socket of the machine", "sockets queued inside each other"],
    "process namespace": ["other processes", "the evaluator's /proc", "signals to the evaluator", "daemon left behind", "stopping everything", "killing everything", "environment of init"],
    FILTER: ["ptrace", "process_vm_readv", "new user namespace", "new mount namespace", "clone with namespace", "mount", "remount", "BPF, keys, io_uring, perf", "x32 calls", "chroot"],
    USER: ["becoming root", "set-uid programs", "device nodes", "raising limits", "kernel settings", "sysrq"],
    MOUNTS: ["writing the submission", "writing the interpreter", "writing torch", "writing our code", "writing /", "writing saved files", "disks", "time of access", "file in /tmp", "file in /dev/shm", "POSIX shared memory"],
    "clean environment": ["environment", "descriptors"],
    "a process per task": ["global variable", "patched module", "patched evaluator"],
    LIMITS: ["fork bomb", "endless fork bomb", "disk filler", "inode filler", "file too large", "endless output"],
    "watch over memory": ["memory bomb", "one huge tensor", "many processes", "first thread ended", "socket buffers", "page tables"],
    "the evaluator's clock": ["endless import", "endless load", "endless fit", "endless predict", "endless training", "endless save", "ignored signals", "slow whole run"],
    PIPES: ["garbage from a thread", "answer before the question", "two reports", "unknown code", "stage of training", "the platform's failure", "earlier stage", "half a report", "platform at fault on import", "platform at fault in load", "platform at fault in fit", "platform at fault in predict", "platform at fault in training", "longer reply", "closed pipes"],
    "opaque saved files": ["pickle", "link", "link to a folder", "pipe", "socket", "too many files", "too many bytes", "sparse file", "escape in a name", "hidden name", "newline at the end of a name", "newline in a name", "unreadable file", "unreadable folder", "name that is not text", "name too long", "swapped for a link", "climbing stream", "absolute stream", "content without a file", "one name twice", "file as folder", "endless file", "rubbish"],
    "hidden packages": ["pretrained weights among the installed packages"],
}  # fmt: skip


def page() -> str:
    """docs/settings/challenge-walls.md."""
    rows = [(name, wall) for name, wall, _ in QUIET] + [(name, wall) for wall, names in LOUD.items() for name in names]
    lines = [
        "# Attacks that the suite tries, and the wall that stops each",
        "",
        f"{len(rows)} attacks, made by `python -m tests.challenge.attacks`; each runs in `tests/challenge/test_attacks.py`.",
        "",
        "| attack | stopped by |",
        "|---|---|",
        *(f"| {name} | {wall} |" for name, wall in sorted(rows, key=lambda row: (row[1], row[0]))),
        "",
        "What is not stopped: the time that things take on shared caches and disks, counters of the whole kernel, eviction",
        "of cached files by filling the machine's memory, pipes (64 MB per user by the kernel's default), weights written",
        "into source code, and faults of the kernel itself.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
