"""Training: exact resume, learning, and the limits that tie methods together."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from handful.errors import BadInput, Mismatch
from handful.methods import load, make
from handful.methods.augment import augment
from handful.methods.schedule import Schedule
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.options import build
from handful.runs import evaluate
from handful.tasks import NWay
from learning import decide
from made.benches import small

SHORT = {"schedule": {"steps": 30, "rate": 3e-3, "batch": 32}}


def rules():
    return NWay(small().train, 4, 2, 4), NWay(small().test, 4, 1, 5)


@pytest.mark.learning
@pytest.mark.parametrize(
    "name",
    # Of the slow ones, baseline and baseline++ are also asked the same on the world, in test_learning.py.
    [
        "protonet",
        "matchingnet",
        "fo-maml",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("baseline", "baseline++", "maml")),
    ],
)
def test_a_trained_learner_beats_itself_untrained_on_the_same_tasks(name):
    from made.patterns import blobs

    hard = blobs(n_classes=40, each=24, noise=170, seed=3)
    train, test = NWay(hard.train, 4, 2, 4), NWay(hard.test, 4, 1, 5)
    options = {"schedule": {"steps": 120, "rate": 2e-3, "batch": 64}}
    if "maml" in name:
        options = {"schedule": {"steps": 60, "rate": 2e-3, "tasks": 2}, "inner_steps": 2, "test_steps": 3}
    method = make(name, **options)
    n = 40 if "maml" in name else 120
    before = evaluate(method.untrained(hard.card.shape, train.n_classes), test, n=n)
    after = evaluate(method.meta_fit(train), test, n=n)
    decide(after.compare(before).difference, above=0)


@pytest.mark.parametrize("name", ["protonet", "baseline", "fo-maml"])
def test_a_killed_training_goes_on_exactly(name, tmp_path, monkeypatch):
    train, _ = rules()
    valid = NWay(small().valid, 3, 1, 2)
    schedule = {
        "steps": 9,
        "checkpoint_every": 4,
        "validate_every": 3,
        "validate_tasks": 3,
        "augment": ["crop", "flip", "jitter"],
    }
    method = make(name, schedule=schedule)
    whole = method.meta_fit(train, valid, keep=tmp_path / "whole").state()

    import handful.methods.training as training

    original, count = training._Progress.log, []

    def dying(self, step, loss):
        original(self, step, loss)
        count.append(step)
        if step == 6 and len(count) < 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(training._Progress, "log", dying)
    with pytest.raises(KeyboardInterrupt):
        method.meta_fit(train, valid, keep=tmp_path / "cut")
    resumed = method.meta_fit(train, valid, keep=tmp_path / "cut").state()
    assert count == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8]
    for key in whole:
        assert torch.equal(whole[key], resumed[key]), key
    other = make(name, schedule={**schedule, "rate": 0.5})
    with pytest.raises(BadInput, match="another training"):
        other.meta_fit(train, valid, keep=tmp_path / "cut")


def test_maml_equals_fo_maml_at_inner_rate_zero():
    train, _ = rules()
    losses = []
    for name in ("maml", "fo-maml"):
        learner = make(name, inner_rate=0.0, inner_steps=2).untrained(train.image_shape)
        learner.modules.train()
        task = train.read(train.draw(0, 0))
        loss = learner.outer_loss([task], torch.Generator())
        grads = torch.autograd.grad(loss, list(learner.modules.parameters()), allow_unused=True)
        losses.append((loss.item(), grads))
    assert losses[0][0] == losses[1][0]
    for a, b in zip(losses[0][1], losses[1][1], strict=True):
        torch.testing.assert_close(a, b)


def test_maml_and_fo_maml_differ_otherwise_and_vmap_equals_the_loop():
    train, _ = rules()
    tasks = [train.read(train.draw(0, i)) for i in range(2)]
    found = {}
    for name in ("maml", "fo-maml"):
        learner = make(name, inner_rate=0.1, inner_steps=2).untrained(train.image_shape)
        learner.modules.double().train()
        backbone = learner.modules["backbone"]
        x = [backbone.normalise(torch.from_numpy(t.support.images)) for t in tasks]
        q = [backbone.normalise(torch.from_numpy(t.query.images)) for t in tasks]
        y, qy = [torch.from_numpy(t.support.labels) for t in tasks], [torch.from_numpy(t.labels) for t in tasks]
        loop = torch.stack([learner.task_loss(x[i], y[i], q[i], qy[i], 4) for i in range(2)]).mean()
        parameters = list(learner.modules.parameters())
        grads = torch.autograd.grad(loop, parameters)
        together = learner.vmapped_loss(*map(torch.stack, (x, y, q, qy)), ways=4)
        torch.testing.assert_close(loop, together)
        for a, b in zip(grads, torch.autograd.grad(together, parameters), strict=True):
            torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-6)
        found[name] = grads
    assert any((a - b).abs().max() > 1e-4 for a, b in zip(found["maml"], found["fo-maml"], strict=True))


def test_matchingnet_equals_cosine_protonet_at_one_shot():
    _, test = rules()
    matching = make("matchingnet", scale=10.0).untrained(test.image_shape)
    proto = make("protonet", distance="cosine", temperature=0.1).untrained(test.image_shape)
    proto.modules.load_state_dict(matching.modules.state_dict())
    for i in range(5):
        task = test.read(test.draw(0, i))
        a, b = (m.fit(task.support).predict(task.query) for m in (matching, proto))
        a, b = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (a, b))
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_prototypes_by_hand():
    from handful.tasks.episode import Query, Support

    images = np.asarray([[[[0, 0]]], [[[2, 0]]], [[[0, 8]]]], dtype=np.float32).reshape(3, 2)
    learner = make("nearest-centroid").untrained((2,))
    scores = learner.fit(Support((2,), images, np.asarray([0, 0, 1]))).predict(
        Query(np.asarray([[1.0, 3.0]], np.float32))
    )
    np.testing.assert_allclose(scores, [[-9.0, -26.0]], atol=1e-5)


def test_matching_attention_by_hand():
    from handful.tasks.episode import Query, Support

    s = np.asarray([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    learner = make("matchingnet", net="pixels", scale=2.0).untrained((2,))
    scores = learner.fit(Support((2,), s, np.asarray([0, 0, 1]))).predict(Query(np.asarray([[1.0, 0.0]], np.float32)))
    e = np.exp(2 * np.asarray([1, 0, np.sqrt(0.5)]))
    np.testing.assert_allclose(np.exp(scores[0]), [(e[0] + e[1]) / e.sum(), e[2] / e.sum()], atol=1e-5)


def test_the_linear_head_equals_torch_sgd_on_one_task():
    from handful.methods.batch import pad
    from handful.methods.heads import first_weights, fit_linear

    rng = torch.Generator().manual_seed(0)
    s, q, y = torch.randn(8, 5, generator=rng), torch.randn(3, 5, generator=rng), np.arange(8) % 4
    batch = pad([(s, y, q)], [(4,)], [17])
    mine = fit_linear(batch, steps=20, rate=0.1, weight_decay=0.01, batch=0)
    layer = torch.nn.Linear(5, 4)
    with torch.no_grad():
        for own, start in zip((layer.weight, layer.bias), first_weights(batch), strict=True):
            own.copy_(start[0])
    optimiser = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9, dampening=0.9, weight_decay=0.01)
    for _ in range(20):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(layer(s), torch.as_tensor(y)).backward()
        optimiser.step()
    torch.testing.assert_close(mine[0], layer(q).detach(), atol=1e-5, rtol=1e-4)


def test_options_are_checked_and_nested_ones_reach_their_place():
    method = make("protonet", **{"schedule.steps": 7, "net": "resnet12"})
    assert method.schedule.steps == 7 and method.net == "resnet12"
    with pytest.raises(BadInput, match="did you mean steps"):
        make("protonet", schedule={"step": 7})
    with pytest.raises(BadInput, match="cannot be 'many'"):
        make("protonet", schedule={"steps": "many"})
    with pytest.raises(BadInput, match="did you mean conv4"):
        make("protonet", net="conv").untrained((16, 16, 3))
    with pytest.raises(BadInput, match="euclidean"):
        make("protonet", distance="far")
    assert build(Schedule, {"milestones": [3, 5]}, "x").milestones == (3, 5)


def test_a_checkpoint_of_another_backbone_is_refused(tmp_path):
    make("protonet").untrained((16, 16, 3)).save(tmp_path / "a")
    make("protonet", net="conv4:filters=32").untrained((16, 16, 3)).save(tmp_path / "b")
    (tmp_path / "a" / "model.safetensors").replace(tmp_path / "b" / "model.safetensors")
    with pytest.raises(Mismatch, match=r"backbone.blocks.0.0.weight is .* not .* and \d+ more"):
        load(tmp_path / "b")
    with pytest.raises(BadInput, match="not a model folder"):
        load(tmp_path)


def test_a_pickle_is_never_opened(tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    (tmp_path / "w.pth").write_bytes(pickle.dumps({"a": Evil()}))
    with pytest.raises(BadInput, match="plain tensors"):
        build_net(f"conv4:weights={tmp_path / 'w.pth'}", (16, 16, 3))
    torch.save({"a": Evil()}, tmp_path / "v.pth")
    with pytest.raises(BadInput, match="plain tensors"):
        build_net(f"conv4:weights={tmp_path / 'v.pth'}", (16, 16, 3))
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("spec", ["conv4", "resnet12", "resnet18"])
@pytest.mark.parametrize("channels", [1, 3])
def test_backbones_state_their_shapes(spec, channels):
    net = build_net(spec, (32, 32, channels))
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, channels), dtype=np.uint8)
    compute = Compute(batch=4)
    assert embed_images(net, images, compute).shape == (3, net.width)
    assert embed_images(net, images, compute, maps=True).shape == (3, *net.map_shape)


@pytest.mark.parametrize("spec", ["conv4", "resnet12", "resnet18"])
def test_an_embedding_does_not_depend_on_its_neighbours_to_the_bit(spec):
    net = build_net(spec, (32, 32, 3))
    images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    compute = Compute(batch=16)
    straight = embed_images(net, images, compute)
    order = np.random.default_rng(1).permutation(40)
    assert torch.equal(straight[torch.from_numpy(order)], embed_images(net, images[order], compute))
    assert torch.equal(straight[:3], embed_images(net, images[:3], compute))


def test_pretrained_features_know_photographs(shared):
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs handful[pretrained]")
    net = build_net("lite0", (84, 84, 3))
    assert net.width == 1280
    images = np.random.default_rng(0).integers(0, 256, (2, 84, 84, 3), dtype=np.uint8)
    assert embed_images(net, images, Compute(batch=2)).shape == (2, 1280)


def test_augmentation_keeps_shape_and_repeats():
    images = torch.randint(0, 256, (6, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    kinds = ("crop", "flip", "jitter")
    a = augment(images, kinds, torch.Generator().manual_seed(2))
    assert torch.equal(a, augment(images, kinds, torch.Generator().manual_seed(2)))
    assert a.shape == images.shape and a.dtype == torch.uint8 and not torch.equal(a, images)
    flipped = augment(images, ("flip",), torch.Generator().manual_seed(2))
    assert all(torch.equal(f, i) or torch.equal(f, i.flip(1)) for f, i in zip(flipped, images, strict=True))


def test_a_resized_crop_is_a_rectangle_of_the_image_at_its_size():
    """On a picture of its own coordinates, what is seen says which rectangle it is; areas run from 8% to all."""
    row, column = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
    picture = torch.stack([4 * column, 4 * row, torch.full_like(row, 77)], -1).to(torch.uint8)
    seen = augment(picture.expand(400, 64, 64, 3), ("resized-crop",), torch.Generator().manual_seed(0)).double()
    assert (seen[..., 2] == 77).all()
    assert float((seen[..., 0] - seen[:, :1, :, 0]).abs().max()) <= 1, "columns stay upright"
    wide = (seen[:, 0, 48, 0] - seen[:, 0, 15, 0]) / 4 / 33
    high = (seen[:, 48, 0, 1] - seen[:, 15, 0, 1]) / 4 / 33
    area, ratio = wide * high, wide / high
    assert float(area.min()) > 0.06 and float(area.min()) < 0.12 and float(area.max()) > 0.9
    assert float(ratio.min()) > 0.7 and float(ratio.max()) < 1.45 and float(ratio.std()) > 0.1
    assert float(seen[..., 0].min()) == 0 and float(seen[..., 0].max()) == 252, "all of the picture is in reach"


def test_the_rate_warms_up_and_falls_as_torchs_cosine_does():
    s = Schedule(rate=0.4, steps=14, warm_up=4, cosine=True)
    assert [s.rate_at(t) for t in range(4)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.4)
    torchs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 10)
    for step in range(4, 14):
        assert s.rate_at(step) == pytest.approx(torchs.get_last_lr()[0])
        optimiser.step()
        torchs.step()
    told = make("protonet", schedule=s).options()["schedule"]
    assert told["warm_up"] == 4 and told["cosine"] is True
    assert not {"warm_up", "cosine"} & set(make("protonet").options()["schedule"]), "older results stay known"
    with pytest.raises(BadInput, match="warm_up"):
        Schedule(warm_up=-1)


def test_the_rate_follows_the_schedule():
    s = Schedule(rate=1.0, halve_every=10)
    assert [s.rate_at(t) for t in (0, 9, 10, 25)] == [1.0, 1.0, 0.5, 0.25]
    for steps in (10, 100):  # a share of the training moves along with its length, a step does not
        shares = dataclasses.replace(s, halve_every=0, steps=steps, milestones=(0.5, 0.8))
        rates = [shares.rate_at(i) / shares.rate for i in (steps // 2 - 1, steps // 2, 8 * steps // 10)]
        np.testing.assert_allclose(rates, [1, shares.decay, shares.decay**2])
    s = dataclasses.replace(s, halve_every=0, milestones=(5, 8))
    assert [round(s.rate_at(t), 6) for t in (4, 5, 8)] == [1.0, 0.1, 0.01]
    with pytest.raises(BadInput):
        Schedule(steps=-1)
    with pytest.raises(BadInput):
        Compute(device="gpu9")
