"""Backbones are the published ones: sizes, names, and answers against independent implementations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from handful import nets
from handful.errors import BadInput, Mismatch
from handful.methods import load, make
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.nets.weights import read_state

SHAPE = (64, 64, 3)
DEPTHS = {"resnet10": (1, 1, 1, 1), "resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}


def size(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    "name, width, published",
    [("resnet18", 512, 11_689_512), ("resnet50", 2048, 25_557_032)],
)
def test_resnets_have_the_published_number_of_parameters(name, width, published):
    net = nets.build(f"{name}:stem=7x7", SHAPE)
    assert size(net) + width * 1000 + 1000 == published
    assert net.width == width and net.map_shape == (width, 2, 2)


def test_resnet10_is_resnet18_with_one_block_a_stage():
    one, two = nets.build("resnet10", SHAPE), nets.build("resnet18", SHAPE)
    second = sum(2 * 9 * c * c + 4 * c for c in (64, 128, 256, 512))
    assert size(two) - size(one) == second and one.width == 512


def test_wrn_28_10_has_the_published_number_of_parameters():
    """36.5 million (Zagoruyko and Komodakis, Table 4), here counted layer by layer, with a classifier of ten classes."""
    total, before = 9 * 3 * 16, 16
    for c in (160, 320, 640):
        for block in range(4):
            c_in = before if block == 0 else c
            total += 2 * c_in + 9 * c_in * c + 2 * c + 9 * c * c + (c_in * c if c_in != c else 0)
        before = c
    total += 2 * 640
    net = nets.build("wrn-28-10", (32, 32, 3))
    assert size(net) == total
    assert total + 640 * 10 + 10 == 36_479_194
    assert net.width == 640 and net.map_shape == (640, 8, 8)


def torchvision_keys(name: str) -> list[str]:
    """The rule of torchvision's names, in its order: convN, bnN, then downsample.0 and .1 where a block changes shape."""

    def norm(prefix: str) -> list[str]:
        return [f"{prefix}.{k}" for k in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]

    keys = ["conv1.weight", *norm("bn1")]
    convolutions = 3 if name == "resnet50" else 2
    for stage, depth in enumerate(DEPTHS[name], start=1):
        for block in range(depth):
            base = f"layer{stage}.{block}"
            for k in range(1, convolutions + 1):
                keys += [f"{base}.conv{k}.weight", *norm(f"{base}.bn{k}")]
            if block == 0 and (stage > 1 or convolutions == 3):
                keys += [f"{base}.downsample.0.weight", *norm(f"{base}.downsample.1")]
    return keys


@pytest.mark.parametrize("name", list(DEPTHS))
def test_parameters_are_named_as_torchvision_names_them(name):
    assert list(nets.build(name, SHAPE).state_dict()) == torchvision_keys(name)


def shaken(net: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights and running statistics away from their initial values, so that no layer hides."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, value in net.state_dict().items():
            if key.endswith("running_var"):
                value.copy_(0.5 + torch.rand(value.shape, generator=generator))
            elif value.dtype.is_floating_point and value.ndim == 1:
                value.add_(0.2 * torch.randn(value.shape, generator=generator))
    return net.eval()


@pytest.mark.parametrize("name", list(DEPTHS))
def test_resnets_answer_as_transformers_does_with_the_same_weights(name):
    transformers = pytest.importorskip("transformers", reason="needs handful[clip]")
    wide = name == "resnet50"
    config = transformers.ResNetConfig(
        embedding_size=64,
        hidden_sizes=[256, 512, 1024, 2048] if wide else [64, 128, 256, 512],
        depths=list(DEPTHS[name]),
        layer_type="bottleneck" if wide else "basic",
    )
    other = transformers.ResNetModel(config).eval()
    net = shaken(nets.build(f"{name}:stem=7x7", SHAPE))
    names = {}
    for key in net.state_dict():
        new = key
        if key.startswith("layer"):
            stage, block, part, *rest = key.removeprefix("layer").split(".")
            base = f"encoder.stages.{int(stage) - 1}.layers.{block}"
            if part == "downsample":
                kind = "convolution" if rest[0] == "0" else "normalization"
                new = f"{base}.shortcut.{kind}.{rest[1]}"
            else:
                kind = "convolution" if part.startswith("conv") else "normalization"
                new = f"{base}.layer.{int(part[-1]) - 1}.{kind}.{rest[0]}"
        else:
            kind = "convolution" if key.startswith("conv") else "normalization"
            new = f"embedder.embedder.{kind}.{key.split('.')[1]}"
        names[new] = net.state_dict()[key]
    other.load_state_dict(names)
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        told = other(x)
        torch.testing.assert_close(net.maps(x), told.last_hidden_state, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(net(x), told.pooler_output.flatten(1), rtol=1e-4, atol=1e-4)


def test_a_bottleneck_is_what_the_paper_draws():
    """1x1 down, 3x3 with the stride, 1x1 up, each followed by batch norm, plus the projected input, then ReLU."""
    net = shaken(nets.build("resnet50", SHAPE))
    block, w = net.layer2[0], net.layer2[0].state_dict()

    def norm(x, key):
        mean, var = w[f"{key}.running_mean"], w[f"{key}.running_var"]
        scale = w[f"{key}.weight"] / torch.sqrt(var + 1e-5)
        return (x - mean[:, None, None]) * scale[:, None, None] + w[f"{key}.bias"][:, None, None]

    x = torch.randn(1, 256, 8, 8, generator=torch.Generator().manual_seed(2))
    y = F.relu(norm(F.conv2d(x, w["conv1.weight"]), "bn1"))
    y = F.relu(norm(F.conv2d(y, w["conv2.weight"], stride=2, padding=1), "bn2"))
    y = norm(F.conv2d(y, w["conv3.weight"]), "bn3")
    shortcut = norm(F.conv2d(x, w["downsample.0.weight"], stride=2), "downsample.1")
    with torch.no_grad():
        torch.testing.assert_close(block(x), F.relu(y + shortcut), rtol=1e-4, atol=1e-4)


def test_wrn_28_10_answers_as_a_plain_reading_of_the_paper():
    net = shaken(nets.build("wrn-28-10", (8, 8, 3)))
    w = net.state_dict()

    def active(x, key):
        return F.relu(
            F.batch_norm(x, w[f"{key}.running_mean"], w[f"{key}.running_var"], w[f"{key}.weight"], w[f"{key}.bias"])
        )

    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    y = F.conv2d(x, w["conv1.weight"], padding=1)
    for stage, stride in ((1, 1), (2, 2), (3, 2)):
        for block in range(4):
            base = f"block{stage}.layer.{block}"
            step = stride if block == 0 else 1
            o = active(y, f"{base}.bn1")
            z = F.conv2d(o, w[f"{base}.conv1.weight"], stride=step, padding=1)
            z = F.conv2d(active(z, f"{base}.bn2"), w[f"{base}.conv2.weight"], padding=1)
            y = z + (F.conv2d(o, w[f"{base}.convShortcut.weight"], stride=step) if block == 0 else y)
    wanted = active(y, "bn1").mean((2, 3))
    with torch.no_grad():
        torch.testing.assert_close(net(x), wanted, rtol=1e-4, atol=1e-4)
    assert net.maps(x).shape[1:] == net.map_shape


@pytest.mark.parametrize(
    "name, shape",
    [("resnet10", (28, 28, 1)), ("resnet18", (36, 44, 3)), ("resnet50", (28, 28, 1)), ("wrn-28-10", (10, 13, 1))],
)
def test_maps_have_the_shape_that_is_stated(name, shape):
    net = nets.build(name, shape).eval()
    images = np.random.default_rng(0).integers(0, 256, (1, *shape)).astype(np.uint8)
    with torch.no_grad():
        x = net.normalise(torch.from_numpy(images))
        assert net.maps(x).shape == (1, *net.map_shape)
        assert net(x).shape == (1, net.width)


def places(spec: str, shape: tuple[int, ...] = (84, 84, 3)) -> tuple[int, int]:
    net = nets.build(spec, shape).eval()
    with torch.no_grad():
        seen = net.maps(torch.zeros(1, shape[2], *shape[:2])).shape
    assert tuple(seen[1:]) == net.map_shape
    return seen[2], seen[3]


def test_small_images_have_the_stem_of_few_shot_work_and_large_ones_imagenets():
    assert places("resnet10") == places("resnet18") == (11, 11)
    assert places("resnet18:stem=7x7") == places("resnet50") == (3, 3)
    assert places("resnet10", (128, 128, 3)) == (4, 4) and places("resnet10:stem=3x3", (128, 128, 3)) == (16, 16)
    assert nets.build("resnet18:size=224", (84, 84, 3)).map_shape == (512, 7, 7)


@pytest.mark.parametrize("stem", ["3x3", "7x7"])
def test_weights_bring_their_stem(stem, tmp_path):
    source = nets.build(f"resnet10:stem={stem}", SHAPE, seed=4).eval()
    save_file({k: v.clone() for k, v in source.state_dict().items()}, tmp_path / "w.safetensors")
    x = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        got = nets.build(f"resnet10:weights={tmp_path / 'w.safetensors'}", SHAPE).eval()(x)
        torch.testing.assert_close(got, source(x))


def test_a_model_saved_with_imagenets_stem_opens_with_it(tmp_path):
    """Before there was a choice, models of small images had it too, under the same name."""
    learner = make("relationnet", net="resnet10:stem=7x7").untrained((32, 32, 3))
    learner.save(tmp_path / "model")
    facts = (tmp_path / "model" / "model.json").read_text(encoding="utf-8")
    assert "resnet10:stem=7x7" in facts
    (tmp_path / "model" / "model.json").write_text(facts.replace(":stem=7x7", ""), encoding="utf-8")
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    again = load(tmp_path / "model")
    assert again.method.net == "resnet10:stem=7x7"
    torch.testing.assert_close(again.backbone(x), learner.backbone(x))


def test_conv4_pools_as_often_as_it_is_told_and_leaks():
    assert places("conv4") == (5, 5) and places("conv4:pools=3") == (10, 10) and places("conv4:pools=2") == (21, 21)
    assert places("conv4:pools=0", (4, 4, 1)) == (4, 4)
    with torch.no_grad():
        flat, leaking = nets.build("conv4", SHAPE), nets.build("conv4:leak=0.2", SHAPE)
        x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
        plain = flat.blocks[0][:2](x)
        torch.testing.assert_close(leaking.blocks[0][:3](x), torch.maximum(plain, 0.2 * plain))
        torch.testing.assert_close(flat.blocks[0][:3](x), plain.clamp_min(0))
    with pytest.raises(BadInput, match="pools from 0 to 4"):
        nets.build("conv4:pools=5", SHAPE)
    with pytest.raises(BadInput, match="at least 8x8"):
        nets.build("conv4:pools=3", (7, 9, 3))


def test_resnet12_drops_places_at_once_and_squares_more_and_more():
    """Share of zeros that a block gives in training; without dropping there are none."""

    def zeros(block, passed: int) -> float:
        block.body[1].num_batches_tracked.fill_(passed - 1)
        torch.manual_seed(0)
        with torch.no_grad():
            return float((block(torch.randn(8, block.body[0].in_channels, 42, 42)) == 0).double().mean())

    net = nets.build("resnet12:drop=0.2,ramp=1000", (84, 84, 3)).train()
    assert zeros(net.layers[0], 1) == pytest.approx(0.2, abs=0.03)
    assert zeros(net.layers[2], 1) < 0.01
    half, all_of_it = zeros(net.layers[2], 500), zeros(net.layers[2], 5000)
    assert half == pytest.approx(0.1, abs=0.03) and all_of_it == pytest.approx(0.19, abs=0.04)
    assert zeros(nets.build("resnet12:drop=0.2,ramp=0", (84, 84, 3)).train().layers[2], 1) > 0.14
    assert zeros(nets.build("resnet12:drop=0", (84, 84, 3)).train().layers[0], 1) < 0.001


def with_classifier(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**net.state_dict(), "fc.weight": torch.zeros(1000, net.width), "fc.bias": torch.zeros(1000)}


@pytest.mark.parametrize("form", ["safetensors", "torch", "checkpoint", "parallel", "old"])
def test_torchvision_state_dicts_are_read_in_every_form(form, tmp_path):
    source = shaken(nets.build("resnet18:stem=7x7", SHAPE), seed=5)
    state = with_classifier(source)
    path = tmp_path / "w.pth"
    if form == "safetensors":
        path = tmp_path / "w.safetensors"
        save_file({k: v.clone() for k, v in state.items()}, path)
    elif form == "checkpoint":
        torch.save({"state_dict": state, "epoch": 90}, path)
    elif form == "parallel":
        torch.save({f"module.{k}": v for k, v in state.items()}, path)
    elif form == "old":
        torch.save({k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}, path)
    else:
        torch.save(state, path)
    images = np.random.default_rng(0).integers(0, 256, (3, *SHAPE)).astype(np.uint8)
    compute = Compute(batch=4)
    wanted = embed_images(source, images, compute)
    got = embed_images(nets.build(f"resnet18:weights={path}", SHAPE, seed=9), images, compute)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_resnet50_reads_its_own_and_refuses_resnet18s_naming_three(tmp_path):
    own, other = tmp_path / "50.safetensors", tmp_path / "18.safetensors"
    source = shaken(nets.build("resnet50", SHAPE))
    save_file({k: v.clone() for k, v in with_classifier(source).items()}, own)
    save_file({k: v.clone() for k, v in with_classifier(nets.build("resnet18", SHAPE)).items()}, other)
    net = nets.build(f"resnet50:weights={own}", SHAPE, seed=3).eval()
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(net(x), source(x), rtol=0, atol=0)
    with pytest.raises(Mismatch) as told:
        nets.build(f"resnet50:weights={other}", SHAPE)
    text = str(told.value)
    assert "layer1.0.conv3.weight is missing" in text and text.count("is missing") == 3 and "more" in text


def test_other_shapes_and_unknown_keys_are_named(tmp_path):
    state = with_classifier(nets.build("resnet10", SHAPE))
    state["layer1.0.conv1.weight"] = torch.zeros(64, 64, 1, 1)
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(Mismatch, match=r"layer1\.0\.conv1\.weight is \(64, 64, 1, 1\), not \(64, 64, 3, 3\)"):
        nets.build(f"resnet10:weights={tmp_path / 'a.pth'}", SHAPE)
    state = {**with_classifier(nets.build("resnet10", SHAPE)), "layer5.0.conv1.weight": torch.zeros(1)}
    torch.save(state, tmp_path / "b.pth")
    with pytest.raises(Mismatch, match=r"layer5\.0\.conv1\.weight is not known"):
        nets.build(f"resnet10:weights={tmp_path / 'b.pth'}", SHAPE)
    with pytest.raises(Mismatch, match=r"conv1\.weight is \(64, 3, 7, 7\), not \(64, 1, 7, 7\)"):
        torch.save(with_classifier(nets.build("resnet10:stem=7x7", SHAPE)), tmp_path / "c.pth")
        nets.build(f"resnet10:weights={tmp_path / 'c.pth'}", (64, 64, 1))


class Trap:
    """Would create a file if it were unpickled."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_is_never_run(tmp_path):
    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"conv1.weight": Trap(str(tmp_path / "ran"))}))
    torch.save({"conv1.weight": Trap(str(tmp_path / "ran"))}, tmp_path / "evil2.pth")
    for name in ("evil.pth", "evil2.pth"):
        with pytest.raises(BadInput, match="plain tensors"):
            nets.build(f"resnet18:weights={tmp_path / name}", SHAPE)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content, told",
    [(b"", "plain tensors"), (b"<html>", "plain tensors"), (None, "not a file")],
)
def test_what_is_no_checkpoint_is_one_sentence(tmp_path, content, told):
    for name in ("x.pth", "x.safetensors"):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=told) as error:
            nets.build(f"resnet18:weights={tmp_path / name}", SHAPE)
        assert "\n" not in str(error.value)


def test_a_damaged_checkpoint_is_refused_wherever_it_is_cut_or_changed(tmp_path):
    torch.save({"a": torch.zeros(40), "b": torch.ones(3)}, tmp_path / "ok.pth")
    data = (tmp_path / "ok.pth").read_bytes()
    rng = np.random.default_rng(0)
    for i in range(40):
        bad = bytearray(data[: rng.integers(1, len(data))] if i % 2 else data)
        for at in rng.integers(0, len(bad), 20):
            bad[at] ^= int(rng.integers(1, 256))
        (tmp_path / "bad.pth").write_bytes(bytes(bad))
        try:
            read_state(tmp_path / "bad.pth")
        except BadInput:
            continue


def test_published_weights_can_have_the_size_they_were_trained_at():
    net = nets.build("resnet18:size=96,stem=7x7", (32, 32, 3)).eval()
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8))
    assert net.normalise(images).shape == (1, 3, 96, 96) and net.map_shape == (512, 3, 3)
    with torch.no_grad():
        assert net.maps(net.normalise(images)).shape == (1, 512, 3, 3)
    with pytest.raises(BadInput, match="positive size"):
        nets.build("resnet18:size=-1", SHAPE)
    with pytest.raises(BadInput, match="at least 0 and less than 1"):
        nets.build("wrn-28-10:drop=1.5", SHAPE)


def test_a_residual_mlp_begins_as_the_features_and_can_leave_them():
    net = nets.build("mlp:out=0,hidden=16", (12,))
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    assert net.width == 12 and torch.equal(net(x), x)
    before = [p.clone() for p in net.parameters()]
    for _ in range(2):  # the first step moves the last layer away from zero, the second all of them
        net(x).square().sum().backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.01 * p.grad
    assert not any(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    with pytest.raises(BadInput, match="at least 0"):
        nets.build("mlp:out=-1", (12,))
