"""The verbs of `handful challenge`, as a person types them."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import needs_walls, source

pytest.importorskip("fastapi", reason="needs handful[serve]")
from handful.cli import main

from .test_service import collection, root  # noqa: F401


def handful(*arguments: object) -> int:
    try:
        main(["challenge", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_new_makes_a_challenge_that_only_lacks_data(tmp_path, capsys):
    assert handful("new", tmp_path / "My Flowers!", "--title", 'A "title"') == 0
    assert 'name = "my-flowers"' in (tmp_path / "My Flowers!/challenge.toml").read_text()
    assert handful("new", tmp_path / "My Flowers!") == 2 and "exists already" in capsys.readouterr().err
    assert handful("validate", tmp_path / "My Flowers!") == 2


def test_validate_names_file_and_line(tmp_path, capsys):
    handful("new", tmp_path / "x")
    path = tmp_path / "x/challenge.toml"
    path.write_text(path.read_text().replace("per_day = 2", "per_day = -2"))
    capsys.readouterr()
    assert handful("validate", tmp_path / "x") == 2
    error = capsys.readouterr().err
    line = int(re.search(r"challenge\.toml, line (\d+)", error).group(1))
    assert "per_day" in path.read_text().splitlines()[line - 1] and error.count("\n") == 1


def test_validate_reads_the_final_data_only_when_told(root, tmp_path, capsys):  # noqa: F811
    assert handful("validate", root, "--state", tmp_path / "s", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["phases"]["feedback"]["datasets"] == ["hidden-a", "hidden-b"]
    assert "not read" in facts["phases"]["final"]
    assert handful("validate", root, "--state", tmp_path / "s", "--final", "--json") == 0
    assert json.loads(capsys.readouterr().out)["phases"]["final"]["datasets"] == ["hidden-c"]


@needs_walls
def test_the_sample_submission_runs(root, tmp_path, capsys):  # noqa: F811
    handful("new", tmp_path / "x")
    capsys.readouterr()
    assert handful("run", root, tmp_path / "x/sample", "--state", tmp_path / "s", "--tasks", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)["score"] > 0.5


def submission(folder, text: str | None = None):
    folder.mkdir()
    (folder / "model.py").write_text(text or source())
    return folder


@needs_walls
def test_run_scores_a_submission_and_writes_a_run(root, tmp_path, capsys):  # noqa: F811
    from handful.runs.run import Run

    mine, state = submission(tmp_path / "mine"), tmp_path / "s"
    assert handful("run", root, mine, "--state", state, "--tasks", 2, "--out", tmp_path / "out", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["score"] == pytest.approx(1.0) and set(facts["by_dataset"]) == {"hidden-a", "hidden-b"}
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {
        "scores.json",
        "scores.txt",
        "tasks.parquet",
        "results.html",
    }
    run = Run.open(tmp_path / "out")
    assert len(run.frame) == 4 and run.estimate("normalised").value == pytest.approx(1.0)
    assert handful("run", root, mine, "--state", state, "--tasks", 2, "--secret", facts["secret"], "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in facts.items() if k != "seconds"}


@pytest.mark.slow
def test_one_task_ends_in_a_number_and_two_secrets_refuse_to_be_compared(root, tmp_path, capsys):  # noqa: F811
    from handful.errors import Mismatch
    from handful.runs.run import Run

    mine = submission(tmp_path / "mine")
    for i, secret in enumerate(("ab" * 32, "cd" * 32, "ab" * 32)):
        place = ("--out", tmp_path / str(i), "--state", tmp_path / "s", "--secret", secret)
        assert handful("run", root, mine, "--phase", "final", "--seeds", 1, "--tasks", 1, "--trust", *place) == 0
        assert re.search(r"score [\d.]+ +\(one task, no interval", capsys.readouterr().out)
    one, other, again = (Run.open(tmp_path / str(i)) for i in range(3))
    assert one.identity["tasks_id"] == again.identity["tasks_id"]
    assert "ab" * 32 not in (tmp_path / "0/run.json").read_text(), "a hash of the secret, not the secret"
    with pytest.raises(Mismatch, match="different tasks"):
        one.compare(other)


@needs_walls
def test_run_says_how_a_submission_failed(root, tmp_path, capsys):  # noqa: F811
    bad = submission(tmp_path / "bad", source(fit="raise ValueError('cannot fit')"))
    assert handful("run", root, bad, "--state", tmp_path / "s", "--tasks", 1) == 1
    assert "FIT_ERROR in fit: ValueError: cannot fit" in capsys.readouterr().err
    assert handful("run", root, tmp_path / "nothing", "--state", tmp_path / "s") == 2
    assert handful("run", root, bad, "--phase", "last", "--state", tmp_path / "s") == 2
    weighty = submission(tmp_path / "weighty")
    (weighty / "w.pt").write_bytes(b"x")
    assert handful("run", root, weighty, "--league", "meta-learning", "--state", tmp_path / "s") == 1
    assert "WEIGHTS" in capsys.readouterr().err


def test_run_prints_no_terminal_escapes_of_a_submission(root, tmp_path, capsys):  # noqa: F811
    escapes = "\\x1b]52;c;ZXZpbA==\\x07\\x1b[2J\\x9d0;t\\x9c"
    text = source(fit=f"print('{escapes}seen', flush=True); raise ValueError('{escapes}cannot')")
    bad = submission(tmp_path / "bad", text)
    assert handful("run", root, bad, "--state", tmp_path / "s", "--tasks", 1, "--trust") == 1
    said = capsys.readouterr().err
    assert "seen" in said and "cannot" in said and "FIT_ERROR" in said
    assert not [c for c in said if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]


def test_trusted_code_runs_within_domains_one_data_set_at_a_time(root, tmp_path, capsys):  # noqa: F811
    """Within-domain: classes of each data set are split; a model is trained for each."""
    import shutil

    folder = tmp_path / "within"
    shutil.copytree(root, folder)
    path = folder / "challenge.toml"
    text = path.read_text().replace('kind = "cross-domain"', 'kind = "within-domain"\ntrain = 0.5\nvalid = 0.17')
    path.write_text(text.replace("ways = [2, 5]", "ways = [2, 2]"))
    text = source(meta_fit="print('classes', self.total_classes, valid is not None); return MyLearner()")
    mine = submission(tmp_path / "mine", text)
    assert handful("run", folder, mine, "--trust", "--tasks", 2, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["by_dataset"]) == {"hidden-a", "hidden-b"} and set(facts["by_ways"]) == {"2"}


def test_pack_makes_a_submission_of_a_library_learner(tmp_path, capsys):
    from handful.challenge.archive import root_of, unpack

    assert handful("pack", "protonet", tmp_path / "p.zip", "-s", "net=conv4", "-s", "schedule.steps=3") == 0
    folder = root_of(unpack(tmp_path / "p.zip", tmp_path / "code").folder)
    facts = json.loads((folder / "method.json").read_text())
    assert facts["method"] == "protonet" and facts["options"]["schedule"]["steps"] == 3
    assert handful("pack", "protonet", tmp_path / "b.zip", "--baseline") == 0
    facts = json.loads((root_of(unpack(tmp_path / "b.zip", tmp_path / "code2").folder) / "method.json").read_text())
    assert facts["options"]["schedule"]["steps"] == 30_000 and facts["options"]["net"] == "resnet18"
    assert handful("pack", "protonets", tmp_path / "x.zip") == 2 and "protonet" in capsys.readouterr().err


def test_export_prints_an_empty_leaderboard(root, tmp_path, capsys):  # noqa: F811
    assert handful("export", root, "--state", tmp_path / "s") == 0
    assert capsys.readouterr().out.startswith("rank,name,score")
    assert handful("export", root, "--state", tmp_path / "s", "--league", "nothing") == 2


def test_submit_without_a_token_or_a_service_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HANDFUL_TOKEN", raising=False)
    mine = submission(tmp_path / "mine")
    assert handful("submit", "http://127.0.0.1:9", mine, "--league", "free-style") == 2
    assert "HANDFUL_TOKEN" in capsys.readouterr().err
    assert handful("submit", "http://127.0.0.1:9", mine, "--league", "free-style", "--token", "hf_x") == 2
    assert "does not answer" in capsys.readouterr().err


def test_serve_prints_its_address_starts_again_with_the_same_organiser_and_believes_no_stranger(root, tmp_path):  # noqa: F811
    import os
    import socket
    import subprocess
    import sys
    from pathlib import Path

    import httpx

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "handful", "challenge", "serve", str(root), "--state", str(tmp_path / "s")]
    command += ["--port", str(port), "--organiser", "ann", "--registrations", "1"]
    for start in range(2):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            lines = [process.stdout.readline()]
            while "serving" not in lines[-1]:
                assert process.poll() is None, lines
                lines.append(process.stdout.readline())
            assert f"http://127.0.0.1:{port}" in lines[-1]
            assert len([line for line in lines if line.startswith("organiser ann, password")]) == (start == 0)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=httpx.HTTPTransport(retries=20)) as client:
                for _ in range(200):
                    try:
                        client.get("/login")
                        break
                    except httpx.HTTPError:
                        assert process.poll() is None
                codes = []
                for i in range(3 if start == 0 else 0):
                    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/register").text).group(1)
                    form = {"name": f"team{i}", "password": "0123456789ab", "email": "a@b.org", "real_name": "A"}
                    forged = {"X-Forwarded-For": f"198.51.100.{i}"}
                    codes.append(client.post("/register", data={**form, "csrf": csrf}, headers=forged).status_code)
                    client.cookies.clear()
                assert codes in ([303, 429, 429], []), "a forged address does not get round the limit"
        finally:
            process.terminate()
            process.wait(30)
