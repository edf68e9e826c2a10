"""The program that reads .mat and HDF5 files, forked off a process that has its libraries: a hundred times as many inputs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from types import SimpleNamespace


def install() -> None:
    """Let ``arrays`` fork ``apart`` instead of starting it; limits, exit codes and complaints are those of the program."""
    import h5py  # noqa: F401
    import scipy.io  # noqa: F401

    from handful.data.importers import arrays

    arrays._SECONDS = 5  # for files that keep the HDF5 library busy for ever
    arrays.subprocess = SimpleNamespace(  # type: ignore[assignment]
        run=_run, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
    )


def _run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
    request = json.loads(command[-1])
    with tempfile.TemporaryFile() as said:
        if not (child := os.fork()):
            _child(request, said.fileno())
        # Its limit on processor time ends it.
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return subprocess.CompletedProcess(command, code, b"", said.read())


def _child(request: dict[str, object], said: int) -> None:
    from handful.data.importers import apart

    code = 1
    with contextlib.suppress(BaseException):
        os.dup2(said, 2)
        # Address space and seconds that this process has used already are not of the file's making.
        with open("/proc/self/statm") as own:
            used = int(own.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        spent = os.times()
        request["bytes"] = int(request["bytes"]) + used  # type: ignore[call-overload]
        request["seconds"] = int(request["seconds"]) + int(spent.user + spent.system) + 1  # type: ignore[call-overload]
        try:
            apart.main(request)
            code = 0
        except Exception as error:
            os.write(2, " ".join((str(error) or type(error).__name__).split()).encode())
        except BaseException:
            traceback.print_exc(file=sys.stderr)
    os._exit(code)
