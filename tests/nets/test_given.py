"""Networks of the user's own: modules and factories where a net's name is asked for, and plug-ins that are not whole."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

import handful as hf
from handful import registry
from handful.errors import BadInput, Mismatch
from handful.nets import Backbone, build
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from made.benches import small


def module(out: int = 8, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(3, out, 3, 2, 1), nn.ReLU())


def tasks(split: str = "test"):
    return hf.tasks.NWay(small().part(split), 3, 2, 4)


def test_a_module_s_maps_are_averaged_and_its_vectors_are_left_alone():
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    net = module()
    maps, flat = build(net, (16, 16, 3)), build(nn.Sequential(net, nn.Flatten()), (16, 16, 3))
    assert maps.map_shape == (8, 8, 8) and maps.width == 8 and flat.width == 512 and flat.map_shape == (512, 1, 1)
    with torch.no_grad():
        expected = net(x)
    torch.testing.assert_close(embed_images(maps, images, Compute()), expected.mean((2, 3)))
    torch.testing.assert_close(embed_images(maps, images, Compute(), maps=True), expected)
    torch.testing.assert_close(embed_images(flat, images, Compute()), expected.flatten(1))


def test_a_module_may_say_how_it_wants_its_images():
    net = module()
    net.mean, net.std, net.size = (0.5, 0.4, 0.3), torch.tensor([0.2, 0.2, 0.1]), 32
    made = build(net, (16, 16, 3))
    x = made.normalise(torch.full((1, 16, 16, 3), 255, dtype=torch.uint8))
    assert x.shape == (1, 3, 32, 32)
    torch.testing.assert_close(x[0, :, 0, 0], torch.tensor([2.5, 3.0, 7.0]))


@pytest.mark.parametrize("make", [module, lambda shape: nn.Flatten(), lambda: module(4)])
def test_evaluate_takes_a_factory(make):
    run = hf.evaluate(hf.methods.NearestCentroid(net=make), tasks(), n=4)
    assert len(run.frame) == 4


def test_a_run_names_the_module_in_text_and_goes_on_only_with_the_same(tmp_path):
    net = module()
    run = hf.evaluate(hf.methods.NearestCentroid(net=net), tasks(), n=4, out=tmp_path / "run")
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "Sequential" in json.dumps(told) and run.identity["options"]["net"].startswith(
        "module:name=Sequential,hash="
    )
    again = hf.evaluate(hf.methods.NearestCentroid(net=net), tasks(), n=4, out=tmp_path / "run")
    assert again.frame.equals(run.frame)
    with pytest.raises(BadInput, match="another run"):
        hf.evaluate(hf.methods.NearestCentroid(net=module(seed=1)), tasks(), n=4, out=tmp_path / "run")


def test_a_module_goes_to_other_processes_and_scores_the_same():
    method = hf.methods.NearestCentroid(net=module())
    here, there = (hf.evaluate(method, tasks(), n=4, engine=e, workers=w) for e, w in (("inline", 1), ("processes", 2)))
    assert here.frame.equals(there.frame)


def test_a_recipe_s_kept_model_is_loaded_with_the_module_again(tmp_path):
    from handful.runs.learners import learner_of

    method = hf.methods.ProtoNet(net=module(), schedule=hf.Schedule(steps=1))
    first, second = (learner_of(method, train=tasks("train"), keep=tmp_path / "model") for _ in range(2))
    assert all(torch.equal(v, second.state()[k]) for k, v in first.state().items())


def test_what_a_module_computes_is_part_of_its_name():
    relu, tanh = nn.Sequential(nn.Flatten(), nn.ReLU()), nn.Sequential(nn.Flatten(), nn.Tanh())
    assert hf.methods.ProtoNet(net=relu) != hf.methods.ProtoNet(net=tanh)


def test_training_leaves_the_user_s_module_alone_and_the_folder_holds_the_weights(tmp_path):
    net = module()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    method = hf.methods.ProtoNet(net=net, schedule=hf.Schedule(steps=3))
    learner = method.meta_fit(tasks("train"))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert not torch.equal(learner.state()["backbone.net.0.weight"], before["0.weight"])
    learner.save(tmp_path / "model")
    with pytest.raises(BadInput, match="give it again"):
        hf.load(tmp_path / "model")
    loaded = hf.load(tmp_path / "model", net=module(seed=5))
    assert all(torch.equal(v, loaded.state()[k]) for k, v in learner.state().items())


def test_a_module_that_changed_since_it_was_given_is_refused():
    net = module()
    method = hf.methods.NearestCentroid(net=net)
    with torch.no_grad():
        net[0].weight.add_(1)
    with pytest.raises(Mismatch, match="changed"):
        method.untrained((16, 16, 3))


def test_a_classifier_of_photos_on_a_module_is_saved_and_loads_when_it_is_given_again(tmp_path):
    rng = np.random.default_rng(0)
    looks = rng.integers(0, 256, (2, 1, 4, 4, 3))
    photos = {
        name: list(np.clip(look.repeat(6, 1).repeat(6, 2) + rng.normal(0, 20, (5, 24, 24, 3)), 0, 255).astype(np.uint8))
        for name, look in zip("ab", looks, strict=True)
    }
    net = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 16))
    model = hf.fit(photos, net=net)
    answers = model.predict(photos["a"])
    model.save(tmp_path / "model")
    with pytest.raises(BadInput, match="give it again"):
        hf.load(tmp_path / "model")
    np.testing.assert_array_equal(
        hf.load(tmp_path / "model", net=net).predict(photos["a"]).probabilities, answers.probabilities
    )


def test_an_audit_takes_a_module():
    found = hf.audit(small(), only=["imbalance"], net=module(), minutes=0.2)
    assert found.net.startswith("module:name=Sequential")


class Pair(nn.Module):
    def forward(self, x):
        return x, x


@pytest.mark.parametrize(
    "net, said",
    [
        (Pair(), "Pair gives a tuple for one image, neither a vector"),
        (nn.Linear(3, 4), "Linear does not take one image of"),
        (lambda: 3, "made a int, not a torch module"),
        (7, "a torch module, or a function that makes one"),
        (build("conv4", (32, 32, 3)), "was made for images of"),
    ],
)
def test_what_is_no_network_is_one_sentence(net, said):
    with pytest.raises((BadInput, Mismatch), match=said) as error:
        hf.methods.NearestCentroid(net=net).untrained((16, 16, 3))
    assert "\n" not in str(error.value)


class NoMaps(Backbone):
    def __init__(self, shape):
        super().__init__(shape)
        self.width = 3


class NoShape(nn.Module):
    def __init__(self):
        super().__init__()


@pytest.mark.parametrize(
    "place, said",
    [
        ("plugged:NoMaps", "the net mine does not say its map_shape; set self.map_shape"),
        ("plugged:NoShape", r"cannot be told the images' shape; write its constructor as __init__\(self, shape\)"),
        ("plugged:Absent", r"the net mine of a plug-in cannot be loaded from plugged:Absent \(.*\); mend the plug-in"),
        ("not_there_at_all:Net", r"cannot be loaded from not_there_at_all:Net \(No module named"),
        ("", r"there is no net named 'mine'; .*a plug-in's names are known once it is installed"),
    ],
)
def test_a_plug_in_that_is_not_whole_is_one_sentence(place, said, monkeypatch):
    plugged = types.ModuleType("plugged")
    plugged.NoMaps, plugged.NoShape = NoMaps, NoShape
    monkeypatch.setitem(sys.modules, "plugged", plugged)
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [types.SimpleNamespace(name="mine", value=place)] if place else []
    )
    registry.table.cache_clear()
    registry.get.cache_clear()
    try:
        with pytest.raises(BadInput, match=said):
            hf.methods.ProtoNet(net="mine").untrained((16, 16, 3))
    finally:
        registry.table.cache_clear()
        registry.get.cache_clear()
