"""ONNX Runtime Web, which app files carry: fetched once from the npm registry and checked, or from a given file."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from handful.cache import cache_folder
from handful.errors import BadInput, Missing
from handful.files import write_atomically
from handful.progress import note

VERSION = "1.30.0"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""Of the package's archive, base64, as the registry's own `integrity` has it."""
CODE, MACHINE = "package/dist/ort.wasm.bundle.min.mjs", "package/dist/ort-wasm-simd-threaded.wasm"
LARGEST = 64 << 20


def runtime(file: Path | None = None) -> tuple[bytes, bytes]:
    """The runtime's module and its WebAssembly; ``file`` is the npm package's archive, instead of fetching it."""
    if file is not None:
        return taken(file)
    kept = cache_folder() / "studio" / f"onnxruntime-web-{VERSION}.tgz"
    if not (kept.is_file() and digest(kept) == SHA512):
        fetch(kept)
    return taken(kept)


def taken(path: Path) -> tuple[bytes, bytes]:
    """The two files out of the archive; nothing of it is unpacked to disk."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                if member.name in (CODE, MACHINE) and member.isfile() and member.size <= LARGEST:
                    stream = archive.extractfile(member)
                    found[member.name] = stream.read() if stream else b""
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise BadInput(f"{path} is not the archive of onnxruntime-web ({error}); make it with npm pack") from error
    for name in (CODE, MACHINE):
        if not found.get(name):
            raise BadInput(f"{path} has no {name}; give the archive of onnxruntime-web {VERSION}")
    return found[CODE], found[MACHINE]


def fetch(kept: Path) -> None:
    """Have npm download the package, and keep it if its checksum is the known one."""
    advice = f"or make onnxruntime-web-{VERSION}.tgz elsewhere with: npm pack onnxruntime-web@{VERSION}, and give it as --runtime FILE"
    npm = shutil.which("npm")
    if npm is None:
        raise Missing(
            f"an app file carries ONNX Runtime Web, which npm fetches once, and npm is not here; install it, {advice}"
        )
    note("fetching ONNX Runtime Web once")
    with tempfile.TemporaryDirectory() as place:
        try:
            command = [npm, "pack", f"onnxruntime-web@{VERSION}", "--pack-destination", place, "--ignore-scripts"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=place, check=False)
        except subprocess.TimeoutExpired as error:
            raise Missing(f"npm did not answer in ten minutes; try again, {advice}") from error
        found = list(Path(place).glob("*.tgz"))
        if done.returncode or not found:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:200]
            raise Missing(f"npm could not fetch ONNX Runtime Web ({last}); try again, {advice}")
        if digest(found[0]) != SHA512:
            raise BadInput(f"what npm fetched is not onnxruntime-web {VERSION}: its checksum differs; {advice[3:]}")
        data = found[0].read_bytes()
        write_atomically(kept, lambda p: Path(p).write_bytes(data))


def digest(path: Path) -> str:
    return base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
