"""The challenge's service under load, on loopback: participants who upload and look at pages while two workers run.

    python benchmarks/challenge_load.py --participants 50 --uploads 500 [--database postgresql://...]

Prints, as one JSON object, how often each status came, how long pages and uploads took, how submissions ended, and the load
of the machine before and after. Ends with 1 if a page's 95th percentile is a second or more, or any answer is a 500, or it is
not through after ``--minutes``.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import re
import socket
import statistics
import sys
import tempfile
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import polars as pl
from sqlalchemy import select

from handful.challenge import results, rules
from handful.challenge.db import Database, Submission
from handful.challenge.running import Outcome
from handful.challenge.service import make_app
from handful.challenge.spec_file import TEMPLATE, read
from handful.challenge.worker import Worker

PAGES = ("/", "/leaderboard", "/submissions", "/account", "/leaderboard.csv?league=free-style&phase=feedback")
_FORM = {"password": "correct horse battery", "real_name": "Someone"}


def serve(root: Path, url: str, port: int) -> None:
    import uvicorn

    challenge = read(root / "challenge.toml")
    app = make_app(challenge, Database(url), root, root / "state", registrations=1000)
    uvicorn.run(app, port=port, log_level="error")


def work(root: Path, url: str, seconds: float) -> None:
    """A worker with the real queue, leases and results; only the submission's own computing is a pause."""

    def run(lease, secret, place, progress):
        time.sleep(seconds)
        scores = dict.fromkeys(("accuracy", "balanced", "normalised"), 0.5)
        rows = [{"repeat": 0, "task": i, "ways": 2 + i % 4, "shots": 1 + i % 5, "queries": 8} for i in range(30)]
        frame = pl.DataFrame([{**row, "dataset": f"set-{i % 3}", **scores} for i, row in enumerate(rows)])
        facts = results.write(frame, place / "results", seconds, "Results")
        return Outcome(frame=frame, facts=facts, seconds=seconds)

    Worker(Database(url), read(root / "challenge.toml"), root, root / "state", run=run).forever(idle=0.2)


def participate(address: str, number: int, uploads: int, archive: bytes, until: float) -> list[tuple[str, int, float]]:
    """One participant: registers, then uploads and looks at pages in turn; gives kind, status and seconds of each."""
    seen: list[tuple[str, int, float]] = []
    with httpx.Client(base_url=address, timeout=120) as client:

        def ask(kind: str, method: str, path: str, **options) -> httpx.Response:
            while True:
                started = time.monotonic()
                if started > until:
                    raise TimeoutError(f"participant {number} is not through in time")
                answer = client.request(method, path, **options)
                seen.append((kind, answer.status_code, time.monotonic() - started))
                if answer.status_code != 503:
                    return answer
                time.sleep(int(answer.headers.get("retry-after", 1)))

        def csrf(path: str) -> str:
            return re.search(r'name="csrf" value="([^"]+)"', ask("page", "GET", path).text).group(1)  # type: ignore[union-attr]

        form = {**_FORM, "name": f"team-{number}x", "email": f"t{number}@example.org", "csrf": csrf("/register")}
        ask("register", "POST", "/register", data=form)
        for i in range(uploads):
            form = {"league": "free-style", "csrf": csrf("/submissions")}
            ask("upload", "POST", "/submissions", data=form, files={"archive": ("s.zip", archive)})
            for j in range(2):
                time.sleep(0.2)
                ask("page", "GET", PAGES[(number + i + j) % len(PAGES)])
    return seen


def summary(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {"n": len(seconds), "median": cuts[49], "p95": cuts[94], "largest": max(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--participants", type=int, default=50)
    parser.add_argument("--uploads", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0.1, help="how long a submission computes")
    parser.add_argument("--database", default="")
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    each = -(-options.uploads // options.participants)
    with tempfile.TemporaryDirectory(prefix="handful-load-") as place:
        root = Path(place)
        quota = f"\n[quota]\nper_day = {each}\ntotal = {each}\ncompute_hours = 100\n"
        text = re.sub(r"\n\[quota\]\n(?:[^\[]*\n)?(?=\[|\Z)", quota, TEMPLATE.format(name="load", title="Load"))
        (root / "challenge.toml").write_text(text)
        challenge = read(root / "challenge.toml")
        assert challenge.quota.per_day == each, "the quota could not be set"
        url = options.database or f"sqlite:///{root / 'load.sqlite'}"
        database = Database(url)
        database.create()
        with database.writing() as session:
            rules.begin(session, challenge)
            rules.advance(session, challenge)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=serve, args=(root, url, port))]
        processes += [context.Process(target=work, args=(root, url, options.seconds)) for _ in range(2)]
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as target:
            target.writestr("model.py", "x = 1\n" * 1000)
        address = f"http://127.0.0.1:{port}"
        try:
            for process in processes:
                process.start()
            for _ in range(600):
                try:
                    httpx.get(address + "/login")
                    break
                except httpx.HTTPError:
                    time.sleep(0.2)
            started, load = time.monotonic(), os.getloadavg()[0]
            with ThreadPoolExecutor(options.participants) as threads:
                jobs = [
                    threads.submit(participate, address, i, each, archive.getvalue(), started + 60 * options.minutes)
                    for i in range(options.participants)
                ]
                seen = [line for job in jobs for line in job.result()]
            took = time.monotonic() - started
            with database.reading() as session:
                ends = Counter(session.scalars(select(Submission.status)))
        finally:
            for process in processes:
                process.kill()
                process.join()
            database.engine.dispose()
    kinds = {kind: [s for k, _, s in seen if k == kind] for kind in ("page", "upload", "register")}
    page = summary(kinds["page"])
    report = {
        "seconds": took,
        "statuses": {kind: dict(Counter(str(code) for k, code, _ in seen if k == kind)) for kind in kinds},
        "times": {kind: summary(values) for kind, values in kinds.items()},
        "submissions": dict(ends),
        "load": {"before": load, "after": os.getloadavg()[0], "cores": os.cpu_count()},
        "held": {
            "pages under a second": page["p95"] < 1,
            "no 500": not any(code >= 500 and code != 503 for _, code, _ in seen),
        },
    }
    print(json.dumps(report, indent=1))
    sys.exit(int(not all(report["held"].values())))


if __name__ == "__main__":
    main()
