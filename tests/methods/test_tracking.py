"""Trackers hear everything, change nothing, and none of them can end a training."""

from __future__ import annotations

import csv
import importlib
import json
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

from handful import registry
from handful.cli import main
from handful.errors import BadInput, Missing
from handful.methods import make, tracking
from handful.methods.tracking import track
from handful.tasks import NWay
from made.benches import small

SCHEDULE = {"steps": 6, "checkpoint_every": 2, "validate_every": 3, "validate_tasks": 2, "halve_every": 4}


def rules():
    return NWay(small().train, 3, 1, 3), NWay(small().valid, 3, 1, 2)


def trained(keep=None, method="protonet", **schedule):
    return make(method, schedule={**SCHEDULE, **schedule}).meta_fit(*rules(), keep=keep)


class Heard:
    """Remembers the three calls, and meddles with every generator that a training could share."""

    def __init__(self):
        self.start, self.rows, self.end = [], [], []

    def on_start(self, config):
        self.start.append(json.loads(json.dumps(config)))

    def on_log(self, step, values):
        torch.manual_seed(step)
        np.random.seed(step)
        values["loss"] += 0.0
        self.rows.append({"step": step, **values})

    def on_end(self, result):
        self.end.append(result)


def read(path):
    with open(path, encoding="utf-8") as stream:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(stream)]


def test_every_number_is_told_and_none_is_changed(tmp_path):
    plain = trained(tmp_path / "plain")
    heard = Heard()
    with track(heard, "csv", folder=tmp_path / "track", name="a"):
        followed = trained(tmp_path / "followed")
    for (name, a), b in zip(plain.state().items(), followed.state().values(), strict=True):
        assert torch.equal(a, b), name
    log = read(tmp_path / "plain" / "log.csv")
    assert read(tmp_path / "followed" / "log.csv") == log
    assert read(tmp_path / "track" / "log.csv") == log == heard.rows
    assert [sorted(r) for r in log][2] == ["loss", "rate", "step", "valid"] and "valid" not in log[1]
    (config,) = heard.start
    assert config["method"] == "protonet" and config["options"]["schedule"]["steps"] == 6 and config["part"]
    assert heard.end == [{"finished": True, "steps": 6, "best": max(r["valid"] for r in log if "valid" in r)}]
    assert tracking.current() is None


def test_events_read_back_as_the_log(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs handful[track]"
    )
    with track("tensorboard", folder=tmp_path / "events"):
        trained(tmp_path / "keep")
    events = accumulator.EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    for key in ("loss", "rate", "valid"):
        told = [(e.step, e.value) for e in events.Scalars(key)]
        log = [(int(r["step"]), r[key]) for r in read(tmp_path / "keep" / "log.csv") if key in r]
        assert [s for s, _ in told] == [s for s, _ in log]
        np.testing.assert_allclose([v for _, v in told], [v for _, v in log], rtol=1e-6)
    assert b"protonet" in events.Tensors("config/text_summary")[0].tensor_proto.string_val[0]


def test_a_training_that_goes_on_after_a_kill_is_told_whole(tmp_path, monkeypatch):
    whole = Heard()
    with track(whole, folder=tmp_path):
        trained(tmp_path / "whole")
    from handful.methods import training

    real = training.task_batch_loss
    calls = []

    def dies(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(training, "task_batch_loss", dies)
    first, again = Heard(), Heard()
    with pytest.raises(KeyboardInterrupt), track(first, "csv", folder=tmp_path / "track"):
        trained(tmp_path / "killed")
    assert first.end == [{"finished": False, "steps": 4, "best": first.rows[2]["valid"], "reason": "KeyboardInterrupt"}]
    assert len(read(tmp_path / "track" / "log.csv")) == 4
    with track(again, "csv", folder=tmp_path / "track"):
        trained(tmp_path / "killed")
    assert again.rows == whole.rows == read(tmp_path / "track" / "log.csv")


def test_the_steps_of_two_stages_count_up(tmp_path):
    heard = Heard()
    with track(heard, folder=tmp_path):
        make("contrastive", pretrain={"steps": 2, "batch": 8}, schedule={"steps": 3}).meta_fit(rules()[0])
    assert [r["step"] for r in heard.rows] == [0, 1, 2, 3, 4] and len(heard.start) == 1


def test_a_tracker_that_fails_on_the_way_is_dropped_with_a_warning(tmp_path, capsys):
    class Fails(Heard):
        def on_log(self, step, values):
            if step == 2:
                raise ConnectionError("no route")
            super().on_log(step, values)

    fails, heard = Fails(), Heard()
    with track(fails, heard, folder=tmp_path):
        trained()
    assert len(fails.rows) == 2 and len(heard.rows) == 6 and not fails.end
    assert capsys.readouterr().err.count("Fails failed (no route)") == 1


def test_the_command_line_tracks_beside_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    packed = str(small().save(tmp_path / "patches").path)
    steps = ["-s", "schedule.steps=3", "--ways", "3", "--shots", "1"]
    main_(["train", "protonet", packed, "--out", "model", *steps, "--track", "csv", "--track", "tensorboard"])
    assert read("model.track/log.csv") == read("model/log.csv")
    assert list((tmp_path / "model.track").glob("events.out.tfevents.*"))
    main_(["train", "protonet", packed, "--out", "b", *steps, "--track", "csv", "--track-to", "logs/b"])
    assert read("logs/b/log.csv") == read("model/log.csv") and not (tmp_path / "b.track").exists()
    capsys.readouterr()
    main_(["train", "nearest-centroid", packed, "--out", "c", "--track", "csv"])
    assert "logged nothing to its trackers" in capsys.readouterr().err
    for wrong in ("cvs", "csv:x=1", "csv:x"):
        assert main_(["train", "protonet", packed, "--out", "d", *steps, "--track", wrong]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and not (tmp_path / "d").exists()
    assert main_(["train", "protonet", packed, "--out", "d", *steps, "--track", "csv", "--track", "csv"]) == 2


def main_(arguments):
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_model_of_two_stages_is_saved_by_the_command_line(tmp_path):
    packed = str(small().save(tmp_path / "patches").path)
    out = tmp_path / "model"
    few = ["--ways", "3", "--shots", "1", "--queries", "2", "-s", "pretrain.steps=1", "-s", "schedule.steps=1"]
    assert main_(["train", "contrastive", packed, "--out", str(out), *few]) == 0
    assert (out / "model.json").is_file() and [p.name for p in tmp_path.glob(".model*")] == []


def test_listing_trackers_imports_neither_torch_nor_them():
    code = (
        "import sys; from handful.cli import main\ntry:\n main(['ls', 'trackers'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'wandb', 'mlflow', 'tensorboard'} & set(sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == ["csv", "mlflow", "tensorboard", "wandb"]


def test_a_plug_in_is_found_by_its_entry_point(tmp_path, monkeypatch):
    module = types.ModuleType("my_tracker")
    heard = Heard()

    def made(folder, name, colour="red"):
        heard.made = (folder, name, colour)
        return heard

    module.make = made
    monkeypatch.setitem(sys.modules, "my_tracker", module)
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[handful.trackers]\nmine = my_tracker:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    registry.table.cache_clear()
    try:
        with track("mine:colour=blue", folder=tmp_path / "t", name="n"):
            trained()
    finally:
        registry.table.cache_clear()
        registry.get.cache_clear()
    assert heard.made == (tmp_path / "t", "n", "blue") and len(heard.rows) == 6


def test_a_package_that_is_not_there_is_named_before_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(Missing, match=r"pip install .*\[wandb\]'"), track("wandb", folder=tmp_path):
        pass
    with pytest.raises(BadInput, match="did you mean csv"), track("cvs", folder=tmp_path):
        pass


class Recorder:
    """Stands in for a package: remembers (name, arguments, options) of every call."""

    def __init__(self, calls, prefix=""):
        self._calls, self._prefix = calls, prefix

    def __getattr__(self, name):
        full = f"{self._prefix}{name}"

        def call(*arguments, **options):
            self._calls.append((full, arguments, options))
            return Recorder(self._calls, "run.")

        if name == "summary":
            return Recorder(self._calls, "run.summary.")
        return call


def test_weights_and_biases_gets_its_documented_calls(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, "wandb", Recorder(calls))
    with track("wandb:project=birds", folder=tmp_path / "w", name="first"):
        trained(tmp_path / "keep")
    name, _, options = calls[0]
    assert name == "init" and options["project"] == "birds" and options["name"] == "first"
    assert options["config"]["method"] == "protonet" and options["dir"] == str(tmp_path / "w")
    logged = [{"step": o["step"], **a[0]} for n, a, o in calls if n == "run.log"]
    assert logged == read(tmp_path / "keep" / "log.csv")
    assert calls[-2][0] == "run.summary.update" and calls[-1] == ("run.finish", (), {"exit_code": 0})


def test_mlflow_gets_its_documented_calls(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, "mlflow", Recorder(calls))
    with pytest.raises(RuntimeError), track("mlflow", folder=tmp_path, name="first"):
        trained(tmp_path / "keep")
        raise RuntimeError("later")
    names = [n for n, _, _ in calls]
    assert names[:2] == ["set_experiment", "start_run"] and calls[1][2] == {"run_name": "first"}
    parameters = {k: v for n, a, _ in calls if n == "log_params" for k, v in a[0].items()}
    assert parameters["options.schedule.steps"] == 6
    logged = [{"step": o["step"], **a[0]} for n, a, o in calls if n == "log_metrics"]
    assert logged == read(tmp_path / "keep" / "log.csv")
    assert calls[-1] == ("end_run", ("FAILED",), {})


def test_the_real_mlflow_keeps_the_numbers(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs handful[mlflow]")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with track("mlflow:experiment=e", folder=tmp_path, name="first"):
        trained(tmp_path / "keep")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert run.data.params["method"] == "protonet" and run.info.status == "FINISHED"
    told = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")]
    assert told == [(int(r["step"]), r["loss"]) for r in read(tmp_path / "keep" / "log.csv")]


def test_the_real_weights_and_biases_keeps_the_numbers_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs handful[wandb]")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with track("wandb", folder=tmp_path / "w", name="first"):
        trained(tmp_path / "keep")
    (file,) = (tmp_path / "w").rglob("*.wandb")
    data = file.read_bytes()
    for row in read(tmp_path / "keep" / "log.csv"):
        assert repr(row["loss"]).encode() in data
