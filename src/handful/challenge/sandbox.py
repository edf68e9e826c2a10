"""Starting submitted code where it can reach nothing: bubblewrap in its strong form (root) or its user-namespace form.

A Session is one sandbox with its mounts. Each job runs in a process of its own: as root, forked from a preloaded parent
into fresh namespaces under an unused user; without root, in a fresh sandbox; ``none`` (one's own code) has no walls.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from handful.challenge import child as child_program
from handful.challenge import confine, seccomp, share, walls
from handful.challenge.failures import Failure
from handful.challenge.job import SandboxJob
from handful.errors import Missing

PRELOAD = ("numpy", "torch", "torch.nn.functional", "torch.optim")
_INSIDE = "/opt/handful"
# The preloaded parent and the files that it has read, which a cgroup counts too.
_PARENT_BYTES = 2 << 30
# CUDA reserves addresses for all memory that there is, on the machine and its devices, before it uses any.
_CARD_ADDRESSES = 1 << 46


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a job may use. Memory is the sum over its processes; /tmp and /dev/shm come on top."""

    memory_bytes: int = 8 << 30
    tmp_bytes: int = 2 << 30
    shm_bytes: int = 256 << 20
    inodes: int = 20_000
    file_bytes: int = 2 << 30
    open_files: int = 512
    processes: int = 128
    address_slack: int = 16 << 30
    saved_files: int = 200
    saved_bytes: int = 1 << 30
    output_bytes: int = 64 << 20
    tail_bytes: int = 64 << 10


@dataclass
class Session:
    """One sandbox with its mounts (inside -> outside), ready to run jobs one after another.

    The mounts named in ``copied`` are given as copies in memory: of a file on disk, whoever shares it can see which parts
    were read. ``hidden`` are files and folders of the interpreter that are not shown. ``devices`` are the numbers of the
    NVIDIA devices that are shown. ``without`` names walls that a test takes down.
    """

    isolation: walls.Isolation
    mounts: Mapping[str, Path]
    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    preload: tuple[str, ...] = PRELOAD
    together: bool = False
    copied: tuple[str, ...] = ()
    hidden: tuple[Path, ...] = ()
    devices: tuple[int, ...] = ()
    without: tuple[str, ...] = ()
    _cpus: share.Cpus | None = None
    _cgroup: share.Cgroup | None = None
    _process: subprocess.Popen[bytes] | None = None
    _control: socket.socket | None = None
    _scratch: str = ""
    _shared: str = ""
    _errors: Any = None
    _reason: str = ""

    def __enter__(self) -> Session:
        if self.isolation != "none":
            strongest = walls.detect()
            if self.isolation != strongest:
                raise Missing(
                    f"this user can contain submitted code only in the {strongest} form, not {self.isolation}"
                )
        if self.together and self.isolation != "none":
            raise ValueError("jobs share a process only without isolation")
        if self.isolation != "none":
            walls.warm()
            self._cpus = share.Cpus(self.threads)
            room = self.limits.memory_bytes + self.limits.tmp_bytes + self.limits.shm_bytes + _PARENT_BYTES
            room += sum(size for mount in self.copied for _, size in walls.tree(self.mounts[mount]))
            self._cgroup = share.Cgroup.make(room, self.limits.processes + 8, self.threads)
        if self.isolation != "userns":
            self._launch()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def place(self, inside: str) -> str:
        """Where a mount is for the job: its place inside, or the real one where there are no walls."""
        return str(self.mounts[inside]) if self.isolation == "none" else inside

    @property
    def pid(self) -> int:
        """The outermost process of the sandbox."""
        assert self._process is not None
        return self._process.pid

    def _command(self, control: int, filter_fd: int | None, opened: list[int]) -> list[str]:
        """The whole command; descriptors of files that it copies are added to ``opened``."""
        here = Path(child_program.__file__).resolve()
        own = str(walls.PACKAGE.parent) if self.isolation == "none" else _INSIDE
        paths = os.pathsep.join((*walls.package_folders(), own))
        if self.isolation == "none":
            return [sys.executable, "-I", str(here), str(control), "none", paths, *self.preload]
        program = shutil.which("bwrap") or "bwrap"
        # As root the jobs are later in line than their parent, which is not to be ended for what they do.
        command = share.launcher(self._cgroup, 500 if self.isolation == "strong" else 1000)
        command += walls.bubblewrap(self.isolation, program, self.without) + walls.cards(self.devices)
        for place, size in (("/tmp", self.limits.tmp_bytes), ("/dev/shm", self.limits.shm_bytes)):
            if self.isolation == "userns" and place in self.without:
                command += ["--bind", self._common(place), place]
            else:
                command += ["--perms", "1777", "--size", str(size), "--tmpfs", place]
        command += ["--remount-ro", "/dev", "--chdir", "/tmp"]
        if self.isolation == "userns":
            command += ["--remount-ro", "/proc"]
        roots = walls.interpreter_roots()
        shown = {root: root for root in roots} | {f"{confine.KEPT}{root}": root for root in walls.covered(roots)}
        shown[f"{_INSIDE}/handful"] = str(walls.PACKAGE)
        shown |= {inside: str(outside) for inside, outside in self.mounts.items() if inside not in self.copied}
        for parent in sorted({str(parent) for inside in shown for parent in Path(inside).parents} - {"/"}):
            command += ["--perms", "0755", "--dir", parent]
        for inside, outside in shown.items():
            command += ["--ro-bind", outside, inside]
        command += walls.curtains(self.hidden, roots)
        for inside in self.copied:
            command += walls.in_memory(self.mounts[inside], inside, opened)
        for name, value in self.environment().items():
            command += ["--setenv", name, value]
        if filter_fd is not None:
            command += ["--seccomp", str(filter_fd)]
        program_inside = f"{_INSIDE}/handful/challenge/child.py"
        command += ["--remount-ro", "/", "--", sys.executable, "-I", program_inside, str(control)]
        return [*command, self.isolation, paths, *self.preload]

    def _common(self, place: str) -> str:
        """A folder that all tasks of the session share, where a test takes down the wall between their own."""
        self._shared = self._shared or tempfile.mkdtemp(prefix="handful-common-")
        folder = Path(self._shared) / place.strip("/").replace("/", "-")
        folder.mkdir(exist_ok=True)
        return str(folder)

    def environment(self) -> dict[str, str]:
        """The whole environment of submitted code."""
        threads = str(self.threads)
        home = self._scratch or "/tmp"
        # Within the walls there are no other devices, so that these are the first.
        seen = self.devices if self.isolation == "none" else range(len(self.devices))
        return {
            **dict.fromkeys(("HOME", "TMPDIR"), home),
            **dict.fromkeys(("USER", "LOGNAME"), "sandbox"),
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, seen)),
            "LANG": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }

    def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        passed = [theirs.fileno()]
        filter_fd = None
        if self.isolation == "none":
            self._scratch = self._scratch or tempfile.mkdtemp(prefix="handful-trusted-")
        if self.isolation == "userns":
            filter_fd = os.memfd_create("filter", 0)
            os.write(filter_fd, seccomp.build(without=self.without))
            os.lseek(filter_fd, 0, os.SEEK_SET)
            passed.append(filter_fd)
        self._errors = tempfile.TemporaryFile()
        opened: list[int] = []
        try:
            command = self._command(theirs.fileno(), filter_fd, opened)
            with self._cpus.pinned() if self._cpus is not None else contextlib.nullcontext():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._errors,
                    stderr=self._errors,
                    env=self.environment() if self.isolation == "none" else {},
                    pass_fds=passed + opened,
                    start_new_session=True,
                    cwd=self._scratch or "/",
                )
        finally:
            theirs.close()
            for fd in (*opened, *([filter_fd] if filter_fd is not None else [])):
                os.close(fd)
        self._control = ours
        if self._report(300.0)[0] != b"redy":
            raise self._broken("did not start")

    def _broken(self, what: str) -> Failure:
        """The platform's failure; only before submitted code is imported can there be one in a sandbox."""
        self._errors.seek(0)
        said = self._reason or self._errors.read()[-2000:].decode("utf-8", "replace")
        self.close()
        return Failure("PLATFORM", "start", f"the sandbox {what}: {said.strip()}")

    def _report(self, patience: float) -> tuple[bytes, int]:
        assert self._control is not None
        self._control.settimeout(patience)
        try:
            data = self._control.recv(child_program.REPORT.size + child_program.REASON_BYTES)
        except (TimeoutError, OSError):
            data = b""
        if len(data) < child_program.REPORT.size:
            return b"gone", 0
        word, code = child_program.REPORT.unpack_from(data)
        self._reason = data[child_program.REPORT.size :].decode("utf-8", "replace")
        return word, code

    def run(self, kind: str, seed: int, **paths: str) -> SandboxJob:
        """Start a job (``train`` or ``task``) and give the evaluator's end of its pipes."""
        if self.isolation == "userns":
            self._launch()
        assert self._control is not None
        save = os.path.join(tempfile.mkdtemp(dir=self._scratch), "save") if self._scratch else "/tmp/save"
        job = {
            "kind": kind,
            "isolation": self.isolation,
            "together": self.together,
            "uid": 1_000_000_000 + secrets.randbelow(1_000_000_000),
            "seed": seed,
            "threads": self.threads,
            "environment": self.environment(),
            "limits": asdict(self.limits) | ({"address_slack": _CARD_ADDRESSES} if self.devices else {}),
            "kit": str(walls.PACKAGE / "challenge/kit")
            if self.isolation == "none"
            else f"{_INSIDE}/handful/challenge/kit",
            "packages": [str(walls.PACKAGE.parent) if self.isolation == "none" else _INSIDE],
            "save": save,
            "kept": walls.covered(walls.interpreter_roots()),
            "without": list(self.without),
            **paths,
        }
        to_read, to_write = os.pipe2(os.O_CLOEXEC)
        from_read, from_write = os.pipe2(os.O_CLOEXEC)
        log_read, log_write = os.pipe2(os.O_CLOEXEC)
        # A task's images are megabytes; the default of 64 kB wakes the child for every other image.
        with contextlib.suppress(OSError):
            fcntl.fcntl(to_write, fcntl.F_SETPIPE_SZ, 1 << 20)
        theirs = array.array("i", [to_read, from_write, log_write])
        try:
            self._control.settimeout(10.0)
            self._control.sendmsg([json.dumps(job).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, theirs)])
        except OSError as error:
            for fd in (to_write, from_read, log_read):
                os.close(fd)
            raise self._broken("took no job") from error
        finally:
            for fd in theirs:
                os.close(fd)
        if self._report(120.0)[0] != b"shut":
            for fd in (to_write, from_read, log_read):
                os.close(fd)
            raise self._broken("could not confine the job")
        return SandboxJob(self, to_write, from_read, log_read)

    def end_job(self) -> int:
        """Kill what is left of the running job and give its exit code (negative: the signal)."""
        if self._process is None or self._control is None:
            return 0
        if self.isolation == "userns":
            try:
                code = self._process.wait(0.2)
            except subprocess.TimeoutExpired:
                code = -int(signal.SIGKILL)
            self._stop()
            return 128 - code if code > 128 else code
        if not self.together:
            try:
                self._control.send(b"{}")
            except OSError:
                pass
        word, code = self._report(60.0)
        if word != b"done":
            # Only want of memory takes the parent away, and the job is what asked for it.
            self.close()
            raise Failure("OOM", "end", "the system ended the sandbox, most likely for its memory")
        return code

    def wait_job(self, patience: float) -> int | None:
        """The exit code of a job that ends by itself within ``patience`` seconds, else None."""
        if self.isolation == "userns":
            assert self._process is not None
            try:
                code = self._process.wait(patience)
            except subprocess.TimeoutExpired:
                return None
            self._stop()
            return 128 - code if code > 128 else code
        word, code = self._report(patience)
        return code if word == b"done" else None

    def _stop(self) -> None:
        process, self._process = self._process, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End the sandbox with everything in it."""
        self._stop()
        if self._cpus is not None:
            self._cpus.free()
        if self._cgroup is not None:
            self._cgroup.remove()
            self._cgroup = None
        if self._errors is not None:
            self._errors.close()
        for folder in filter(None, (self._scratch, self._shared)):
            shutil.rmtree(folder, ignore_errors=True)
        self._scratch = self._shared = ""
