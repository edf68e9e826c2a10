"""The program inside the sandbox: a preloaded parent that runs each job in a child of its own.

The parent is ours, has imported torch, and has never seen labels or submitted code. It takes jobs with their pipes over
a socket, forks, shuts the child in (new process and mount namespaces, an unused user, no capabilities, limits, a
system-call filter) and only then lets it import the submission. Run as a script; it imports nothing of the package.
"""

from __future__ import annotations

import array
import gc
import importlib
import importlib.util
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handful.challenge import confine, protocol, seccomp

HERE = os.path.dirname(os.path.abspath(__file__))
REPORT = struct.Struct("<4si")
REASON_BYTES = 1000
CONFINED = b"\x00"


def _sibling(name: str) -> Any:
    """Load a file beside this one under a name that no submission can clash with."""
    spec = importlib.util.spec_from_file_location(f"_handful_{name}", os.path.join(HERE, f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.path += [path for path in sys.argv[3].split(os.pathsep) if path not in sys.path]

if not TYPE_CHECKING:
    confine = _sibling("confine")
    protocol = _sibling("protocol")
    seccomp = _sibling("seccomp")


def tidy_descriptors(fds: list[int], shut: int) -> tuple[int, int, int]:
    """Leave nothing to read, the log twice, the two pipes of this job, and ``shut``, which goes before the import.

    ``fds`` are the job's way in, its way out, and its log.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    high = [os.dup2(fd, 200 + i, inheritable=False) for i, fd in enumerate((*fds, nothing, shut))]
    os.dup2(high[3], 0)
    os.dup2(high[2], 1)
    os.dup2(high[2], 2)
    low = [os.dup2(high[old], new, inheritable=False) for old, new in ((0, 3), (1, 4), (4, 5))]
    os.closerange(6, 1 << 20)
    return low[0], low[1], low[2]


def prepare(job: dict[str, Any]) -> None:
    """Environment, working folder, seeds and threads for submitted code."""
    import numpy as np
    import torch

    os.environ.clear()
    os.environ.update(job["environment"])
    os.makedirs(job["save"], exist_ok=True)
    if job["isolation"] != "none":
        os.chdir("/tmp")
    os.umask(0o022)
    random.seed(job["seed"])
    np.random.seed(job["seed"] % (1 << 32))
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])


class Reporter:
    """Sends the fixed-size frames of one job."""

    def __init__(self, outgoing: int) -> None:
        self.outgoing = outgoing

    def ok(self, stage: protocol.JobStage, kind: protocol.Kind | None = None) -> None:
        frame = protocol.ChildReport(stage, protocol.Status.OK, kind if kind is not None else protocol.Kind.SCORES)
        protocol.write_all(self.outgoing, frame.pack())

    def failed(self, stage: protocol.JobStage, status: protocol.Status, error: BaseException, text: str = "") -> None:
        if isinstance(error, MemoryError):
            status = protocol.Status.OOM
        elif isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
            status = protocol.Status.OOM
        traceback.print_exception(error)
        sys.stderr.flush()
        text = text or "".join(traceback.format_exception_only(error)).strip()
        frame = protocol.ChildReport(stage, status, protocol.Kind.SCORES, type(error).__name__, text)
        protocol.write_all(self.outgoing, frame.pack())


def import_submission(job: dict[str, Any]) -> Any:
    """Import model.py from the submission, before the kit, after the standard library."""
    for path in (job["kit"], *job["packages"]):
        if path not in sys.path:
            sys.path.append(path)
    sys.path.insert(0, job["submission"])
    sys.dont_write_bytecode = True
    model = importlib.import_module("model")
    for name in ("MyMetaLearner", "MyLearner"):
        if not hasattr(model, name):
            raise ImportError(f"model.py does not define {name}")
    return model


def missing_module(error: BaseException) -> str:
    """What to do about a module that is not here, and what is; nothing for other errors."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    from importlib.metadata import distributions

    names = sorted({str(each.metadata["Name"]) for each in distributions() if each.metadata["Name"]}, key=str.lower)
    first = f"{error}; there is no network here, so put what you need into the archive. Installed: "
    return first + ", ".join(names)[: 1900 - len(first)]


def run_training(job: dict[str, Any], report: Reporter) -> None:
    """Meta-train on the mounted training data, save, and stream what was saved."""
    stage, status = protocol.JobStage, protocol.Status
    try:
        model = import_submission(job)
        generators = importlib.import_module("cdmetadl.ingestion.data_generator")
        logger = importlib.import_module("cdmetadl.ingestion.competition_logger").Logger()
        config = generators.read_config(os.path.join(job["submission"], "config.json"))
        train, valid, classes, total = generators.make_generators(job["train"], config, job["seed"])
        meta_learner = model.MyMetaLearner(classes, total, logger)
    except BaseException as error:
        bad_config = type(error).__name__ == "ConfigError"
        code = status.BAD_CONFIG if bad_config else status.IMPORT_ERROR
        return report.failed(stage.LOADED, code, error, missing_module(error))
    report.ok(stage.LOADED)
    try:
        learner = meta_learner.meta_fit(train, valid)
    except BaseException as error:
        return report.failed(stage.TRAINED, status.TRAIN_ERROR, error)
    report.ok(stage.TRAINED)
    try:
        learner.save(job["save"])
        files = saved_files(job["save"], job["limits"])
    except BaseException as error:
        return report.failed(stage.SAVED, status.SAVE_ERROR, error)
    sys.stdout.flush()
    report.ok(stage.SAVED)
    stream_files(files, report.outgoing)


def saved_files(folder: str, limits: dict[str, int]) -> list[tuple[str, int]]:
    """Names and open descriptors of the regular files below ``folder``; links, pipes and anything else are refused.

    They are opened here, once: what a name stands for later does not matter.
    """
    found: list[tuple[str, int]] = []
    total = 0
    for place, folders, files in os.walk(folder, onerror=_cannot_list):
        for name in sorted(folders + files):
            path = os.path.join(place, name)
            if os.lstat(path).st_mode & 0o170000 == 0o040000:
                continue
            inside = os.path.relpath(path, folder)
            if len(os.fsencode(inside)) > protocol.NAME_BYTES:
                raise ValueError(f"save() left a file with a name of more than {protocol.NAME_BYTES} bytes")
            inside.encode("utf-8")
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise ValueError(
                    f"save() left {name!r}, which is no file that can be read ({error.strerror})"
                ) from error
            facts = os.fstat(fd)
            if facts.st_mode & 0o170000 != 0o100000:
                raise ValueError(f"save() left {name!r}, which is not a regular file")
            total += facts.st_size
            found.append((inside, fd))
            if len(found) > limits["saved_files"] or total > limits["saved_bytes"]:
                raise ValueError(
                    f"save() left {len(found)} files of {total} bytes or more; the limits are {limits['saved_files']} "
                    f"files and {limits['saved_bytes']} bytes"
                )
    return sorted(found)


def _cannot_list(error: OSError) -> None:
    raise ValueError(f"save() left a folder that cannot be read ({error.strerror})")


def stream_files(files: list[tuple[str, int]], outgoing: int) -> None:
    """Send saved files as blocks of one size."""
    for name, fd in files:
        protocol.write_all(outgoing, protocol.pack_block(protocol.FileBlock.FILE, name=name))
        while data := os.read(fd, 1 << 16):
            protocol.write_all(outgoing, protocol.pack_block(protocol.FileBlock.DATA, data))
        os.close(fd)
    protocol.write_all(outgoing, protocol.pack_block(protocol.FileBlock.END))


def run_task(job: dict[str, Any], incoming: int, report: Reporter) -> None:
    """One meta-test task: load, then fit on the support, and only then see the queries."""
    stage, status = protocol.JobStage, protocol.Status
    try:
        model = import_submission(job)
        to_tensor = importlib.import_module("cdmetadl.ingestion.data_generator").to_tensor
    except BaseException as error:
        return report.failed(stage.LOADED, status.IMPORT_ERROR, error, missing_module(error))
    try:
        learner = model.MyLearner()
        learner.load(job["saved"])
    except BaseException as error:
        return report.failed(stage.LOADED, status.LOAD_ERROR, error)
    report.ok(stage.LOADED)
    import torch

    images, labels, original, ways, shots = protocol.read_support(incoming)
    support = (to_tensor(images), torch.from_numpy(labels.copy()), torch.from_numpy(original.copy()), ways, shots)
    try:
        predictor = learner.fit(support)
    except BaseException as error:
        return report.failed(stage.FITTED, status.FIT_ERROR, error)
    report.ok(stage.FITTED)
    queries = protocol.read_query(incoming, images.shape[1:])
    try:
        answer = predictor.predict(to_tensor(queries))
    except BaseException as error:
        return report.failed(stage.ANSWERED, status.PREDICT_ERROR, error)
    try:
        kind, array_ = as_answer(answer, len(queries), ways)
    except (TypeError, ValueError) as error:
        wrong = status.BAD_DTYPE if isinstance(error, TypeError) else status.BAD_SHAPE
        return report.failed(stage.ANSWERED, wrong, error)
    except BaseException as error:
        return report.failed(stage.ANSWERED, status.PREDICT_ERROR, error)
    sys.stdout.flush()
    report.ok(stage.ANSWERED, kind)
    protocol.write_all(report.outgoing, array_)


def as_answer(answer: Any, queries: int, ways: int) -> tuple[protocol.Kind, Any]:
    """The submission's answer as the one array that the evaluator expects."""
    import numpy as np

    if hasattr(answer, "detach"):
        answer = answer.detach().cpu().numpy()
    given = np.asarray(answer)
    if given.dtype.kind not in "fiub":
        raise TypeError(f"predict returned an array of {given.dtype}; return numbers")
    if given.shape == (queries, ways):
        with np.errstate(over="ignore"):
            return protocol.Kind.SCORES, np.ascontiguousarray(given, dtype="<f4")
    if given.shape in ((queries,), (queries, 1)):
        padded = np.zeros((queries, ways), dtype="<f4")
        padded[:, 0] = given.reshape(-1).clip(-1e9, 1e9)
        return protocol.Kind.LABELS, padded
    raise ValueError(f"predict returned shape {given.shape}; return ({queries}, {ways}) or ({queries},)")


def shut_in(job: dict[str, Any]) -> None:
    """The last steps before submitted code: its surroundings, and the kernel's word that it is confined."""
    prepare(job)
    if job["isolation"] != "none":
        confine.check_sealed()


def run_job(job: dict[str, Any], incoming: int, outgoing: int) -> None:
    """Run one job in this process, which is shut in by now."""
    if job["kind"] == "train":
        run_training(job, Reporter(outgoing))
    else:
        run_task(job, incoming, Reporter(outgoing))


def describe(error: BaseException) -> bytes:
    """An error's last line, for the evaluator."""
    return "".join(traceback.format_exception_only(error)).strip().encode("utf-8", "replace")[:REASON_BYTES]


def child(job: dict[str, Any], control: socket.socket, fds: list[int], shut: int, program: bytes) -> None:
    """What the forked process does; never returns. Whether it is confined is said on ``shut``, and that is closed then."""
    code = 70
    try:
        control.close()
        incoming, outgoing, shut = tidy_descriptors(fds, shut)
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.setsid()
            if job["isolation"] == "strong":
                confine.private_namespaces(job["limits"], job["kept"], job["without"])
                confine.set_limits(job["limits"])
                confine.become(job["uid"])
                confine.seal(lambda: seccomp.install(program))
            shut_in(job)
        except BaseException as error:
            os.write(shut, describe(error) or b"unknown")
            os._exit(71)
        os.write(shut, CONFINED)
        os.close(shut)
        run_job(job, incoming, outgoing)
        sys.stdout.flush()
        code = 0
    finally:
        os._exit(code)


def receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next job and its descriptors; None at the end, an empty job to kill the running one."""
    space = socket.CMSG_SPACE(3 * array.array("i").itemsize)
    data, ancillary, _, _ = control.recvmsg(1 << 16, space, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            got = array.array("i")
            got.frombytes(payload[: len(payload) - len(payload) % got.itemsize])
            fds += list(got)
    return (json.loads(data) if data else None), fds


def fork_job(job: dict[str, Any], control: socket.socket, fds: list[int], home: int | None) -> int:
    """Fork the job's child into a process namespace of its own, where root allows, and tell whether it is confined."""
    if home is not None:
        confine.call("unshare", confine.NEW_PIDS)
    program = seccomp.build(without=tuple(job["without"]))
    hear, shut = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        child(job, control, fds, shut, program)
    for fd in (*fds, shut):
        os.close(fd)
    if home is not None:
        confine.call("setns", home, confine.NEW_PIDS)
    said = b""
    while more := os.read(hear, REASON_BYTES):
        said += more
    os.close(hear)
    report(control, b"shut" if said == CONFINED else b"fail", 0, said if said != CONFINED else b"")
    return pid


def report(control: socket.socket, word: bytes, code: int = 0, reason: bytes = b"") -> None:
    """Tell the evaluator something that no submitted code can say: the control socket is ours alone."""
    control.send(REPORT.pack(word, code) + reason)


def wait_for(pid: int, control: socket.socket, group: bool) -> int:
    """Wait until the job has ended, killing it when told to. With its first process ends its whole namespace."""
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(control, select.POLLIN)
    ended = False
    while not ended:
        for fd, _ in poll.poll():
            if fd == handle:
                ended = True
            else:
                job, _ = receive(control)
                if group:
                    try:
                        os.killpg(pid, signal.SIGKILL)
                    except OSError:
                        pass
                os.kill(pid, signal.SIGKILL)
                poll.unregister(control)
                if job is None:
                    os.waitpid(pid, 0)
                    os._exit(0)
    os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def serve(control: socket.socket, isolation: str) -> None:
    """Take jobs until the socket closes."""
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if isolation == "strong" else None
    report(control, b"redy")
    while True:
        job, fds = receive(control)
        if job is None:
            return
        if not fds:
            continue
        if job["isolation"] == "userns":
            run_here(job, control, fds)
        if job.get("together"):
            shut_in(job)
            report(control, b"shut")
            run_job(job, fds[0], fds[1])
            sys.path.remove(job["submission"])
            for fd in fds:
                os.close(fd)
            report(control, b"done")
            continue
        code = wait_for(fork_job(job, control, fds, home), control, group=isolation == "none")
        report(control, b"done", code)


def run_here(job: dict[str, Any], control: socket.socket, fds: list[int]) -> None:
    """The one job of a sandbox without root, in this very process; never returns."""
    code = 70
    try:
        incoming, outgoing, fd = tidy_descriptors(fds, control.detach())
        control = socket.socket(fileno=fd)
        try:
            confine.set_limits(job["limits"])
            shut_in(job)
        except BaseException as error:
            report(control, b"fail", 0, describe(error))
            os._exit(71)
        report(control, b"shut")
        control.close()
        run_job(job, incoming, outgoing)
        sys.stdout.flush()
        code = 0
    finally:
        os._exit(code)


def rehearse() -> None:
    """Do once, before any fork, what every job's process would else do for the first time by itself.

    The first seed makes torch import its devices. What is alive now is never garbage: a forked process that looked
    through it would copy every page of it.
    """
    import numpy as np
    import torch

    np.random.seed(0)
    torch.manual_seed(0)
    gc.collect()
    gc.freeze()


def main() -> None:
    """``child.py CONTROL_FD ISOLATION PATHS [MODULE...]``: preload the modules, then serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in sys.argv[4:]:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    if sys.argv[2] != "userns":
        rehearse()
    serve(control, sys.argv[2])


if __name__ == "__main__":
    main()
