"""Submissions in the starting kit's layout run unmodified, see only what they may, and are scored as they answer."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handful.challenge import packages, seeds, walls
from handful.challenge.failures import Failure, clean_text, tell
from handful.challenge.hidden import HiddenTasks, disguise, interleave
from handful.challenge.learner import stand_ins
from handful.challenge.plan import RunPlan
from handful.challenge.protocol import BadFrame, ChildReport, JobStage, Kind, Status, check_answer
from handful.challenge.sandbox import Session
from handful.challenge.sources import write_training
from handful.errors import BadInput, Missing

from .conftest import SMALL, needs_walls, source, tasks_of

KIT = '''
"""A submission as the starting kit lays it out: helpers beside it, pickled weights, seeds set on import."""
import os
import pickle
import random
from typing import Any, Iterable, List, Tuple

import numpy as np
import torch
import torch.nn as nn

from helpers import embed
from cdmetadl.api.api import MetaLearner, Learner, Predictor

SEED = 98
random.seed(SEED)
torch.manual_seed(SEED)
np.random.seed(SEED)


class MyMetaLearner(MetaLearner):
    def __init__(self, train_classes: int, total_classes: int, logger: Any) -> None:
        super().__init__(train_classes, total_classes, logger)
        print("classes", self.train_classes, self.total_classes)

    def meta_fit(self, meta_train_generator: Iterable[Any], meta_valid_generator: Iterable[Any]) -> Learner:
        seen = []
        for call in range(2):
            for data in meta_train_generator(3):
                if MODE == "task":
                    X, y, original = data.support_set
                    assert X.shape == (data.num_ways * data.num_shots, 3, 16, 16) and X.dtype == torch.float32
                    assert 0 <= X.min() and X.max() <= 1 and y.dtype == torch.int64
                    assert sorted(set(y.tolist())) == list(range(data.num_ways)) and data.dataset in ("one", "two", "three")
                    assert [int(data.original_class_idx[c]) for c in y] == original.tolist()
                    seen.append(tuple(original.tolist()))
                    self.log(data, np.eye(data.num_ways)[data.query_set[1].numpy()], 0.5)
                else:
                    X, y = data
                    assert X.shape == (16, 3, 16, 16) and y.shape == (16,) and y.max() < self.train_classes
                    seen.append(tuple(y.tolist()))
                    self.log(data, y.numpy(), 0.5)
        assert len(set(seen)) == 6, "every call goes on where the last one stopped"
        for task in meta_valid_generator(2):
            assert (task.num_ways, task.num_shots) == (5, 5) and len(task.query_set[1]) == 25
            self.log(task, task.query_set[1].numpy(), meta_train=False)
        return MyLearner([torch.ones(2)])


class MyLearner(Learner):
    def __init__(self, weights: List[torch.Tensor] = []) -> None:
        super().__init__()
        self.weights = weights

    def fit(self, support_set: Tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]) -> Predictor:
        X_train, y_train, original, n_ways, k_shots = support_set
        assert self.weights[0].sum() == 2
        assert len(X_train) == n_ways * k_shots and isinstance(n_ways, int)
        print("original", sorted(set(zip(y_train.tolist(), original.tolist()))))
        print("sees", [p for p in ("/train", "/saved", "/submission") if os.path.exists(p)])
        X = embed(X_train)
        return MyPredictor(torch.stack([X[y_train == c].mean(0) for c in range(n_ways)]))

    def save(self, path_to_save: str) -> None:
        assert os.path.isdir(path_to_save)
        with open(f"{path_to_save}/weights.pickle", "wb+") as f:
            pickle.dump(self.weights, f)
        print("training sees", [p for p in ("/train", "/saved", "/submission") if os.path.exists(p)])

    def load(self, path_to_load: str) -> None:
        with open(f"{path_to_load}/weights.pickle", "rb") as f:
            self.weights = pickle.load(f)


class MyPredictor(Predictor):
    def __init__(self, prototypes: torch.Tensor) -> None:
        super().__init__()
        self.prototypes = prototypes

    def predict(self, query_set: torch.Tensor) -> np.ndarray:
        logits = -torch.cdist(embed(query_set), self.prototypes)
        if ANSWER == "labels":
            return logits.argmax(1).numpy()
        if ANSWER == "probabilities":
            return logits.softmax(1).numpy()
        return logits.numpy()
'''
HELPERS = "import torch\ndef embed(X): return X.flatten(1)\n"
VALID = {"N": 5, "k": 5, "query_images_per_class": 5}


def kit(mode: str, answer: str) -> tuple[str, dict[str, str]]:
    config = {"train_data_format": mode, "batch_size": 16, "validation_datasets": 1, "valid_config": VALID}
    config["train_config"] = {"N": 5, "k": None, "min_k": 1, "max_k": 5, "query_images_per_class": 5}
    text = KIT.replace("SEED = 98", f"SEED = 98\nMODE = {mode!r}\nANSWER = {answer!r}")
    return text, {"helpers.py": HELPERS, "config.json": json.dumps(config), "metadata": "description: x\n"}


@needs_walls
@pytest.mark.parametrize(("mode", "answer"), [("task", "labels"), ("batch", "logits"), ("task", "probabilities")])
def test_a_starting_kit_submission_runs_unmodified(run, mode, answer):
    result = run(*kit(mode, answer))
    assert result.failure is None, (result.failure, result.failure and result.failure.log)
    assert result.score == pytest.approx(1.0), "the classes are far apart"
    assert len(result.frame) == 6 and set(result.frame["dataset"]) == {"one", "two", "three"}
    assert "meta-train 6: accuracy 1.0000 loss 0.5000" in result.train_log and "meta-valid 2" in result.train_log
    classes = "classes 5 20" if mode == "task" else "classes 20 20"
    assert classes in result.train_log, "one of three data sets of ten classes is held out"
    assert "training sees ['/train', '/submission']" in result.train_log
    assert "sees ['/saved', '/submission']" in result.test_log


@needs_walls
@pytest.mark.parametrize("ships", [True, False])
def test_submissions_that_import_the_interface_as_api_run(run, ships):
    text = source().replace("from cdmetadl.api.api import", "from api import")
    own = "from cdmetadl.ingestion.data_generator import Task\nclass Predictor: pass\nclass Learner: pass\nclass MetaLearner:\n    def __init__(self, a, b, c): pass\n"
    result = run(text, {"api.py": own} if ships else {})
    assert result.failure is None and result.score == pytest.approx(1.0)


@needs_walls
def test_a_helper_may_have_the_name_of_one_of_our_files(run):
    result = run(
        "import protocol, seccomp, child\nassert protocol.mine\n" + source(),
        dict.fromkeys(("protocol.py", "seccomp.py", "child.py"), "mine = True\n"),
    )
    assert result.failure is None, result.failure


@needs_walls
@pytest.mark.parametrize(
    ("config", "word"),
    [
        ("{", "not JSON"),
        ("[]", "object"),
        ("[" * 100_000, "nested"),
        ('{"train_config": ' * 100_000, "nested"),
        (None, "no file"),
        ('{"train_data_format": "stream"}', "task or batch"),
        ('{"batch_size": 0}', "batch_size"),
        ('{"validation_datasets": 10}', "validation_datasets"),
        ('{"validation_datasets": 3}', "only 3 training sets"),
        ('{"train_config": {"N": 5, "K": 3}}', "unknown key K"),
        ('{"train_config": {"query_images_per_class": 21}}', "at most 20"),
    ],
)
def test_a_bad_config_is_named(run, tmp_path, config, word):
    if config is None:
        (tmp_path / "submission" / "config.json").mkdir(parents=True)
    failure = run(source(), {} if config is None else {"config.json": config}).failure
    assert failure.code == "BAD_CONFIG" and word in failure.message


@needs_walls
def test_original_labels_say_nothing_about_the_class(run, sets):
    """The same class gets another stand-in in another task, and the stand-in is a permutation of the task's own labels."""
    text = source(
        fit="print('original', support_set[2].tolist(), support_set[1].tolist()); return _old_fit(self, support_set)"
    )
    result = run(text)
    assert result.failure is None
    rule = tasks_of(sets, ways=10, shots=1, queries=2)["one"]
    support = rule.support(rule.draw(1, 0))
    plan = RunPlan(tasks_per_dataset=1, secret=b"x")
    given = [stand_ins(replace(support, seed=seed), plan) for seed in range(200)]
    for original in given:
        assert sorted(set(original.tolist())) == list(range(10))
        assert len(set(zip(support.labels.tolist(), original.tolist(), strict=True))) == 10
    counts = np.bincount([original[0] for original in given], minlength=10)
    assert counts.min() >= 5, "every stand-in is about equally likely for one class"


def test_disguising_keeps_images_with_their_labels(sets):
    episode = tasks_of(sets, ways=4, shots=2, queries=3)["two"].draw(3, 1)
    changed = disguise(episode, 11)

    def named(images: np.ndarray, labels: np.ndarray, names: tuple[tuple[str, ...], ...]) -> set[tuple[int, str]]:
        return {(int(image), names[0][label]) for image, label in zip(images, labels, strict=True)}

    for side in ("support", "query"):
        before, after = ([getattr(e, side), getattr(e, f"{side}_labels"), e.names] for e in (episode, changed))
        assert named(*before) == named(*after) and before[0].tolist() != after[0].tolist()
    assert episode.support_labels[0] != changed.support_labels[changed.support.tolist().index(episode.support[0])]


def test_hidden_tasks_tell_a_table_their_data_set_and_nothing_else(sets):
    """Two secrets give other tasks under another id; side facts of a rule do not reach what participants download."""
    rules = tasks_of(sets, "n-way", ways=3, shots=2, queries=2)
    one, two = (HiddenTasks.of(rules, RunPlan(tasks_per_dataset=4, secret=s)) for s in (b"a", b"b"))
    assert len(one) == 12 and {e.side["dataset"] for e in one.draw_block(0, 0, 12)} == set(sets)
    assert all(set(e.side) == {"dataset"} for e in one.draw_block(0, 0, 12))
    assert one.tasks_id(0) != two.tasks_id(0), "runs of two secrets refuse to be compared"
    assert one.tasks_id(0) == HiddenTasks.of(rules, RunPlan(tasks_per_dataset=4, secret=b"a")).tasks_id(0)
    alone = [one.draw(0, i).support.tolist() for i in range(12)]
    assert alone == [e.support.tolist() for e in one.draw_block(0, 0, 12)]


def test_data_sets_are_interleaved():
    order = interleave(["a", "b", "c"], 50, 4)
    assert len(set(order)) == 150
    changes = sum(one[0] != two[0] for one, two in itertools.pairwise(order))
    assert changes > 70, "a run of one data set would change twice"


@needs_walls
def test_the_same_secret_gives_the_same_score_and_another_gives_other_tasks(run):
    text = source(predict="return np.random.rand(len(X), len(self.prototypes))")
    one, again, other = (run(text, secret=s) for s in (b"a", b"a", b"b"))
    assert one.frame.equals(again.frame) and not one.frame.equals(other.frame)


def test_a_commitment_holds_for_its_secret_only():
    secret = seeds.new_secret()
    published = seeds.commitment(secret, "challenge/final")
    assert seeds.holds(published, secret, "challenge/final")
    assert not seeds.holds(published, seeds.new_secret(), "challenge/final")
    assert not seeds.holds(published, secret, "challenge/feedback")
    assert seeds.derive(secret, "a", 1) != seeds.derive(secret, "a", 2) < 2**63


def test_untrusted_code_is_refused_where_bubblewrap_is_missing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    walls.detect.cache_clear()
    try:
        with pytest.raises(Missing, match="bubblewrap"):
            RunPlan(tasks_per_dataset=1, secret=b"").isolation()
        assert RunPlan(tasks_per_dataset=1, secret=b"", trust=True).isolation() == "none"
    finally:
        monkeypatch.undo()
        walls.detect.cache_clear()


def test_trusted_code_runs_without_bubblewrap(run):
    result = run(source(), trust=True)
    assert result.failure is None and result.score == pytest.approx(1.0)


def test_hidden_data_in_a_readable_folder_are_refused(tmp_path):
    from pathlib import Path

    walls.check_hidden([tmp_path])
    with pytest.raises(BadInput, match="can read"):
        walls.check_hidden([Path(sys.prefix) / "data"])
    with pytest.raises(BadInput, match="can read"):
        walls.check_hidden([Path(walls.__file__).parent])


def test_labels_logits_and_probabilities_are_told_apart_and_checked():
    labels = np.zeros((3, 4), np.float32)
    labels[:, 0] = [0, 3, 1]
    scores, code, _ = check_answer(labels.tobytes(), Kind.LABELS, 3, 4)
    assert code == "" and scores.argmax(1).tolist() == [0, 3, 1]
    for bad, expected in ((4, "BAD_LABEL"), (-1, "BAD_LABEL"), (0.5, "BAD_LABEL"), (np.nan, "NAN"), (np.inf, "NAN")):
        labels[0, 0] = bad
        assert check_answer(labels.tobytes(), Kind.LABELS, 3, 4)[1] == expected


def test_a_frame_has_one_size_whatever_it_says():
    for text in ("", "x" * 10_000, "\u00e9" * 3000):
        frame = ChildReport(JobStage.FITTED, Status.FIT_ERROR, Kind.SCORES, "E" * 500, text)
        assert len(frame.pack()) == 2048
        assert ChildReport.unpack(frame.pack()).status == Status.FIT_ERROR
    with pytest.raises(BadFrame):
        ChildReport.unpack(b"\xff" * 2048)


def test_what_a_participant_is_told_depends_on_the_phase():
    log = "\x1b[31mred\x1b[0m <script>alert(1)</script>\r\x1b]0;title\x07 \u202etxt" + "y" * 9000
    failure = Failure("FIT_ERROR", "fit", "ValueError: class 17", "ValueError", log)
    assert tell(failure, "full")["log"] == log
    tail = tell(failure, "tail", tail=100)
    assert len(tail["log"]) == 100 and tail["message"] == "ValueError: class 17"
    assert "\x1b" not in clean_text(log) and "\u202e" not in clean_text(log) and "title" not in clean_text(log)
    final = tell(failure, "code")
    assert (final["code"], final["error"], final["message"], final["log"]) == ("FIT_ERROR", "ValueError", "", "")
    leak = Failure("FIT_ERROR", "fit", "", "Labels_0110100111", "")
    assert tell(leak, "code")["error"] == "", "a home-made error's name could carry what it saw"


def test_no_log_and_no_choice_of_words_go_with_a_failure_of_the_platform():
    failure = Failure("PLATFORM", "start", "the sandbox did not start: mount", "OSError", "a line of the log")
    for policy in ("full", "tail", "code"):
        told = tell(failure, policy)
        assert told["log"] == "" and told["error"] == "" and told["code"] == "PLATFORM"
    assert tell(failure, "full")["message"] and not tell(failure, "tail")["message"]


@needs_walls
def test_a_job_that_cannot_be_confined_is_the_platforms_failure_and_is_not_run(run, monkeypatch, tmp_path):
    """One of the limits is impossible; the reason is told before the submission is imported."""
    marker = "print('imported', flush=True)\n"
    usual = Session.run

    def broken(session, kind, seed, **paths):
        session.limits = replace(session.limits, processes=-5)
        return usual(session, kind, seed, **paths)

    monkeypatch.setattr(Session, "run", broken)
    result = run(marker + source())
    assert result.failure.code == "PLATFORM" and "confine" in result.failure.message
    assert "imported" not in result.train_log + result.failure.log


SEES = """
import json
seen = []
for place, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(place, f) not in ("/proc", "/sys")]
    seen += [os.path.join(place, f) for f in files]
open("/tmp/seen", "w").write("x")
large = [p for p in seen if os.path.islink(p) is False and os.path.getsize(p) > 1 << 20]
print("tops=" + json.dumps(sorted(os.listdir("/"))))
print("weights=" + json.dumps([p for p in large if p.endswith((".pth", ".pt", ".safetensors", ".bin", ".onnx", ".npz"))]))
for name in ("planted_weights", "planted_code", "numpy", "torch"):
    try:
        __import__(name); print(name + "=imported")
    except ImportError as error:
        print(name + "=" + type(error).__name__)
"""


@needs_walls
@pytest.mark.parametrize("pretrained", [True, False])
def test_a_league_without_pretraining_sees_no_file_of_weights_anywhere(run, monkeypatch, pretrained):
    """The whole file system that a submission sees is walked, with a package of weights planted among the others."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        site = Path(folder, "site-packages")
        for name in ("planted_weights", "planted_code"):
            (site / name).mkdir(parents=True)
            (site / name / "__init__.py").write_text("")
        (site / "planted_weights/net.pth").write_bytes(bytes(2 << 20))
        (site / "planted_code/tests/data").mkdir(parents=True)
        (site / "planted_code/tests/data/arrays.npz").write_bytes(bytes(2 << 20))
        for place in (Path(folder), site, *(path for path in site.rglob("*") if path.is_dir())):
            place.chmod(0o755)
        usual = walls.package_folders()
        monkeypatch.setattr(walls, "package_folders", lambda: (*usual, str(site)))
        packages.carriers.cache_clear()
        try:
            hidden = packages.hidden(pretrained)
            result = run(source(top=SEES), tasks_per_dataset=1, hidden=hidden)
        finally:
            packages.carriers.cache_clear()
    assert result.failure is None, result.failure.log
    found = dict(line.split("=", 1) for line in result.test_log.splitlines() if "=" in line)
    assert found["planted_code"] == found["numpy"] == found["torch"] == "imported"
    assert found["planted_weights"] == ("imported" if pretrained else "ModuleNotFoundError")
    weights = json.loads(found["weights"])
    planted = [path for path in weights if path.endswith("planted_weights/net.pth")]
    assert planted if pretrained else weights == []
    own = {Path(root).parts[1] for root in walls.interpreter_roots()}
    usual_tops = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "sys", "proc", "dev", "tmp", "opt"}
    assert set(json.loads(found["tops"])) <= usual_tops | own | {"submission", "saved"}


@needs_walls
def test_a_league_that_lists_packages_shows_these_and_what_they_need(run):
    text = """
    for name in ("numpy", "torch", "sympy", "mpmath", "polars", "pytest"):
        try:
            __import__(name); print(name + "=imported")
        except ImportError: print(name + "=missing")
    """
    result = run(source(top=text), tasks_per_dataset=1, hidden=packages.hidden(False, ("sympy",)))
    assert result.failure is None, result.failure.log
    found = dict(line.split("=", 1) for line in result.test_log.splitlines() if "=" in line)
    assert [name for name, how in found.items() if how == "imported"] == ["numpy", "torch", "sympy", "mpmath"]
    with pytest.raises(BadInput, match="not installed"):
        packages.hidden(False, ("no-such-package",))


@needs_walls
def test_limits_of_the_sandbox_leave_room_for_a_real_network(run):
    """A small convolutional network with threads, DataLoader-free, trains inside the walls."""
    text = source(
        fit="""
        X, y, _, ways, _ = support_set
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(ways))
        net(X)
        opt = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(30):
            opt.zero_grad(); torch.nn.functional.cross_entropy(net(X), y).backward(); opt.step()
        p = _old_fit(self, support_set); p.net = net
        return p
        """,
        predict="return self.net(X).detach().numpy()",
    )
    result = run(text, tasks_per_dataset=1)
    assert result.failure is None, result.failure
    assert result.score > 0.5 and result.peak_bytes < SMALL.memory_bytes


@pytest.fixture(params=["022", "077"])
def umask(request):
    """Files that the evaluator makes are readable for others, or not."""
    before = os.umask(int(request.param, 8))
    yield request.param
    os.umask(before)


@needs_walls
def test_packages_that_lie_below_tmp_stay_in_sight_and_cannot_be_written(run, monkeypatch, umask, sets, tmp_path):
    """A checkout in /tmp has its interpreter there, which a job's own /tmp must not cover."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        # The interpreter's packages were installed for all to read, whatever the umask is now.
        Path(folder, "packages").mkdir()
        Path(folder, "packages").chmod(0o755)
        Path(folder, "packages", "rare_package.py").write_text("VALUE = 41\n")
        Path(folder, "packages", "rare_package.py").chmod(0o644)
        Path(folder, "beside").write_text("not shown")
        Path(folder).chmod(0o755)
        usual = walls.package_folders()
        monkeypatch.setattr(walls, "package_folders", lambda: (*usual, f"{folder}/packages"))
        fit = f"""
        import rare_package
        print("value", rare_package.VALUE + 1)
        print("beside", os.path.exists({folder + "/beside"!r}))
        try:
            open({folder + "/packages/new.py"!r}, "w")
            print("written")
        except OSError as error:
            print("refused", error.errno)
        open("/tmp/own", "w").write("x")
        return _old_fit(self, support_set)
        """
        save = """
        os.makedirs(path + "/deep/er")
        open(path + "/deep/er/weights.bin", "w").write("kept")
        """
        load = 'print("loaded", open(path + "/deep/er/weights.bin").read())'
        train = write_training(sets, tmp_path / "made-under-umask")
        result = run(source(fit=fit, save=save, load=load), train=train, tasks_per_dataset=1)
        assert result.failure is None, result.failure
        assert "loaded kept" in result.test_log
        assert "value 42" in result.test_log and "beside False" in result.test_log
        assert "refused" in result.test_log and "written" not in result.test_log
        assert os.listdir(f"{folder}/packages") == ["rare_package.py"]


def test_what_a_submission_is_known_or_says_to_be(tmp_path):
    from handful.challenge.learner import facts_of
    from handful.challenge.packing import pack_method

    pack_method("protonet", tmp_path / "p.zip", options={"net": "lite0"})
    shutil.unpack_archive(tmp_path / "p.zip", tmp_path / "packed")
    assert facts_of(tmp_path / "packed") == {
        "method": "protonet",
        "net": "lite0",
        "pretrained": "ImageNet's classes",
        "transductive": False,
    }
    config = tmp_path / "packed/config.json"
    config.write_text('{"transductive": true, "method": "mine", "net": "\\u001b[31mred\\u202e", "pretrained": ["x"]}')
    (tmp_path / "packed/method.json").write_text('{"method": ["protonet"], "options": 3}')
    told = facts_of(tmp_path / "packed")
    assert told["transductive"] is True and told["method"] == "mine" and told["pretrained"] == ""
    assert "\x1b" not in told["net"] and "\u202e" not in told["net"]
    for text in ("[" * 100_000, "3", "", '{"transductive": "yes"}'):
        config.write_text(text)
        assert facts_of(tmp_path / "packed")["transductive"] is False


def test_tasks_come_from_any_rule_that_shows_labelled_images(sets, tmp_path, train):
    from handful.challenge.evaluate import run_submission
    from handful.challenge.learner import SubmittedCode
    from handful.errors import Mismatch
    from handful.methods.contract import agree

    from .conftest import QUICK

    (tmp_path / "s").mkdir()
    (tmp_path / "s/model.py").write_text(source())
    rules = tasks_of(sets, "n-way", ways=4, shots=2, queries=3)
    plan = RunPlan(tasks_per_dataset=1, secret=b"s", times=QUICK, limits=SMALL, warm=(), trust=True)
    result = run_submission(tmp_path / "s", train, rules, plan, tmp_path / "w")
    assert result.failure is None and set(result.frame["ways"]) == {4} and set(result.frame["queries"]) == {12}
    clusters = tasks_of(sets, "clustering", of={"rule": "n-way", "ways": 4, "shots": 2, "queries": 3})
    with pytest.raises(Mismatch, match="labels"):
        agree(SubmittedCode(), clusters["one"])


def test_the_kits_generators_cap_ways_and_shots_to_the_data_set(tmp_path):
    """As the published kit does: config.json may ask for more classes and images than a data set has."""
    from handful.challenge.kit.cdmetadl.ingestion.data_generator import ConfigError, make_generators, read_config

    from .conftest import blobs

    sets = {"few": blobs(1, classes=3, each=8, size=4), "many": blobs(2, classes=9, each=12, size=4)}
    folder = write_training(sets, tmp_path / "train")

    def drawn(**stage) -> dict[str, set[tuple[int, int]]]:
        (tmp_path / "config.json").write_text(json.dumps({"train_config": {"query_images_per_class": 4, **stage}}))
        found: dict[str, set[tuple[int, int]]] = {"few": set(), "many": set()}
        for task in make_generators(str(folder), read_config(str(tmp_path / "config.json")), 0)[0](200):
            assert len(task.support_set[1]) == task.num_ways * task.num_shots
            found[task.dataset].add((task.num_ways, task.num_shots))
        return found

    assert drawn(N=5, k=10) == {"few": {(3, 4)}, "many": {(5, 8)}}
    ranged = drawn(N=None, min_N=5, max_N=7, k=None, min_k=6, max_k=7)
    assert ranged["few"] == {(n, k) for n in (2, 3) for k in (3, 4)}, "a range above what is there moves down"
    assert ranged["many"] == {(n, k) for n in (5, 6, 7) for k in (6, 7)}
    with pytest.raises(ConfigError, match="smallest class has 8"):
        drawn(query_images_per_class=8)


def test_the_stand_in_for_torchvision_is_a_resnet_by_its_public_names():
    """Parameter names and sizes are those of the published state dicts: 62 and 108 trained tensors, 11.7 and 21.8 M numbers."""
    import importlib.util

    kit = Path(walls.PACKAGE) / "challenge/kit/torchvision"
    spec = importlib.util.spec_from_file_location(
        "stand_in", kit / "__init__.py", submodule_search_locations=[str(kit)]
    )
    stand_in = importlib.util.module_from_spec(spec)
    sys.modules["stand_in"] = stand_in
    try:
        spec.loader.exec_module(stand_in)
        counts = {
            name: (len(list(net.parameters())), sum(p.numel() for p in net.parameters()))
            for name in ("resnet18", "resnet34", "resnet50")
            for net in [getattr(stand_in.models, name)()]
        }
        assert counts == {"resnet18": (62, 11_689_512), "resnet34": (110, 21_797_672), "resnet50": (161, 25_557_032)}
        names = stand_in.models.resnet18().state_dict()
        assert {"conv1.weight", "layer2.0.downsample.1.running_mean", "layer4.1.bn2.bias", "fc.bias"} <= set(names)
        with pytest.raises(RuntimeError, match="no network"):
            stand_in.models.resnet18(pretrained=True)
        import torch

        transforms = stand_in.transforms
        x = torch.rand(2, 3, 12, 12)
        chain = transforms.Compose([transforms.Normalize(-1.0, 2.0), transforms.RandomCrop(12, padding=2)])
        assert chain(x).shape == x.shape
        torch.testing.assert_close(transforms.Normalize([0.5] * 3, [0.25] * 3)(x), (x - 0.5) / 0.25)
        assert transforms.functional.resize(x, [5, 7], transforms.InterpolationMode.BILINEAR).shape == (2, 3, 5, 7)
        torch.testing.assert_close(transforms.RandomHorizontalFlip(1.0)(x), x.flip(-1))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "stand_in"]:
            del sys.modules[name]


@needs_walls
def test_a_submission_that_imports_torchvision_runs_and_a_missing_module_is_explained(run):
    text = """
    from torchvision import models, transforms
    net = models.resnet18(num_classes=3).eval()
    print("made", sum(p.numel() for p in net.parameters()))
    """
    result = run(source(top=text), tasks_per_dataset=1)
    assert result.failure is None, result.failure
    assert "made" in result.test_log
    failure = run("import no_such_package_anywhere\n" + source()).failure
    assert failure.code == "IMPORT_ERROR" and "no_such_package_anywhere" in failure.message
    assert "no network" in failure.message and "archive" in failure.message and "numpy" in failure.message
