"""All speed benchmarks one after another, and their ratios as a table.

    python benchmarks/all.py [--only per_task,workers] [--write docs/scale.md] [--list]

Each runs in a process of its own, one thread unless it says otherwise, on a machine that nothing else uses: a ratio measured beside
other work is marked "not judged". With --write the table between the two marks of that file is replaced.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^(?P<name>.+): (?P<value>[\d.]+) \(target (?P<sign>[<>]=) (?P<target>[\d.]+)\): (?P<word>.+)$")
MARKS = "<!-- measured: begin -->", "<!-- measured: end -->"
LONGEST = int(os.environ.get("BENCHMARK_SECONDS", "600"))
CASES: dict[str, list[str]] = {
    "per_task": [],
    "maml_clone": [],
    "peers": [],
    "two_cores": [],
    "sinkhorn": ["--repeats", "2"],
    "wordnet_networkx": [],
    "growth": [],
    "workers": [],
    "cores": [],
    "folded": [],
    "throughput": [],
    "throughput resnet12": ["--net", "resnet12", "--images", "600"],
    "evaluate": [],
    "drawing": [],
}


def run(case: str) -> tuple[list[dict[str, str]], str]:
    """The verdicts of one benchmark, and all that it printed."""
    script = case.split()[0]
    command = [sys.executable, str(HERE / f"{script}.py"), *CASES[case]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    nothing = {"name": case, "value": "", "sign": "", "target": ""}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as running:
        try:
            text, _ = running.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # its workers too
            return [{**nothing, "word": f"not done in {LONGEST} s"}], ""
    if running.returncode:
        return [{**nothing, "word": "FAILED"}], text
    return [m.groupdict() for m in map(LINE.match, text.splitlines()) if m], text


def table(rows: list[tuple[str, dict[str, str]]]) -> str:
    lines = ["| benchmark | ratio | target | |", "|---|---:|---:|---|"]
    for case, row in rows:
        target = "" if row["target"] in ("", "0") else f"{row['sign']} {row['target']}"
        word = row["word"] if target or row["word"] not in ("met", "not judged") else ""
        lines.append(f"| {row['name']} (`{case.split()[0]}.py`) | {row['value']} | {target} | {word} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [c for c in CASES if not options.only or c in options.only.split(",")]
    if options.list:
        print("\n".join(chosen))
        return 0
    rows: list[tuple[str, dict[str, str]]] = []
    for case in chosen:
        print(f"--- {case}", flush=True)
        found, text = run(case)
        print(text, flush=True)
        rows += [(case, row) for row in found]
    import torch

    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    )
    body = f"{table(rows)}\n\n{machine}; `python benchmarks/all.py`."
    print(body)
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        head, _, rest = text.partition(MARKS[0])
        tail = rest.partition(MARKS[1])[2]
        options.write.write_text(f"{head}{MARKS[0]}\n{body}\n{MARKS[1]}{tail}", encoding="utf-8")
    return int(any(row["word"] == "FAILED" for _, row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
