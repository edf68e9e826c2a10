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

# Loud attacks, each by the parameter of its test.
HOGS = {
    "first thread ended": """
        import ctypes, threading
        for _ in range(8):
            if os.fork() == 0:
                def hold():
                    x = np.ones(20 * 10**6); time.sleep(60)
                threading.Thread(target=hold).start()
                time.sleep(0.2)
                ctypes.CDLL(None).syscall(60, 0)
        time.sleep(60)
        """,
    "socket buffers": """
        import socket
        for _ in range(22):
            if os.fork() == 0:
                kept = []
                while len(kept) < 50:
                    kept.append(socket.socketpair()); kept[-1][0].setblocking(False); kept[-1][1].setblocking(False)
                    for each in kept[-1]:
                        try:
                            while True: each.send(bytes(1 << 16))
                        except BlockingIOError: pass
                time.sleep(60)
        time.sleep(60)
        """,
}

FORGERIES = {
    "garbage from a thread": "import threading; threading.Thread(target=lambda: [os.write(4, os.urandom(4096)) for _ in range(50)], daemon=True).start(); time.sleep(0.3)",
    "answer before the question": "os.write(4, sys.modules['_handful_protocol'].ChildReport(4, 0).pack() + sys.modules['_handful_protocol'].ChildReport(5, 0).pack() + bytes(400)); time.sleep(0.3)",
    "two reports": "os.write(4, sys.modules['_handful_protocol'].ChildReport(4, 0).pack()); os.write(4, sys.modules['_handful_protocol'].ChildReport(4, 0).pack()); time.sleep(0.3)",
    "unknown code": "os.write(4, b'hf01' + bytes([4, 200, 0, 0]) + bytes(2040)); time.sleep(0.3)",
    "the platform's failure": "os.write(4, b'hf01' + bytes([4, 11, 0, 0]) + bytes(2040)); time.sleep(0.3)",
    "earlier stage": "os.write(4, sys.modules['_handful_protocol'].ChildReport(1, 0).pack()); time.sleep(0.3)",
    "half a report": "os.write(4, sys.modules['_handful_protocol'].ChildReport(4, 0).pack()[:1000] + os.urandom(3000)); time.sleep(0.3)",
    "stage of training": "os.write(4, sys.modules['_handful_protocol'].ChildReport(2, 0).pack()); time.sleep(0.3)",
}  # fmt: skip

SWAPPED = """
# Looks like a file when it is listed, and is something else when it is opened.
open(path + '/x', 'w').write('x')
old = os.lstat
def swap(name, *a, **k):
    found = old(name, *a, **k)
    if str(name).endswith('/x'):
        os.remove(name); os.symlink('/proc/self/status', name)
    return found
os.lstat = swap
"""

SAVES = {
    "link": "os.symlink('/etc/ld.so.cache', path + '/link')",
    "link to a folder": "os.symlink('/', path + '/dir')",
    "pipe": "os.mkfifo(path + '/fifo')",
    "socket": "import socket; socket.socket(socket.AF_UNIX).bind(path + '/s')",
    "too many files": "[open(path + '/f%d' % i, 'w').close() for i in range(50)]",
    "too many bytes": "open(path + '/big', 'wb').write(b'x' * (3 << 20))",
    "sparse file": "f = open(path + '/sparse', 'wb'); f.truncate(20 << 20)",
    "escape in a name": "open(path + '/\\x1b[31mred', 'w')",
    "hidden name": "open(path + '/..hidden', 'w')",
    "newline at the end of a name": "open(path + '/name\\n', 'w')",
    "newline in a name": "open(path + '/two\\nlines', 'w')",
    "newline in the name of a folder": "os.makedirs(path + '/folder\\n'); open(path + '/folder\\n/x', 'w')",
    "unreadable file": "open(path + '/x', 'w'); os.chmod(path + '/x', 0)",
    "unreadable folder": "os.makedirs(path + '/d'); open(path + '/d/x', 'w'); os.chmod(path + '/d', 0)",
    "name that is not text": "open(os.fsencode(path) + b'/\\xff\\xfe', 'w')",
    "name too long": "os.makedirs(path + '/' + 'd' * 99 + '/' + 'e' * 99); open(path + '/' + 'd' * 99 + '/' + 'e' * 99 + '/' + 'f' * 99, 'w')",
    "swapped for a link": SWAPPED,
}  # fmt: skip

STREAMS = {
    "climbing stream": "p.pack_block(1, name='../../evil')",
    "absolute stream": "p.pack_block(1, name='/tmp/evil')",
    "content without a file": "p.pack_block(2, b'data without a file')",
    "one name twice": "p.pack_block(1, name='a') + p.pack_block(1, name='a')",
    "file as folder": "p.pack_block(1, name='a') + p.pack_block(1, name='a/b')",
    "endless file": "(p.pack_block(1, name='a') + p.pack_block(2, b'x' * 65536) * 40)",
    "stream of too many files": "b''.join(p.pack_block(1, name='f%d' % i) for i in range(20))",
    "rubbish": "b'rubbish' * 20000",
}

# The probes of test_attacks.py by the wall that stops them.
PROBED: dict[str, list[str]] = {
    "hidden data are not mounted": ["labels on disk", "home folders", "secret in memory", "objects of the evaluator", "frames of the caller"],
    NETWORK: ["TCP", "UDP", "netlink", "abstract socket of the machine"],
    "process namespace": ["other processes", "the evaluator's /proc", "signals to the evaluator", "environment of init"],
    FILTER: ["ptrace", "process_vm_readv", "new user namespace", "new mount namespace", "clone with namespace", "mount", "remount", "BPF, keys, io_uring, perf", "x32 calls", "chroot"],
    USER: ["becoming root", "set-uid programs", "device nodes", "raising limits", "kernel settings", "sysrq"],
    MOUNTS: ["writing the submission", "writing the interpreter", "writing torch", "writing our code", "writing /", "writing saved files", "disks"],
    "clean environment": ["environment", "descriptors"],
}  # fmt: skip

# Attacks with a test of their own: wall -> attack -> test.
CLOCK, TREE, WATCH = "the evaluator's clock", "process namespace", "watch over memory"
TOLD: dict[str, dict[str, str]] = {
    "hidden data are not mounted": {"training data in meta-test": "test_training_data_are_not_there_in_meta_test"},
    "secret seeds": {"tasks from the seed that is shown": "test_the_seed_that_a_submission_sees_does_not_give_the_tasks"},
    NETWORK: {
        "sockets queued inside each other": "test_sockets_queued_inside_each_other_do_not_reach_the_next_task",
        "memory in socket names": "test_a_memorising_submission_gains_nothing[network]",
    },
    TREE: {
        "daemon left behind": "test_nothing_is_left_running_after_a_job",
        "stopping or killing everything": "test_stopping_or_killing_everything_in_sight_hurts_only_oneself",
    },
    MOUNTS: {
        **dict.fromkeys(("time of access", "file in /tmp", "file in /dev/shm", "POSIX shared memory"), "test_nothing_is_remembered_from_task_to_task"),
        "memory in /tmp": "test_a_memorising_submission_gains_nothing[/tmp]",
        "memory in /dev/shm": "test_a_memorising_submission_gains_nothing[/dev/shm]",
    },
    FILTER: {"memory in the page cache": "test_a_memorising_submission_gains_nothing[page cache]"},
    "a process per task": {
        **dict.fromkeys(("global variable", "patched module"), "test_nothing_is_remembered_from_task_to_task"),
        "patched evaluator": "test_a_submission_that_patches_the_evaluators_modules_scores_what_it_answers",
    },
    LIMITS: {
        "fork bomb": "test_a_fork_bomb_stays_small_and_ends_with_its_task",
        "disk filler": "test_disk_and_inode_fillers_hit_the_end_of_their_own_tmp",
        "inode filler": "test_disk_and_inode_fillers_hit_the_end_of_their_own_tmp",
        "file too large": "test_a_file_larger_than_its_limit_ends_the_process_or_the_write",
        "endless output": "test_endless_output_is_bounded_and_ended",
    },
    WATCH: {
        "memory bomb": "test_a_memory_bomb_in_one_process_is_oom",
        "image bomb": "test_an_image_of_a_few_kilobytes_that_fills_the_memory_is_oom",
        "one huge tensor": "test_a_memory_bomb_in_one_process_is_oom",
        "many processes": "test_a_memory_bomb_in_many_processes_is_oom",
        "page tables": "test_page_tables_are_counted",
    },
    CLOCK: {
        **{f"endless {where}": f"test_whatever_never_ends_is_ended[{where}-busy]" for where in ("import", "load", "fit", "predict")},
        **{f"sleeping {where}": f"test_whatever_never_ends_is_ended[{where}-asleep]" for where in ("import", "load", "fit", "predict")},
        "endless training": "test_training_that_never_ends_is_ended",
        "endless save": "test_training_that_never_ends_is_ended",
        "endless fork bomb": "test_an_endless_fork_bomb_is_ended_by_the_clock",
        "ignored signals": "test_signals_that_are_ignored_do_not_help",
        "slow whole run": "test_the_whole_run_has_a_clock_of_its_own",
    },
    PIPES: {
        **{f"platform at fault in {where}": f"test_a_submission_cannot_declare_the_platform_at_fault[{where}]" for where in ("import", "load", "fit", "predict")},
        "platform at fault in training": "test_training_cannot_declare_the_platform_at_fault[meta_fit]",
        "platform at fault in save": "test_training_cannot_declare_the_platform_at_fault[save]",
        "longer reply": "test_a_reply_with_more_than_was_asked_is_a_protocol_error",
        "closed pipes": "test_closing_the_pipes_is_a_crash",
    },
    "opaque saved files": {"pickle": "test_a_pickle_in_save_stays_bytes"},
    "hidden packages": {"pretrained weights among the installed packages": "test_a_league_without_pretraining_sees_no_file_of_weights_anywhere[False]"},
}  # fmt: skip

QUIETLY = "test_every_quiet_attack_is_contained"
ROWS: list[tuple[str, str, str]] = sorted(
    [
        *((name, wall, QUIETLY) for name, wall, _ in QUIET),
        *((name, wall, QUIETLY) for wall, names in PROBED.items() for name in names),
        *((name, wall, test) for wall, tests in TOLD.items() for name, test in tests.items()),
        *((name, WATCH, f"test_memory_that_a_count_of_first_threads_misses_is_oom[{name}]") for name in HOGS),
        *((name, PIPES, f"test_forged_replies_are_protocol_errors[{name}]") for name in FORGERIES),
        *((name, "opaque saved files", f"test_what_save_may_not_leave[{name}]") for name in SAVES),
        *((name, "opaque saved files", f"test_forged_streams_of_files_are_refused[{name}]") for name in STREAMS),
    ],
    key=lambda row: (row[1], row[0]),
)  # fmt: skip


def page() -> str:
    """docs/settings/challenge-walls.md."""
    lines = [
        "# Attacks that the suite tries, and the wall that stops each",
        "",
        f"{len(ROWS)} attacks. Made by `python -m tests.challenge.attacks > docs/settings/challenge-walls.md`; each row",
        "names its test in `tests/challenge/`, and the suite checks that the test exists. The walls are described in",
        "[Challenges](challenge.md#what-the-wall-is-made-of).",
        "",
        "| attack | stopped by | test |",
        "|---|---|---|",
        *(f"| {name} | {wall} | `{test}` |" for name, wall, test in ROWS),
        "",
        "What is not stopped: the time that things take on shared caches and disks, counters of the whole kernel, eviction",
        "of cached files by filling the machine's memory, pipes (64 MB per user by the kernel's default), weights written",
        "into source code, and faults of the kernel itself.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
