"""A sandbox's cgroup, on a file system that looks like the kernel's: what is written where, and what is done where it fails.

The kernel's own part, that it ends what passes a limit, is not tried here: that needs a machine that gives controllers away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from handful.challenge import share


class Kernel:
    """A folder that behaves as cgroup v2 does: new folders have the files, cgroup.kill ends what is listed, rmdir works."""

    def __init__(self, top: Path, controllers: str = "cpu memory pids", own: str = "/service/worker") -> None:
        self.top, self.proc = top / "sys", top / "proc"
        self.proc.mkdir(parents=True)
        here = self.top / own.lstrip("/")
        here.mkdir(parents=True)
        for folder in (here, *here.parents):
            if folder.is_relative_to(self.top):
                (folder / "cgroup.subtree_control").write_text(controllers if folder == here.parent else "")
        (self.proc / "cgroup").write_text(f"0::{own}\n")
        mounts = (
            f"25 1 0:22 / /proc rw - proc proc rw\n30 1 0:26 / {self.top} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
        )
        (self.proc / "mountinfo").write_text(mounts)
        self.base = here.parent

    def base_of(self) -> Path | None:
        return share.cgroup_base(self.proc)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    made = Kernel(tmp_path)
    found = share.cgroup_base
    monkeypatch.setattr(share, "cgroup_base", lambda proc=made.proc: found(proc))
    return made


def test_the_folder_that_gives_memory_and_processes_away_is_found(kernel):
    assert kernel.base_of() == kernel.base


@pytest.mark.parametrize("controllers", ["", "cpu", "cpu memory", "pids"])
def test_without_both_controllers_there_is_none(tmp_path, controllers):
    assert Kernel(tmp_path, controllers).base_of() is None


def test_without_the_second_version_there_is_none(tmp_path):
    made = Kernel(tmp_path)
    (made.proc / "cgroup").write_text("4:memory:/x\n")
    assert made.base_of() is None
    made = Kernel(tmp_path / "b")
    (made.proc / "mountinfo").write_text("25 1 0:22 / /proc rw - proc proc rw\n")
    assert made.base_of() is None


def test_a_service_at_the_top_does_not_look_outside_the_mount(tmp_path):
    made = Kernel(tmp_path, own="/")
    (made.top.parent / "cgroup.subtree_control").write_text("cpu memory pids")
    assert made.base_of() is None


def test_limits_are_written_before_anything_runs_in_it(kernel):
    made = share.Cgroup.make(memory_bytes=900 << 20, processes=32, threads=2)
    assert made is not None and made.path.parent == kernel.base
    found = {name: (made.path / name).read_text() for name in ("memory.max", "pids.max", "memory.swap.max", "cpu.max")}
    assert found == {"memory.max": str(900 << 20), "pids.max": "32", "memory.swap.max": "0", "cpu.max": "200000 100000"}


def test_what_a_kernel_without_swap_or_cpu_refuses_is_done_without(kernel, monkeypatch):
    write = Path.write_text

    def refuse(self, text, *more, **options):
        if self.name in ("memory.swap.max", "cpu.max"):
            raise OSError("no such controller")
        return write(self, text, *more, **options)

    monkeypatch.setattr(Path, "write_text", refuse)
    made = share.Cgroup.make(1 << 30, 8, 1)
    assert made is not None and (made.path / "memory.max").is_file()


def test_a_limit_that_cannot_be_set_leaves_no_cgroup(kernel, monkeypatch):
    write = Path.write_text

    def refuse(self, text, *more, **options):
        if self.name == "pids.max":
            (self.parent / "memory.max").unlink()  # the kernel's own files do not hinder rmdir
            raise OSError("busy")
        return write(self, text, *more, **options)

    before = set(kernel.base.iterdir())
    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(share.Cgroup, "remove", lambda self: self.path.rmdir())
    assert share.Cgroup.make(1 << 30, 8, 1) is None
    assert set(kernel.base.iterdir()) == before


def test_the_launcher_enters_the_cgroup_before_the_command_begins(kernel):
    made = share.Cgroup.make(1 << 30, 8, 1)
    assert made is not None
    command = [*share.launcher(made, 0), "/bin/sh", "-c", f'cat "{made.path}/cgroup.procs"; echo "$1"', "sh", "a b"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines() == ["0", "a b"], (
        "0 is the kernel's word for the writer itself"
    )


def test_a_command_that_cannot_enter_does_not_run(kernel):
    made = share.Cgroup.make(1 << 30, 8, 1)
    assert made is not None
    for file in made.path.iterdir():
        file.unlink()
    made.path.rmdir()
    done = subprocess.run([*share.launcher(made, 0), "/bin/echo", "ran"], capture_output=True, text=True)
    assert done.returncode == 72 and "ran" not in done.stdout


def test_without_a_cgroup_the_command_runs_as_it_is():
    done = subprocess.run([*share.launcher(None, 0), "/bin/echo", "a b"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "a b\n"


def test_removing_ends_what_is_left_and_waits_for_it(kernel):
    """The kernel's part is played by a thread: at cgroup.kill it ends the processes, and only then the folder can go."""
    made = share.Cgroup.make(1 << 30, 8, 1)
    assert made is not None
    left = subprocess.Popen(["sleep", "600"])

    def play() -> None:
        while not (made.path / "cgroup.kill").is_file():
            time.sleep(0.005)
        os.kill(left.pid, signal.SIGKILL)
        left.wait()
        for file in made.path.iterdir():
            file.unlink()

    thread = threading.Thread(target=play)
    thread.start()
    made.remove()
    thread.join()
    assert left.returncode == -signal.SIGKILL and not made.path.exists()
