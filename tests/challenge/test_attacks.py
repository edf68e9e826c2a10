"""Submissions that try to cheat or to break the machine: each is contained, and reported with the right code."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handful.challenge import job as sandbox_job
from handful.challenge import walls
from handful.challenge.evaluate import meta_test
from handful.challenge.hidden import HiddenTasks
from handful.challenge.job import descendants, resident
from handful.challenge.plan import Deadline, Result, RunPlan

from .attacks import FORGERIES, HOGS, QUIET, ROWS, SAVES, SETUP, STREAMS, page
from .conftest import QUICK, SMALL, Arena, blobs, needs_walls, source, tasks_of

pytestmark = needs_walls


def alive(arena: Arena) -> set[int]:
    """The processes of the arena's sandbox; none between jobs where each job has a sandbox of its own."""
    return set(descendants(arena.session.pid)) if arena.session.isolation == "strong" else set()


def lines(log: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in log.splitlines() if "=" in line)


PROBE = """
import ctypes, gc, json, socket, subprocess, traceback
libc = ctypes.CDLL(None, use_errno=True)
found = {}

def probe(name):
    def run(action):
        if ONLY and name not in ONLY:
            return
        try:
            value = action()
            found[name] = "ESCAPED " + repr(value)[:200] if value else "contained"
        except BaseException as error:
            found[name] = "contained " + type(error).__name__
    return run

def syscall(*arguments):
    ctypes.set_errno(0)
    return libc.syscall(*arguments) >= 0

def attack(secret, port, abstract, evaluator):
    @probe("labels on disk")
    def _(): return open(secret).read()
    @probe("home folders")
    def _(): return [p for p in ("/root/.bashrc", "/home", "/etc/shadow", "/etc/passwd", "/var", "/mnt") if os.path.exists(p)]
    @probe("frames of the caller")
    def _():
        frame, names = sys._getframe(), []
        while frame:
            names += [n for n, v in frame.f_locals.items() if ("quer" in n or "answer" in n or "truth" in n) and hasattr(v, "__len__")]
            frame = frame.f_back
        return names
    @probe("objects of the evaluator")
    def _(): return [type(o).__name__ for o in gc.get_objects() if type(o).__name__ in ("HiddenTasks", "RunPlan", "Episode", "SandboxLearner")]
    @probe("secret in memory")
    def _(): return [1 for o in gc.get_objects() if isinstance(o, dict) and ("secret" in o or "query_labels" in o) and o is not globals() and type(o.get("secret")) is bytes]
    @probe("TCP")
    def _(): return socket.create_connection(("127.0.0.1", port), 2)
    @probe("UDP")
    def _(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port))
    @probe("netlink")
    def _(): return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    @probe("abstract socket of the machine")
    def _():
        s = socket.socket(socket.AF_UNIX); s.connect("\\0" + abstract); return True
    @probe("other processes")
    def _(): return [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (os.getpid(), 1)]
    @probe("the evaluator's /proc")
    def _(): return open(f"/proc/{evaluator}/environ").read() or os.path.exists(f"/proc/{evaluator}")
    @probe("signals to the evaluator")
    def _(): os.kill(evaluator, 0); return evaluator not in (os.getpid(), 1)
    @probe("ptrace")
    def _(): return syscall(101, 16, os.getppid() or 1, 0, 0) or syscall(101, 0, 0, 0, 0)
    @probe("process_vm_readv")
    def _(): return syscall(310, 1, 0, 0, 0, 0, 0)
    @probe("new user namespace")
    def _(): return syscall(272, 0x10000000)
    @probe("new mount namespace")
    def _(): return syscall(272, 0x00020000)
    @probe("clone with namespace")
    def _(): return syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
    @probe("mount")
    def _(): return libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0
    @probe("remount")
    def _(): return libc.mount(b"none", b"/usr", None, 32 | 4096, None) == 0
    @probe("BPF, keys, io_uring, perf")
    def _(): return [n for n in (321, 248, 250, 425, 298, 323, 319) if syscall(n, 0, 0, 0, 0, 0)]
    @probe("x32 calls")
    def _(): return syscall(0x40000000 + 272, 0x10000000)
    @probe("chroot")
    def _(): os.chroot("/tmp"); return True
    @probe("becoming root")
    def _(): os.setuid(0); return True
    @probe("set-uid programs")
    def _(): return subprocess.run(["/bin/su", "-c", "id"], capture_output=True, timeout=5).stdout
    @probe("writing the submission")
    def _(): open(os.path.join(os.path.dirname(__file__), "x"), "w"); return True
    @probe("writing the interpreter")
    def _(): open(os.path.join(os.path.dirname(os.__file__), "x"), "w"); return True
    @probe("writing torch")
    def _(): open(os.path.join(os.path.dirname(torch.__file__), "x"), "w"); return True
    @probe("writing our code")
    def _(): open("/opt/handful/handful/challenge/protocol.py", "a"); return True
    @probe("writing /")
    def _(): open("/x", "w"); return True
    @probe("writing saved files")
    def _(): open("/saved/x", "w"); return True
    @probe("device nodes")
    def _(): os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)); return True
    @probe("disks")
    def _(): return [d for d in os.listdir("/dev") if d.startswith(("sd", "vd", "nvme", "mem", "kmem", "kvm"))]
    @probe("environment")
    def _(): return [k for k in os.environ if "SECRET" in k or "TOKEN" in k or k in ("PWD", "OLDPWD", "SHELL")]
    @probe("environment of init")
    def _(): return "HANDFUL_SECRET" in open("/proc/1/environ").read()
    @probe("descriptors")
    def _():
        names = {}
        for fd in os.listdir("/proc/self/fd"):
            try: names[fd] = os.readlink("/proc/self/fd/" + fd)
            except OSError: pass
        return [v for k, v in names.items() if not (v.startswith("pipe:") or v == "/dev/null" or v.startswith("/proc"))] or len(names) > 6
    @probe("raising limits")
    def _():
        import resource
        resource.setrlimit(resource.RLIMIT_NPROC, (10**6, 10**6)); return True
    @probe("kernel settings")
    def _(): open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/x"); return True
    @probe("sysrq")
    def _(): open("/proc/sysrq-trigger", "w").write("h"); return True
    for name, code in QUIET:
        probe(name)(lambda code=code: eval(code, globals()))
    print()
    for name, value in found.items():
        print(f"{name}={value}")
"""
PROBE += SETUP + f"\nQUIET = {[(name, code) for name, _, code in QUIET]!r}\n"


@pytest.fixture(scope="module")
def probed(arena: Arena, tmp_path_factory):
    """All quiet attacks in one run, with real targets: a file, two listeners, a secret in the environment."""
    secret = tmp_path_factory.mktemp("hidden") / "labels.csv"
    secret.write_text("the truth")
    secret.chmod(0o644)
    tcp = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    abstract = f"handful-test-{os.getpid()}"
    local.bind("\0" + abstract)
    local.listen(1)
    os.environ["HANDFUL_SECRET"] = "in the evaluator's environment"
    call = f"attack({str(secret)!r}, {tcp.getsockname()[1]}, {abstract!r}, {os.getpid()})"
    try:
        text = source(top="ONLY = None\n" + PROBE, fit=f"{call}\nreturn _old_fit(self, support_set)")
        result, failure = arena.attempt(text)
        yield result, failure, lines(result.test_log)
    finally:
        del os.environ["HANDFUL_SECRET"]
        tcp.close()
        local.close()


def test_every_quiet_attack_is_contained(probed):
    _, failure, found = probed
    assert failure is None, failure
    probed_rows = {attack for attack, _, test in ROWS if test == "test_every_quiet_attack_is_contained"}
    assert set(found) == probed_rows, "the table's probes are those that ran"
    assert {name: value for name, value in found.items() if not value.startswith("contained")} == {}


def test_the_table_of_attacks_is_up_to_date_and_long():
    written = (Path(__file__).resolve().parents[2] / "docs/settings/challenge-walls.md").read_text()
    assert written == page(), "make it anew: python -m tests.challenge.attacks > docs/settings/challenge-walls.md"
    assert len({attack for attack, _, _ in ROWS}) == len(ROWS) >= 140


def test_every_row_of_the_table_names_a_test_that_exists():
    exist: set[str] = set()

    class Collected:
        def pytest_collection_modifyitems(self, items) -> None:
            exist.update(item.name for item in items)

    here = Path(__file__)
    files = [str(here), str(here.with_name("test_evaluate.py"))]
    plain = ["--collect-only", "-o", "addopts=", "-s", *(f"-pno:{name}" for name in ("terminal", "cacheprovider"))]
    assert pytest.main([*plain, *files], plugins=[Collected()]) == 0 and len(exist) > 100
    assert [row for row in ROWS if row[2] not in exist] == []


def test_the_probes_do_find_what_is_there_without_walls(run, tmp_path):
    """Positive control: the harmless ones of the same probes, run in trusted mode, see the machine."""
    secret = tmp_path / "labels.csv"
    secret.write_text("the truth")
    names = ["labels on disk", "home folders", "TCP", "UDP", "other processes", "the evaluator's /proc"]
    names += ["writing the submission"]
    names += ["page cache: preadv2 with RWF_NOWAIT", "flock on a shared file", "record lock on a shared file"]
    names += ["inotify on shared folders", "uncounted memory: shared anonymous mapping", "larger send buffer"]
    names += ["uncounted memory: memfd_create", "other CPUs", "not first in line for the kernel's killer", "IPv6"]
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        call = f"attack({str(secret)!r}, {tcp.getsockname()[1]}, 'none', {os.getpid()})"
        top = f"ONLY = {names!r}\n{PROBE}"
        text = source(top=top, fit=f"{call}\nreturn _old_fit(self, support_set)")
        found = lines(run(text, trust=True, tasks_per_dataset=1).test_log)
    assert [name for name in names if not found[name].startswith("ESCAPED")] == []


def test_training_data_are_not_there_in_meta_test(run):
    look = "print('train=%s' % os.path.exists('/train'))"
    result = run(source(meta_fit=look + "; return MyLearner()", fit=look + "; return _old_fit(self, support_set)"))
    assert result.failure is None, result.failure
    assert (lines(result.train_log)["train"], lines(result.test_log)["train"]) == ("True", "False")


def test_a_submission_that_patches_the_evaluators_modules_scores_what_it_answers(arena):
    text = source(
        top="""
        for name, module in list(sys.modules.items()):
            if name.startswith("_handful_") or name == "__main__":
                for key in ("check_answer", "recalls", "normalised_accuracy", "expect_silence"):
                    setattr(module, key, lambda *a, **k: 1.0)
        """,
        predict="return np.zeros(len(X), int)",
    )
    result, failure = arena.attempt(text)
    assert failure is None and result.score == pytest.approx(0.0)


def test_the_seed_that_a_submission_sees_does_not_give_the_tasks(run, hidden, sets):
    text = source(
        fit="""
        frame = sys._getframe()
        while frame:
            if "job" in frame.f_locals:
                print("seed=%d" % frame.f_locals["job"]["seed"])
            frame = frame.f_back
        import hashlib
        print("support=" + hashlib.sha256((support_set[0] * 255).round().byte().permute(0, 2, 3, 1)
              .flatten(1).sort(0).values.numpy().tobytes()).hexdigest())
        return _old_fit(self, support_set)
        """
    )
    import hashlib

    found = lines(run(text, tasks_per_dataset=1, secret=b"q").test_log)

    def mark(images: np.ndarray) -> str:
        return hashlib.sha256(np.sort(images.reshape(len(images), -1), 0).tobytes()).hexdigest()

    from handful.challenge import seeds

    def drawn(name: str, seed: int, i: int) -> np.ndarray:
        return hidden[name].support(hidden[name].draw(seed, i)).images

    true = [mark(drawn(name, seeds.derive(b"q", "tasks", name), 0)) for name in sets]
    assert found["support"] in true, "the mark of the right task is recognised"
    visible = int(found["seed"])
    guesses = [mark(drawn(name, seed, i)) for name in sets for seed in (visible, *range(20)) for i in range(3)]
    assert found["support"] not in guesses


REMEMBER = """
import builtins, socket, subprocess
PLACES = ["/tmp/mark", "/dev/shm/mark", "/var/tmp/mark", "/submission/mark", "/saved/mark", "/tmp/save/mark", "/run/mark"]

def search():
    seen = []
    if getattr(builtins, "mark", None): seen.append("global")
    if os.path.exists("/saved/old") and os.stat("/saved/old").st_atime > 100: seen.append("time of access")
    if getattr(torch, "mark", None): seen.append("module")
    for place in PLACES:
        if os.path.exists(place): seen.append(place)
    for name in ("\\0mark", "/tmp/mark.sock"):
        try:
            s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect(name); seen.append("daemon " + name[1:])
        except OSError: pass
    try:
        from multiprocessing import shared_memory
        shared_memory.SharedMemory("mark"); seen.append("posix shared memory")
    except Exception: pass
    import ctypes
    libc = ctypes.CDLL(None)
    if libc.shmget(4711, 16, 0o666) >= 0: seen.append("sysv shared memory")
    others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
    if others: seen.append("processes")
    return seen

def leave():
    builtins.mark = torch.mark = True
    if os.path.exists("/saved/old"): open("/saved/old").read()
    for place in PLACES:
        try: open(place, "w").write("x")
        except OSError: pass
    import ctypes
    ctypes.CDLL(None).shmget(4711, 16, 0o1666)
    try:
        from multiprocessing import shared_memory, resource_tracker
        m = shared_memory.SharedMemory("mark", create=True, size=16)
        resource_tracker.unregister(m._name, "shared_memory")
    except Exception: pass
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import signal
            for n in range(1, 32):
                try: signal.signal(n, signal.SIG_IGN)
                except OSError: pass
            s = socket.socket(socket.AF_UNIX); s.bind("\\0mark"); s.listen(5)
            time.sleep(30)
        os._exit(0)
    os.wait()
    time.sleep(0.1)
"""


def test_nothing_is_remembered_from_task_to_task(arena):
    text = source(top=REMEMBER, fit="print('seen=%r' % search()); leave(); return _old_fit(self, support_set)")
    result, failure = arena.attempt(text, repeat=3)
    assert failure is None, failure
    assert [line for line in result.test_log.splitlines() if line.startswith("seen")] == ["seen=[]"] * 3


SOCKETS = """
import array, socket

def names_left():
    return sorted(line.split()[-1] for line in open("/proc/net/unix") if "memory-" in line)

def leave_names(data):
    one, two = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.bind("\\\\0memory-one-" + data)
    two.bind("\\\\0memory-two-" + data)
    one.connect("\\\\0memory-two-" + data)
    two.connect("\\\\0memory-one-" + data)
    # Each is queued inside the other: nothing holds them but themselves.
    for sender in (one, two):
        rights = array.array("i", [one.fileno(), two.fileno()])
        sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"""


def test_sockets_queued_inside_each_other_do_not_reach_the_next_task(arena):
    fit = "print('left=%r' % names_left()); leave_names('data'); return _old_fit(self, support_set)"
    result, failure = arena.attempt(source(top=SOCKETS, fit=fit), repeat=4)
    assert failure is None, failure
    assert [line for line in result.test_log.splitlines() if line.startswith("left")] == ["left=[]"] * 4


def test_nothing_is_left_running_after_a_job(arena):
    before = alive(arena)
    _, failure = arena.attempt(source(top=REMEMBER, fit="leave(); return _old_fit(self, support_set)"))
    assert failure is None and alive(arena) == before


def test_a_fork_bomb_stays_small_and_ends_with_its_task(arena):
    text = source(
        fit="""
        children = 0
        try:
            while children < 5000:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                children += 1
        except OSError as error:
            print("children=%d" % children)
        return _old_fit(self, support_set)
        """
    )
    before = alive(arena)
    result, failure = arena.attempt(text)
    assert failure is None and int(lines(result.test_log)["children"]) <= SMALL.processes
    assert alive(arena) == before


def test_an_endless_fork_bomb_is_ended_by_the_clock(arena):
    text = source(
        fit="""
        def bomb():
            while True:
                try: os.fork()
                except OSError: pass
        bomb()
        """
    )
    _, failure = arena.attempt(text, replace(QUICK, fit=1.0))
    assert failure.code in ("TIMEOUT_FIT", "OOM", "PROTOCOL", "CRASH") and failure.phase == "fit"
    result, failure = arena.attempt(source())
    assert failure is None and result.score is not None, "the next submission is not disturbed"


def test_a_memory_bomb_in_one_process_is_oom(arena):
    _, failure = arena.attempt(source(fit="x = [np.ones(10**7) for _ in range(100000)]"))
    assert (failure.code, failure.phase) == ("OOM", "fit")
    _, failure = arena.attempt(source(fit="torch.ones(10**10)"))
    assert (failure.code, failure.phase) == ("OOM", "fit")


def test_an_image_of_a_few_kilobytes_that_fills_the_memory_is_oom(arena):
    """50 MB of rows, 50 kB packed, 1.6 GB in colour: decoding it is the submission's own doing, and its own end."""
    text = source(
        fit="""
        import io, struct, zlib
        from PIL import Image
        side = 20_000
        rows = zlib.compress(bytes(side * (side // 8 + 1)), 1)
        piece = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        head = piece(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
        bomb = b"\\x89PNG\\r\\n\\x1a\\n" + head + piece(b"IDAT", rows) + piece(b"IEND", b"")
        Image.MAX_IMAGE_PIXELS = None
        np.array(Image.open(io.BytesIO(bomb)).convert("RGBA"))
        return _old_fit(self, support_set)
        """
    )
    _, failure = arena.attempt(text, replace(QUICK, fit=60.0))
    assert (failure.code, failure.phase) == ("OOM", "fit"), failure


def test_a_memory_bomb_in_many_processes_is_oom(arena):
    text = source(
        fit="""
        for _ in range(12):
            if os.fork() == 0:
                x = np.ones(15 * 10**6)
                time.sleep(60)
        time.sleep(60)
        """
    )
    _, failure = arena.attempt(text)
    assert (failure.code, failure.phase) == ("OOM", "fit") and "together" in failure.message


@pytest.mark.parametrize("how", sorted(HOGS))
def test_memory_that_a_count_of_first_threads_misses_is_oom(arena, how):
    _, failure = arena.attempt(source(fit=HOGS[how]), replace(QUICK, fit=60.0))
    assert (failure.code, failure.phase) == ("OOM", "fit") and "together" in failure.message


def test_page_tables_are_counted():
    program = (
        "import mmap, time\n"
        "kept = [mmap.mmap(-1, 1 << 30, flags=0x4022, prot=1) for _ in range(8)]\n"
        "for m in kept:\n    m.madvise(15)\n    for i in range(0, 1 << 30, 1 << 21): m[i]\n"
        "print('ready', flush=True); time.sleep(30)"
    )
    with subprocess.Popen([os.sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            assert resident(process.pid, 10**12) > 16 << 20, "four thousand tables of 4 kB"
        finally:
            process.kill()


def test_forked_processes_that_share_their_pages_are_not_oom(arena):
    text = source(
        fit="""
        for _ in range(10):
            if os.fork() == 0:
                time.sleep(1.0)
                os._exit(0)
        time.sleep(0.5)
        return _old_fit(self, support_set)
        """
    )
    _, failure = arena.attempt(text)
    assert failure is None, failure


def test_disk_and_inode_fillers_hit_the_end_of_their_own_tmp(arena):
    text = source(
        fit="""
        written = files = 0
        try:
            for i in range(100):
                with open("/tmp/big%d" % i, "wb") as f:
                    for _ in range(8):
                        written += f.write(b"x" * (1 << 20))
        except OSError as error: print("disk=%d %d" % (written >> 20, error.errno))
        import shutil
        for name in os.listdir("/tmp"):
            if name.startswith("big"): os.remove("/tmp/" + name)
        try:
            for i in range(20000):
                open("/tmp/f%d" % i, "w").close(); files = i
        except OSError as error: print("inodes=%d %d" % (files, error.errno))
        try:
            open("/dev/shm/x", "wb").write(b"x" * (64 << 20))
        except OSError as error: print("shm=%d" % error.errno)
        return _old_fit(self, support_set)
        """
    )
    result, failure = arena.attempt(text)
    assert failure is None, failure
    found = lines(result.test_log)
    assert int(found["disk"].split()[0]) <= SMALL.tmp_bytes >> 20
    # bubblewrap has no option for inodes: without root only the kernel's own limit and the clock hold.
    assert arena.session.isolation == "userns" or int(found["inodes"].split()[0]) <= SMALL.inodes
    assert "shm" in found


def test_a_file_larger_than_its_limit_ends_the_process_or_the_write(arena):
    text = source(fit="open('/tmp/x', 'wb').write(b'x' * (30 << 20))")
    _, failure = arena.attempt(text)
    assert failure.code in ("FIT_ERROR", "CRASH")


@pytest.mark.parametrize("how", ["while True: pass", "time.sleep(1000)"], ids=["busy", "asleep"])
@pytest.mark.parametrize(
    ("where", "code"),
    [("top", "TIMEOUT_IMPORT"), ("load", "TIMEOUT_IMPORT"), ("fit", "TIMEOUT_FIT"), ("predict", "TIMEOUT_PREDICT")],
    ids=["import", "load", "fit", "predict"],
)
def test_whatever_never_ends_is_ended(arena, where, how, code):
    limits = replace(
        QUICK, load=1.0 if code == "TIMEOUT_IMPORT" else 120, fit=0.5 if where == "fit" else 120, predict=0.5
    )
    _, failure = arena.attempt(source(**{where: how}), limits)
    assert failure.code == code


def test_training_that_never_ends_is_ended(arena):
    _, _, failure = arena.training(source(meta_fit="time.sleep(1000)"), replace(QUICK, train=0.5))
    assert (failure.code, failure.phase) == ("TIMEOUT_TRAIN", "meta-train")
    _, _, failure = arena.training(source(save="time.sleep(1000)"), replace(QUICK, save=0.5))
    assert (failure.code, failure.phase) == ("TIMEOUT_SAVE", "save")


def test_the_whole_run_has_a_clock_of_its_own(run):
    result = run(
        source(fit="time.sleep(0.4); return _old_fit(self, support_set)"),
        times=replace(QUICK, total=4.0),
        tasks_per_dataset=20,
    )
    assert result.failure.code == "TIMEOUT_TOTAL" and result.score is None


def test_signals_that_are_ignored_do_not_help(arena):
    text = source(
        fit="""
        import signal
        for n in range(1, 65):
            try: signal.signal(n, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """
    )
    started = time.monotonic()
    _, failure = arena.attempt(text, replace(QUICK, fit=0.5))
    assert failure.code == "TIMEOUT_FIT" and time.monotonic() - started < 60


def test_stopping_or_killing_everything_in_sight_hurts_only_oneself(arena):
    text = source(
        fit="""
        import signal
        for sig in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM):
            for pid in (0, -1, 1, 2, os.getppid()):
                if pid not in (os.getpid(),):
                    try: os.kill(pid, sig)
                    except OSError: pass
        return _old_fit(self, support_set)
        """
    )
    _, failure = arena.attempt(text, replace(QUICK, fit=2.0))
    assert failure is None or failure.code in ("TIMEOUT_FIT", "CRASH", "OOM")
    assert arena.attempt(source())[1] is None, "the sandbox still works"


@pytest.mark.parametrize(
    ("predict", "code"),
    [
        ("return np.zeros((len(X), 3))", "BAD_SHAPE"),
        ("return np.zeros((len(X), 5, 1))", "BAD_SHAPE"),
        ("return np.zeros(len(X) - 1)", "BAD_SHAPE"),
        ("return np.zeros((0, 5))", "BAD_SHAPE"),
        ("return 3", "BAD_SHAPE"),
        ("return None", "BAD_DTYPE"),
        ("return np.array(['a'] * len(X))", "BAD_DTYPE"),
        ("return np.zeros((len(X), 5), complex)", "BAD_DTYPE"),
        ("return [[object()] * 5] * len(X)", "BAD_DTYPE"),
        ("return np.full((len(X), 5), np.nan)", "NAN"),
        ("return np.full((len(X), 5), np.inf)", "NAN"),
        ("return np.full((len(X), 5), 1e300)", "NAN"),
        ("return np.full(len(X), np.nan)", "NAN"),
        ("return np.full(len(X), 5)", "BAD_LABEL"),
        ("return np.full(len(X), -1)", "BAD_LABEL"),
        ("return np.full(len(X), 0.5)", "BAD_LABEL"),
        ("raise KeyError('x')", "PREDICT_ERROR"),
        ("sys.exit(0)", "PREDICT_ERROR"),
        ("os._exit(0)", "CRASH"),
        ("os.abort()", "CRASH"),
        ("import ctypes; ctypes.string_at(0)", "CRASH"),
    ],
)
def test_wrong_answers_have_their_code(arena, predict, code):
    _, failure = arena.attempt(source(predict=predict))
    assert failure.code == code and failure.phase == "predict"


@pytest.mark.parametrize(
    ("top", "code"),
    [
        ("raise ValueError('x')", "IMPORT_ERROR"),
        ("import nothing_like_this", "IMPORT_ERROR"),
        ("sys.exit(3)", "IMPORT_ERROR"),
        ("def (", "IMPORT_ERROR"),
    ],
)
def test_what_cannot_be_imported_is_an_import_error(arena, top, code):
    assert arena.attempt(source(top=top))[1].code == code
    assert arena.training(source(top=top))[2].code == code


def test_a_model_without_its_classes_is_an_import_error(arena):
    failure = arena.attempt("x = 1\n")[1]
    assert failure.code == "IMPORT_ERROR" and "MyMetaLearner" in failure.message
    assert arena.attempt(source(load="raise OSError('gone')"))[1].code == "LOAD_ERROR"
    assert arena.attempt(source(fit="raise ValueError('no')"))[1].code == "FIT_ERROR"
    assert arena.training(source(meta_fit="raise ValueError('no')"))[2].code == "TRAIN_ERROR"


def test_endless_output_is_bounded_and_ended(arena):
    _, failure = arena.attempt(source(fit="while True: print('x' * 1000)"))
    assert failure.code == "OUTPUT_LIMIT" and len(failure.log) <= SMALL.tail_bytes + 100


def test_output_below_the_limit_keeps_its_end(arena):
    result, failure = arena.attempt(source(fit="print('a' * 100000 + 'the end'); return _old_fit(self, support_set)"))
    assert failure is None and "the end" in result.test_log and len(result.test_log) < SMALL.tail_bytes + 100


@pytest.mark.parametrize("how", sorted(FORGERIES))
def test_forged_replies_are_protocol_errors(arena, how):
    _, failure = arena.attempt(source(fit=FORGERIES[how] + "\nreturn _old_fit(self, support_set)"))
    assert failure.code == "PROTOCOL", failure


PLATFORM = """
def forge():
    # Whatever a child that could not be confined would say, on every descriptor there is, and from its parent's words.
    for fd in range(3, 64):
        for said in (b"fail\\0\\0\\0\\0the platform", b"\\0", b"hf01" + bytes([1, 11, 0, 0]) + bytes(2040)):
            try: os.write(fd, said)
            except OSError: pass
    main = sys.modules["__main__"]
    for word in (b"fail", b"gone", b"done"):
        for name in dir(main):
            if isinstance(getattr(main, name), __import__("socket").socket):
                try: getattr(main, name).send(main.REPORT.pack(word, 0))
                except OSError: pass
"""


@pytest.mark.parametrize("where", ["top", "load", "fit", "predict"], ids=["import", "load", "fit", "predict"])
def test_a_submission_cannot_declare_the_platform_at_fault(arena, where):
    old = {"fit": "return _old_fit(self, support_set)", "predict": "return _old_predict(self, X)"}.get(where, "")
    if where == "top":
        text = source(top=PLATFORM + "\nforge()\n")
    else:
        text = source(top=PLATFORM, **{where: f"forge()\n{old}"})
    _, failure = arena.attempt(text)
    assert failure.code == "PROTOCOL", failure
    assert arena.attempt(source())[1] is None, "the sandbox still works"


@pytest.mark.parametrize("where", ["meta_fit", "save"])
def test_training_cannot_declare_the_platform_at_fault(arena, where):
    _, _, failure = arena.training(source(top=PLATFORM, **{where: "forge()"}))
    assert failure.code == "PROTOCOL", failure


def test_a_reply_with_more_than_was_asked_is_a_protocol_error(arena):
    text = source(
        predict="""
        a = np.zeros((len(X), 5), np.float32)
        os.write(4, sys.modules['_handful_protocol'].ChildReport(5, 0).pack() + a.tobytes() + b"more" * 1000)
        time.sleep(1)
        """
    )
    assert arena.attempt(text)[1].code == "PROTOCOL"


def test_closing_the_pipes_is_a_crash(arena):
    assert arena.attempt(source(fit="os.close(3); os.close(4); time.sleep(20)"))[1].code == "CRASH"


def test_a_pickle_in_save_stays_bytes(arena, tmp_path):
    marker = tmp_path / "marker"
    text = source(
        save=f"""
        import pickle
        class Evil:
            def __reduce__(self): return (os.system, ("touch {marker}",))
        pickle.dump(Evil(), open(path + "/weights.pickle", "wb"))
        os.makedirs(path + "/sub"); open(path + "/sub/two.txt", "w").write("two")
        """
    )
    saved, _, failure = arena.training(text)
    assert failure is None, failure
    assert sorted(p.relative_to(saved).as_posix() for p in saved.rglob("*") if p.is_file()) == [
        "sub/two.txt",
        "weights.pickle",
    ]
    assert not marker.exists() and b"touch" in (saved / "weights.pickle").read_bytes()


@pytest.mark.parametrize("what", sorted(SAVES))
def test_what_save_may_not_leave(arena, what):
    saved, _, failure = arena.training(source(save=SAVES[what]))
    assert (failure.code, failure.phase) == ("SAVE_ERROR", "save") and not saved.exists()


@pytest.mark.parametrize("what", sorted(STREAMS))
def test_forged_streams_of_files_are_refused(arena, what):
    text = source(
        save=f"""
        p = sys.modules["_handful_protocol"]
        p.write_all(4, p.ChildReport(3, 0).pack() + {STREAMS[what]} + p.pack_block(3))
        time.sleep(1)
        """
    )
    saved, _, failure = arena.training(text)
    assert failure.code in ("SAVE_ERROR", "PROTOCOL") and not saved.exists()
    assert not (arena.folder / "evil").exists() and not (arena.folder.parent / "evil").exists()


def test_the_watch_counts_shared_pages_once():
    program = "import os, time; x = bytearray(200 << 20)\nfor _ in range(4):\n    if os.fork() == 0: time.sleep(30); os._exit(0)\nprint('ready', flush=True); time.sleep(30)"
    with subprocess.Popen(
        [os.sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        try:
            assert resident(process.pid, 10**12) > 900 << 20, "the quick sum counts them each time"
            assert resident(process.pid, 1) < 400 << 20
        finally:
            os.killpg(process.pid, 9)


MEMORISER = """
import array, hashlib, socket
PORT = "USE_PORT"  # the name of a server outside; none for sockets that outlive their task
CHANNEL, PAGES, COUNT = USE_CHANNEL, "USE_PAGES", 4096  # bits, each in three pages far apart: the system drops and reads some by itself

def hold(sockets):
    # Each of the first two is queued inside the other, with all the rest: nothing holds them but themselves.
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for sender in (one, two):
        rights = array.array("i", [s.fileno() for s in (one, two, *sockets)])
        sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

def bits(data):
    return [i + k * COUNT for i in range(8 * len(data)) if data[i // 8] >> i % 8 & 1 for k in range(3)]

def load():
    if CHANNEL in ("/tmp", "/dev/shm"):
        return open(CHANNEL + "/store", "rb").read()
    if CHANNEL == "network" and PORT:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect("\\0" + PORT)
            line.shutdown(socket.SHUT_WR)
            return line.makefile("rb").read()
    if CHANNEL == "network":
        names = sorted(line.split()[-1][2:] for line in open("/proc/net/unix") if "@m" in line)
        last = names[-1][:4]
        return bytes.fromhex("".join(name.split("-")[2] for name in names if name.startswith(last)))
    if CHANNEL == "page cache":
        fd, seen = os.open(PAGES, os.O_RDONLY), []
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for i in range(3 * COUNT):
            try:
                seen.append(os.preadv(fd, [bytearray(1)], 4096 * i, os.RWF_NOWAIT) == 1)
            except BlockingIOError:
                seen.append(False)
        votes = [seen[i] + seen[i + COUNT] + seen[i + 2 * COUNT] > 1 for i in range(COUNT)]
        return bytes(sum(bit << k for k, bit in enumerate(votes[i : i + 8])) for i in range(0, COUNT, 8))
    return b""

def keep(data):
    if CHANNEL in ("/tmp", "/dev/shm"):
        if os.path.exists(CHANNEL + "/store"):
            open(CHANNEL + "/store", "r+b").write(data)
        else:
            open(CHANNEL + "/store", "wb").write(data)
            os.chmod(CHANNEL + "/store", 0o666)
    if CHANNEL == "network" and PORT:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect("\\0" + PORT)
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            line.makefile("rb").read()
        return
    if CHANNEL == "network":
        names = [line.split()[-1][2:6] for line in open("/proc/net/unix") if "@m" in line]
        turn, sockets = max(map(int, names), default=0) + 1, []
        for i in range(0, len(data), 40):
            sockets.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            sockets[-1].bind("\\0m%04d-%02d-%s" % (turn, i // 40, data[i : i + 40].hex()))
        hold(sockets)
    if CHANNEL == "page cache":
        fd = os.open(PAGES, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for i in bits(data):
            os.pread(fd, 1, 4096 * i)

def key(x):
    return hashlib.sha256(x.numpy().tobytes()).digest()[:3]

def remember(support_set):
    # Images known to be of one class, over all tasks that were ever seen.
    X, y, _, ways, _ = support_set
    try:
        raw = load()
    except (OSError, IndexError, ValueError):
        raw = b""
    group = {raw[i : i + 3]: raw[i + 3] for i in range(0, len(raw) - 3, 4) if raw[i + 3]}
    for c in range(ways):
        keys = [key(x) for x in X[y == c]]
        old = {group[k] for k in keys if k in group}
        name = min(old) if old else min(set(range(1, 256)) - set(group.values()))
        group = {k: name if g in old else g for k, g in group.items()} | {k: name for k in keys}
    if CHANNEL:
        try:
            keep(b"".join(k + bytes([g]) for k, g in sorted(group.items())))
        except OSError:
            pass
    return group, {group[key(x)]: int(label) for x, label in zip(X, y)}
"""


def memoriser(channel: str, pages: str, port: str) -> str:
    return source(
        top=MEMORISER.replace("USE_CHANNEL", repr(channel)).replace("USE_PAGES", pages).replace("USE_PORT", port),
        fit="p = _old_fit(self, support_set); p.memory = remember(support_set); return p",
        predict="scores = torch.from_numpy(_old_predict(self, X))\ngroup, known = self.memory\n"
        "for i, x in enumerate(X):\n"
        "    if group.get(key(x)) in known: scores[i, known[group[key(x)]]] += 1e6\n"
        "return scores.numpy()",
    )


def remembering() -> str:
    """The abstract name of a server that keeps what it was sent last, and gives it to whoever sends nothing."""
    name = f"handful-remembers-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name)
    listener.listen()

    def serve() -> None:
        kept = b""
        while True:
            with listener.accept()[0] as line:
                sent = line.makefile("rb").read()
                kept = sent or kept
                line.sendall(b"" if sent else kept)

    threading.Thread(target=serve, daemon=True).start()
    return name


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    # Patterns drowned in noise: the learner alone is weak, and a memory of earlier supports would know every image.
    base = tmp_path_factory.mktemp("memory")
    shared, saved = base / "shared", base / "saved"
    shared.mkdir()
    saved.mkdir()
    with open(shared / "pages", "wb") as file:
        file.write(os.urandom(3 * 4096 * 4096))
        # A page that is not on disk yet cannot be dropped.
        os.fsync(file.fileno())
    for folder in (base, *base.parents):
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(0o755)
    usual = walls.package_folders()
    weak = {"weak": blobs(5, classes=6, each=16, size=4, noise=160)}
    tasks = tasks_of(weak, ways=(4, 6), shots=(6, 8), queries=8)
    done: dict[tuple[str, tuple[str, ...]], np.ndarray] = {}
    server = remembering()

    def score(channel: str, without: tuple[str, ...] = ()) -> np.ndarray:
        if (channel, without) not in done:
            code, result = Path(tempfile.mkdtemp(prefix="code-", dir=base)), Result()
            code.chmod(0o755)
            # Where every task starts a sandbox, the kernel clears away the sockets of the last; a server remembers.
            port = server if walls.detect() == "userns" and channel == "network" else ""
            (code / "model.py").write_text(memoriser(channel, str(shared / "pages"), port))
            # Without root a task costs seconds, and ten remember enough.
            n = 20 if walls.detect() == "strong" else 10
            plan = RunPlan(tasks_per_dataset=n, secret=b"memory", times=QUICK, limits=SMALL, warm=(), without=without)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(walls, "package_folders", lambda: (*usual, str(shared)))
                if without:  # a folder that tasks share lies on the machine's own disk, whose files are not a run's
                    patch.setattr(sandbox_job, "files_made", lambda pid: 0)
                meta_test(code, saved, HiddenTasks.of(tasks, plan), plan, Deadline(900), result)
            done[channel, without] = result.frame["normalised"].to_numpy()
        return done[channel, without]

    return score


CHANNELS = ("/tmp", "/dev/shm", "network", "page cache")


@pytest.mark.parametrize("wall", CHANNELS)
def test_a_memorising_submission_gains_nothing(memory, wall):
    assert np.array_equal(memory(""), memory(wall)), "equal tasks, equal answers: nothing was remembered"


@pytest.mark.parametrize("wall", CHANNELS)
def test_a_memorising_submission_gains_much_without_the_one_wall(memory, wall):
    alone, free = memory(""), memory(wall, (wall,))
    print(f"{wall}: {alone.mean():.3f} with the wall, {free.mean():.3f} without")
    assert free.mean() > alone.mean() + 0.1, (free.mean(), alone.mean())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: everything runs without it")
def test_the_same_attacks_are_contained_without_root():
    as_nobody(
        "quiet or remembered or queued_inside or platform or first_threads or fork_bomb_stays or many_processes or stopping "
        "or two_reports or pickle"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: everything runs without it")
def test_each_wall_is_what_stops_the_memorising_submission_without_root_too():
    as_nobody("memorising and not without_root")


def as_nobody(chosen: str) -> None:
    """Run tests of this file in the user-namespace form, as the user nobody, with an interpreter that this user can read."""
    site = Path(np.__file__).resolve().parents[1]
    here = Path(__file__).resolve()
    path = f"{here.parents[2] / 'src'}{os.pathsep}{site}"
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3"]
    environment = {"PYTHONPATH": path, "HOME": "/tmp", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    look = [*nobody, "-c", "import torch, numpy, pytest; from handful.challenge.walls import detect; print(detect())"]
    seen = subprocess.run(look, env=environment, capture_output=True, text=True, cwd="/")
    if seen.stdout.strip() != "userns":
        pytest.skip(f"needs an interpreter for the user nobody: {seen.stderr.strip()[-200:]}")
    base = tempfile.mkdtemp(prefix="handful-nobody-")
    os.chmod(base, 0o777)
    options = ["-o", "addopts=", "-p", "no:cacheprovider", f"--basetemp={base}/t", "-rP", "-k", chosen]
    command = [*nobody, "-m", "pytest", *options, str(here)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=here.parents[2])
    shutil.rmtree(base, ignore_errors=True)
    print(*(line for line in done.stdout.splitlines() if "without" in line and "with the wall" in line), sep="\n")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout
