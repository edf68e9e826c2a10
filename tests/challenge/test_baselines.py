"""The six baselines: the published hyper-parameters, learners that learn, and submissions that run behind the wall."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from handful.challenge.baselines import NAMES, baseline
from handful.errors import BadInput
from handful.methods.batch import pad
from handful.methods.metadl.adam import fit_linear_adam, picks
from handful.methods.metadl.finetuning import FineTuning
from handful.methods.metadl.metadelta import MetaDelta, average
from handful.methods.metadl.scratch import TrainFromScratch
from handful.methods.schedule import Schedule
from handful.tasks.anyway import AnyWay
from handful.tasks.episode import Query

from .conftest import needs_walls


def batch_of(random: torch.Generator, ways: list[int], shots: list[int]):
    tasks = []
    for n, k in zip(ways, shots, strict=True):
        s = torch.randn(n * k, 6, generator=random)
        tasks.append((s, np.tile(np.arange(n), k), torch.randn(7, 6, generator=random)))
    return tasks, [(n,) for n in ways], [11 * (i + 1) for i in range(len(ways))]


def test_the_batched_adam_is_torchs_adam():
    tasks, shapes, seeds = batch_of(torch.Generator().manual_seed(0), [3], [4])
    got = fit_linear_adam(pad(tasks, shapes, seeds), steps=40, rate=0.01, size=4)[0]
    support, labels, query = tasks[0]
    first = torch.rand(3, 6, generator=torch.Generator().manual_seed(seeds[0]))
    weight = ((2 * first - 1) * 6**-0.5).requires_grad_()
    bias = torch.zeros(3, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], 0.01)
    for at in picks(12, 40, 4, seeds[0] ^ 0x5EED):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(support[at] @ weight.T + bias, torch.from_numpy(labels)[at]).backward()
        optimiser.step()
    torch.testing.assert_close(got, (query @ weight.T + bias).detach(), atol=1e-5, rtol=1e-4)


def test_a_task_is_answered_alike_alone_and_beside_others():
    tasks, shapes, seeds = batch_of(torch.Generator().manual_seed(1), [2, 5, 3], [1, 3, 6])
    together = fit_linear_adam(pad(tasks, shapes, seeds), steps=30, rate=0.01, size=4)
    for i in range(3):
        alone = fit_linear_adam(
            pad(tasks[i : i + 1], shapes[i : i + 1], seeds[i : i + 1]), steps=30, rate=0.01, size=4
        )[0]
        torch.testing.assert_close(together[i, :, : shapes[i][0]], alone, atol=1e-5, rtol=1e-4)
        assert torch.isinf(together[i, :, shapes[i][0] :]).all()


def accuracy(learner, rule: AnyWay, n: int = 8) -> float:
    hits = []
    for episode in rule.draw_block(3, 0, n):
        task = rule.read(episode)
        hits.append((learner.fit(task.support).predict(task.query).argmax(1) == task.labels).mean())
    return float(np.mean(hits))


def test_training_from_scratch_learns_its_task_and_repeats_exactly(patches, tmp_path):
    from handful.methods.contract import FACTS

    rule = AnyWay(patches.test, 3, 5, 5)
    method = TrainFromScratch(net="conv4", steps=60)
    learner = method.untrained(rule.image_shape)
    assert accuracy(learner, rule, 5) > 0.8
    task = rule.read(rule.draw(1, 0))
    one, two = (learner.fit(task.support).predict(task.query) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    learner.save(tmp_path / "model")
    assert (tmp_path / "model" / FACTS).is_file()
    again = method.load(learner.state(), learner.facts(), learner.compute, "here")
    np.testing.assert_allclose(again.fit(task.support).predict(task.query), one, atol=1e-5)
    other = dataclasses.replace(task.support, seed=task.support.seed + 1)
    assert not np.allclose(learner.fit(other).predict(task.query), one), "the task's seed decides"


def test_each_query_is_answered_by_itself(patches):
    rule = AnyWay(patches.test, 3, 5, 5)
    task = rule.read(rule.draw(1, 0))
    for learner in (
        TrainFromScratch(net="conv4", steps=20).untrained(rule.image_shape),
        MetaDelta(net="conv4").untrained(rule.image_shape),
        FineTuning(net="conv4", steps=20).untrained(rule.image_shape),
    ):
        predictor = learner.fit(task.support)
        whole = predictor.predict(task.query)
        part = predictor.predict(Query(task.query.images[4:6]))
        np.testing.assert_allclose(whole[4:6], part, atol=1e-4)


def test_fine_tuning_is_better_after_pre_training(patches):
    train, test = AnyWay(patches.train, 5, 5, 5), AnyWay(patches.test, 3, 2, 10)
    method = FineTuning(net="conv4", schedule=Schedule(steps=40, batch=16))
    before, after = accuracy(method.untrained(train.image_shape), test), accuracy(method.meta_fit(train), test)
    assert after > 0.8 and after > before + 0.2, (before, after)


def quick(**changes) -> MetaDelta:
    schedule = Schedule(steps=12, batch=32, accumulate=2, clip=5.0, validate_every=3, validate_tasks=8)
    return MetaDelta(**{"net": "conv4", "schedule": schedule, "seconds": 60.0, **changes})


def test_metadelta_trains_validates_and_ensembles(patches):
    train, valid, test = AnyWay(patches.train, 5, 5, 5), AnyWay(patches.valid, 2, 5, 5), AnyWay(patches.test, 3, 1, 10)
    learner = quick().meta_fit(train, valid)
    assert accuracy(learner, test) > 0.75
    classifiers = learner.modules["classifiers"]
    assert len(classifiers) == 2 and classifiers[0].out_features == 4 * train.n_classes, "classes times quarter turns"


def test_metadelta_stops_when_its_time_is_up(patches):
    import time

    train = AnyWay(patches.train, 5, 5, 5)
    method = quick(seconds=1.0, schedule=Schedule(steps=10**6, batch=16, accumulate=1, validate_every=0))
    began = time.monotonic()
    method.meta_fit(train)
    assert time.monotonic() - began < 60


def test_frozen_stages_do_not_move(patches):
    train = AnyWay(patches.train, 5, 5, 5)
    method = quick(net="resnet18", frozen=("conv1", "layer1"), schedule=Schedule(steps=1, batch=8, accumulate=1))
    before = {k: v.clone() for k, v in method.untrained(train.image_shape, train.n_classes).backbone.named_parameters()}
    after = dict(method.meta_fit(train).backbone.named_parameters())
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert "layer4" in moved and not moved & {"conv1", "layer1"}


def test_the_rotation_loss_asks_for_class_and_turn(patches):
    """With a network that reads the turned image off its own pixels, only 4y + r is right."""
    method = quick(classifiers=1)
    learner = method.untrained((16, 16, 3), 3)
    x = torch.rand(8, 3, 16, 16)
    torch.manual_seed(5)
    loss = method.batch_loss(learner.modules, x, torch.arange(8) % 3)
    torch.manual_seed(5)
    turns = torch.randint(4, (8,))
    turned = torch.stack([torch.rot90(image, int(turn), (1, 2)) for image, turn in zip(x, turns, strict=True)])
    logits = learner.modules["classifiers"][0](learner.backbone(turned))
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, 4 * (torch.arange(8) % 3) + turns))


def test_averaging_states_averages_numbers_and_keeps_counters():
    states = [
        {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)},
        {"w": torch.tensor([3.0, 6.0]), "n": torch.tensor(9)},
    ]
    got = average(states)
    assert got["w"].tolist() == [2.0, 4.0] and int(got["n"]) == 3


def test_the_published_hyper_parameters():
    made = {name: baseline(name) for name in NAMES}
    methods = {name: method for name, (method, _) in made.items()}
    assert all(method.net == "resnet18" for method in methods.values())
    for name in ("train-from-scratch", "fine-tuning"):
        assert (methods[name].steps, methods[name].rate, methods[name].task_batch) == (100, 0.001, 4)
    for name in ("fine-tuning", "matchingnet", "protonet"):
        schedule = methods[name].schedule
        assert (schedule.steps, schedule.validate_every, schedule.validate_tasks) == (30_000, 5_000, 300)
        assert (schedule.optimiser, schedule.rate, schedule.select) == ("adam", 0.001, "best")
    assert methods["fine-tuning"].schedule.batch == 16 and methods["protonet"].schedule.tasks == 1
    maml = methods["fo-maml"]
    assert (maml.inner_rate, maml.inner_steps, maml.test_steps, maml.schedule.tasks) == (0.01, 5, 5, 2)
    assert maml.schedule.steps * maml.schedule.tasks == 30_000 and maml.schedule.rate == 0.001
    delta = methods["metadelta++"]
    assert delta.seconds == 3.5 * 3600 and delta.schedule.batch == 64
    assert delta.schedule.validate_every * delta.schedule.accumulate == 50 and delta.schedule.validate_tasks == 50
    assert made["metadelta++"][1]["valid"]["queries"] == 5 and made["protonet"][1]["valid"]["queries"] == 20
    assert made["protonet"][1]["train"] == {"ways": 5, "shots": 10, "queries": 20}
    within, tasks = baseline("protonet", within_domain=True)
    assert (within.schedule.steps, within.schedule.validate_every, within.schedule.validate_tasks) == (4_290, 750, 100)
    assert tasks["validation_datasets"] == 0
    assert baseline("metadelta++", within_domain=True)[0].seconds == 1800
    with pytest.raises(BadInput, match="protonet"):
        baseline("protonets")


@pytest.mark.parametrize(("table", "within"), [("metadl/table5-cross", False), ("metadl/table5-within", True)])
@pytest.mark.parametrize("weights", ["", "resnet18.safetensors"])
def test_the_recipes_are_what_pack_packs(table, within, weights):
    from handful.methods.contract import make
    from handful.runs.recipe import read_recipe

    recipe = read_recipe(table, variants=("pretrained",) if weights else ())
    net = f"resnet18:weights={weights}" if weights else "resnet18"
    assert sorted(spec.name for spec in recipe.method) == sorted(NAMES)
    for spec in recipe.method:
        packed, tasks = baseline(spec.name, net=net, within_domain=within)
        assert make(spec.name, **spec.options).options() == packed.options(), spec.name
        assert (recipe.train.ways, recipe.train.shots) == (tasks["train"]["ways"], tasks["train"]["shots"])


SMALL_OPTIONS = {
    "train-from-scratch": {"steps": 20},
    "metadelta++": {"schedule.steps": 2, "schedule.accumulate": 1, "schedule.batch": 16, "schedule.validate_every": 0},
}


@needs_walls
@pytest.mark.parametrize("name", NAMES)
def test_a_packed_baseline_runs_behind_the_wall(name, tmp_path, sets, train, hidden):
    from handful.challenge.archive import root_of, unpack
    from handful.challenge.evaluate import run_submission
    from handful.challenge.packing import pack_method
    from handful.challenge.plan import RunPlan

    from .conftest import QUICK, SMALL

    few = {"schedule.steps": 2, "schedule.validate_every": 0}
    method, _ = baseline(name, net="conv4", **SMALL_OPTIONS.get(name, few))
    tasks = {"train": {"ways": 5, "shots": 5, "queries": 5}, "valid": {"ways": 5, "shots": 5, "queries": 5}}
    packed = pack_method(method, tmp_path / "s.zip", **tasks)
    folder = root_of(unpack(packed, tmp_path / "code").folder)
    times = dataclasses.replace(QUICK, load=120, train=300, fit=120, predict=120, total=900)
    limits = dataclasses.replace(
        SMALL, memory_bytes=3 << 30, saved_bytes=200 << 20, tmp_bytes=300 << 20, file_bytes=200 << 20
    )
    plan = RunPlan(tasks_per_dataset=1, secret=b"s", times=times, limits=limits, warm=())
    result = run_submission(folder, train, hidden, plan, tmp_path / "work")
    assert result.failure is None, (result.failure, result.failure and result.failure.log)
    assert len(result.frame) == 3 and np.isfinite(result.score)


@needs_walls
@pytest.mark.parametrize("name", ["protonet", "metadelta++"])
def test_a_pre_trained_resnet18_goes_in_the_archive_and_is_what_the_learner_starts_from(
    name, tmp_path, sets, train, hidden
):
    import json

    from safetensors.torch import load_file, save_file
    from typer.testing import CliRunner

    from handful.challenge.archive import root_of, unpack
    from handful.challenge.evaluate import run_submission
    from handful.challenge.plan import RunPlan
    from handful.cli import app
    from handful.nets import build

    from .conftest import QUICK, SMALL

    weights = {k: v.contiguous() for k, v in build("resnet18", (16, 16, 3)).state_dict().items()}
    weights["conv1.weight"] = torch.full_like(weights["conv1.weight"], 0.125)
    save_file(weights, tmp_path / "backbone.safetensors")
    few = SMALL_OPTIONS.get(name, {"schedule.steps": 1, "schedule.validate_every": 0, "schedule.rate": 1e-12})
    settings = [part for key, value in few.items() for part in ("-s", f"{key}={value}")]
    command = ["challenge", "pack", name, str(tmp_path / "s.zip"), "--baseline"]
    done = CliRunner().invoke(app, [*command, "--weights", str(tmp_path / "backbone.safetensors"), *settings])
    assert done.exit_code == 0, done.output
    folder = root_of(unpack(tmp_path / "s.zip", tmp_path / "code").folder)
    facts = json.loads((folder / "method.json").read_text())
    assert facts["options"]["net"] == "resnet18:weights={archive}/backbone.safetensors"
    if name == "metadelta++":
        assert facts["options"]["frozen"] == ["conv1", "bn1", "layer1", "layer2"]
    facts |= {"train": {"ways": 5, "shots": 2, "queries": 2}, "valid": {"ways": 5, "shots": 2, "queries": 2}}
    (folder / "method.json").write_text(json.dumps(facts))
    (folder / "config.json").write_text(json.dumps({"train_data_format": "batch", "validation_datasets": 0}))
    times = dataclasses.replace(QUICK, load=120, train=300, fit=120, predict=120, total=900)
    limits = dataclasses.replace(
        SMALL, memory_bytes=3 << 30, saved_bytes=200 << 20, tmp_bytes=300 << 20, file_bytes=200 << 20
    )
    plan = RunPlan(tasks_per_dataset=1, secret=b"s", times=times, limits=limits, warm=())
    result = run_submission(folder, train, hidden, plan, tmp_path / "work")
    assert result.failure is None, (result.failure, result.failure and result.failure.log)
    (saved,) = (tmp_path / "work").rglob("*.safetensors")
    kept = {k: v for k, v in load_file(saved).items() if k.endswith("conv1.weight") and "layer" not in k}
    assert kept and all(torch.allclose(v, torch.tensor(0.125), atol=1e-6) for v in kept.values())


def test_what_needs_more_than_labelled_images_cannot_be_packed(tmp_path):
    from handful.challenge.packing import pack_method
    from handful.errors import Mismatch

    with pytest.raises(Mismatch, match="labelled images"):
        pack_method("pair-protonet", tmp_path / "x.zip")


def test_images_reach_a_submission_as_torch_would_divide_them():
    from handful.challenge.kit.cdmetadl.ingestion.data_generator import to_tensor

    images = np.random.default_rng(0).permutation(np.arange(2 * 8 * 16 * 3) % 256).astype(np.uint8).reshape(2, 8, 16, 3)
    given = to_tensor(images)
    assert given.is_contiguous() and given.dtype == torch.float32
    assert torch.equal(given, torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)


def test_the_bridge_gives_the_learner_the_bytes_that_were_packed():
    from handful.challenge.bridge import MountedSets, _bytes
    from handful.challenge.kit.cdmetadl.ingestion.data_generator import to_tensor

    images = np.random.default_rng(0).integers(0, 256, (7, 5, 5, 3), dtype=np.uint8)
    images[0, 0, 0] = [0, 127, 255]
    np.testing.assert_array_equal(_bytes(to_tensor(images)), images)

    class Each:
        def __init__(self, name: str, start: int) -> None:
            self.name, self.images, self.labels = name, images[start : start + 3], np.array([0, 1, 1])

    mounted = MountedSets([Each("a", 0), Each("b", 3)])
    np.testing.assert_array_equal(mounted.read(np.array([5, 0, 3])), images[[5, 0, 3]])
    assert mounted.whole.n_classes == 4 and mounted.whole.datasets[1] == ["a", "b"]
