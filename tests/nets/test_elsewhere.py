"""Encoders of other libraries, tiny and random, made by the libraries themselves: the same features as their own pipelines."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import handful as hf
from handful.cli import main
from handful.errors import BadInput, Mismatch, Missing
from handful.nets import build
from handful.nets.building import seen
from handful.nets.compute import Compute
from handful.nets.elsewhere import require_without_torchvision
from handful.nets.feature_cache import FeatureCache
from handful.nets.features import embed_images
from handful.photos.encoder import Encoder
from handful.runs.learners import chosen
from made.benches import small
from made.patterns import blobs

SHAPE = (24, 20, 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), dtype=np.uint8)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def lacking(module: str, extra: str, package: str) -> str:
    try:
        require_without_torchvision(module, extra, package)
        return ""
    except Missing as error:
        return str(error)


needs_timm = pytest.mark.skipif(bool(why := lacking("timm", "timm", "timm")), reason=why or "timm is here")
needs_open_clip = pytest.mark.skipif(
    bool(why := lacking("open_clip", "open-clip", "timm open_clip_torch")), reason=why or "open_clip is here"
)


def close(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def embed(spec: str, maps: bool = False, images: np.ndarray = IMAGES) -> torch.Tensor:
    return embed_images(build(spec, images.shape[1:]), images, Compute(batch=4), maps)


# transformers

FOLDERS = ("vit", "dinov2", "convnext", "clip", "siglip")


def hf_folder(kind: str, folder) -> str:
    """A tiny checkpoint with its processor, as transformers saves it."""
    t = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    text = {**SMALL, "vocab_size": 50, "max_position_embeddings": 8}
    image = {**SMALL, "image_size": 16, "patch_size": 8}
    half = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    if kind == "vit":
        model, processor = (
            t.ViTModel(t.ViTConfig(**image)),
            t.ViTImageProcessor(size={"height": 16, "width": 16}, **half),
        )
    elif kind == "dinov2":
        model = t.Dinov2Model(t.Dinov2Config(**image))
        processor = t.BitImageProcessor(size={"shortest_edge": 19}, crop_size={"height": 16, "width": 16}, **half)
    elif kind == "convnext":
        model = t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], image_size=32))
        processor = t.ViTImageProcessor(size={"height": 32, "width": 32}, **half)
    elif kind == "clip":
        model = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=image, projection_dim=12))
        processor = t.CLIPImageProcessor(size={"shortest_edge": 18}, crop_size={"height": 16, "width": 16})
    else:
        model = t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=image))
        processor = t.SiglipImageProcessor(size={"height": 16, "width": 16})
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", FOLDERS)
def test_transformers_features_are_those_of_its_own_pipeline(kind, tmp_path):
    folder = hf_folder(kind, tmp_path / kind)
    import transformers as t

    model, processor = t.AutoModel.from_pretrained(folder).eval(), t.AutoImageProcessor.from_pretrained(folder)
    x = processor([Image.fromarray(i) for i in IMAGES], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        if kind in ("clip", "siglip"):
            pooled = model.get_image_features(pixel_values=x)
            pooled = pooled if isinstance(pooled, torch.Tensor) else pooled.pooler_output
            last = model.vision_model(pixel_values=x).last_hidden_state
        else:
            out = model(pixel_values=x)
            last = out.last_hidden_state
            pooled = last[:, 0] if kind == "vit" else out.pooler_output
    close(embed(f"hf:{folder}"), pooled.flatten(1))
    if last.ndim == 3:
        last = last[:, -4:].transpose(1, 2).reshape(len(IMAGES), -1, 2, 2)  # 2 x 2 patches, the class token before them
    close(embed(f"hf:{folder}", maps=True), last)


def test_a_transformers_encoder_is_the_same_each_time_and_of_grey_images(tmp_path):
    folder = hf_folder("vit", tmp_path / "vit")
    close(embed(f"hf:{folder}"), embed(f"hf:{folder}"))
    grey = IMAGES[..., :1]
    close(embed(f"hf:{folder}", images=grey), embed(f"hf:{folder}", images=grey.repeat(3, -1)))


# timm


@needs_timm
@pytest.mark.parametrize("name, size", [("vit_tiny_patch16_224", 32), ("resnet10t", 0), ("convnext_atto", 0)])
def test_timm_features_are_its_model_s_on_the_pixels_its_card_asks_for(name, size, tmp_path):
    timm = require_without_torchvision("timm", "timm", "timm")
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=3, **({"img_size": size} if size else {})).eval()
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    facts = timm.data.resolve_model_data_config(model)
    side = size or facts["input_size"][1]
    filter = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}[facts["interpolation"]]
    short = int(side / facts["crop_pct"])
    pixels = []
    for one in IMAGES:  # torchvision's Resize and CenterCrop, which timm's own transforms call
        high, wide = int(short * 24 / 20), short
        top, left = round((high - side) / 2), round((wide - side) / 2)
        image = Image.fromarray(one).resize((wide, high), filter).crop((left, top, left + side, top + side))
        pixels.append((np.asarray(image) / 255 - facts["mean"]) / facts["std"])
    x = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        features = model.forward_features(x)
        pooled = model.forward_head(features, pre_logits=True)
    spec = f"timm:{name},weights={tmp_path / 'w.safetensors'}" + (f",size={size}" if size else "")
    close(embed(spec), pooled)
    if features.ndim == 3:
        features = features[:, 1:].transpose(1, 2).reshape(len(x), -1, 2, 2)
    close(embed(spec, maps=True), features)


@needs_timm
def test_timm_says_at_once_what_it_cannot_do(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Missing, match="is not on this machine and cannot be fetched"):
        build("timm:resnet18.a1_in1k", SHAPE)
    with pytest.raises(BadInput, match="timm knows no model 'resnet1888'"):
        build("timm:resnet1888", SHAPE)
    with pytest.raises(BadInput, match="not these weights"):
        build("timm:resnet18.nothing", SHAPE)
    with pytest.raises(BadInput, match="write timm:NAME"):
        build("timm", SHAPE)


def test_a_stand_in_for_torchvision_is_gone_after_the_import():
    for module, package in (("timm", "timm"), ("open_clip", "timm open_clip_torch")):
        lacking(module, module, package)
    if "torchvision" in sys.modules:
        assert sys.modules["torchvision"].__file__
    import importlib.util

    t = pytest.importorskip("transformers", reason="transformers is not installed")
    assert t.utils.is_torchvision_available() == (importlib.util.find_spec("torchvision") is not None)


# open_clip


def open_clip_file(folder):
    """A tiny model that open_clip knows from now on, its spec, and itself."""
    open_clip = require_without_torchvision("open_clip", "open-clip", "timm open_clip_torch")
    vision = {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16}
    text = {"context_length": 8, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    facts = {"embed_dim": 12, "vision_cfg": vision, "text_cfg": text}
    (folder / "handful-tiny.json").write_text(json.dumps(facts))
    open_clip.add_model_config(folder / "handful-tiny.json")
    torch.manual_seed(0)
    model = open_clip.create_model("handful-tiny").eval()
    save_file(model.state_dict(), folder / "w.safetensors")
    return f"open_clip:handful-tiny/{folder / 'w.safetensors'}", model, open_clip


def test_a_transformers_model_of_images_and_texts_reads_too(tmp_path):
    from made.readers import clip_folder

    folder = clip_folder(tmp_path)
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}, "crop_size": 24})
    )
    said = ["an oak", "a birch tree", ""]
    net, clip = build(f"hf:{folder}", SHAPE), build(f"clip:folder={folder}", SHAPE)
    assert net.says and net.sharpness == pytest.approx(clip.sharpness)
    assert torch.allclose(net.texts(said), clip.texts(said), atol=1e-5)
    for name in ("vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    mute = build(f"hf:{folder}", SHAPE)
    assert not mute.says and mute.width == net.width
    with pytest.raises(Mismatch, match="no text side"):
        mute.texts(said)


@needs_open_clip
def test_open_clip_reads_as_its_model_does(tmp_path):
    spec, model, open_clip = open_clip_file(tmp_path)
    net, said = build(spec, SHAPE), ["an oak", "a birch tree"]
    with torch.no_grad():
        asked = model.encode_text(open_clip.get_tokenizer("handful-tiny")(said))
    assert net.says and torch.allclose(net.texts(said), asked, atol=1e-5)


@needs_open_clip
def test_open_clip_features_are_its_model_s(tmp_path):
    spec, model, open_clip = open_clip_file(tmp_path)
    images = np.random.default_rng(1).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    mean, std = np.array(open_clip.OPENAI_DATASET_MEAN), np.array(open_clip.OPENAI_DATASET_STD)
    x = torch.from_numpy((images / 255 - mean) / std).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        close(embed(spec, images=images), model.encode_image(x))
    assert embed(spec, maps=True).shape == (3, 64, 2, 2)
    with pytest.raises(BadInput, match="open_clip has no weights 'nothing'"):
        build("open_clip:ViT-B-32/nothing", SHAPE)


# ONNX


def onnx_file(path, kind: str = "maps"):
    """A convolution, as a graph of one node; averaged over place by a second if vectors are asked for."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).normal(size=(6, 3, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2])]
    if kind == "vectors":
        nodes += [helper.make_node("GlobalAveragePool", ["y"], ["p"]), helper.make_node("Flatten", ["p"], ["y2"])]
    last = "y2" if kind == "vectors" else "y"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, path)
    return torch.from_numpy(weight)


@pytest.mark.parametrize("kind", ["maps", "vectors"])
def test_onnx_features_are_the_graph_s(kind, tmp_path):
    weight = onnx_file(tmp_path / "net.onnx", kind)
    images = np.random.default_rng(1).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    x = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
    maps = F.conv2d(x, weight, stride=2)
    spec = f"onnx:{tmp_path / 'net.onnx'},mean=0.5,std=0.25"
    close(embed(spec, images=images), maps.mean((2, 3)))
    if kind == "maps":
        close(embed(spec, True, images), maps)


def test_an_onnx_file_s_preprocessing_may_lie_beside_it_and_damage_is_one_sentence(tmp_path):
    weight = onnx_file(tmp_path / "net.onnx")
    facts = {"size": {"height": 16, "width": 16}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(facts))
    small = [np.asarray(Image.fromarray(i).resize((16, 16), Image.Resampling.BILINEAR)) for i in IMAGES]
    x = torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2) / 255 * 2 - 1
    close(embed(f"onnx:{tmp_path / 'net.onnx'}", maps=True), F.conv2d(x, weight, stride=2))
    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    with pytest.raises(BadInput, match="is not an ONNX file"):
        build(f"onnx:{tmp_path / 'bad.onnx'}", SHAPE)


# a class in a file

CODE = """
from torch import nn

class Mine(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Conv2d(shape[2], 7, 3, 2)

    def forward(self, x):
        return self.layer(x).relu()
"""


RECIPE = """
title = "A class in a file"
collection = "tiny"
options = { net = "torch:mine.py:Mine" }
options-tasks = { schedule = { steps = 1 } }

[rule]
rule = "n-way"
ways = 3
shots = 2

[train]
queries = 3

[tests]
queries = 3
tasks = 3

[[test]]
label = "2-shot"

[[method]]
name = "protonet"
"""


def torch_file(folder) -> tuple[str, nn.Module]:
    (folder / "mine.py").write_text(CODE)
    torch.manual_seed(3)
    layer = nn.Conv2d(3, 7, 3, 2)
    save_file({f"layer.{k}": v for k, v in layer.state_dict().items()}, folder / "mine.safetensors")
    return f"torch:{folder / 'mine.py'}:Mine,weights={folder / 'mine.safetensors'}", layer


def test_a_class_in_a_file_has_the_weights_beside_it(tmp_path):
    spec, layer = torch_file(tmp_path)
    x = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        close(embed(spec, maps=True), layer(x).relu())
    torch.save({f"layer.{k}": v for k, v in layer.state_dict().items()}, tmp_path / "mine.pth")
    close(embed(spec), embed(spec.replace(".safetensors", ".pth")))


def test_a_run_does_not_go_on_with_other_code(tmp_path):
    spec, _ = torch_file(tmp_path)
    rule = hf.tasks.NWay(small().test, 3, 2, 3)
    hf.evaluate(hf.methods.NearestCentroid(net=spec), rule, n=3, out=tmp_path / "run")
    (tmp_path / "mine.py").write_text(CODE.replace("relu", "tanh"))
    with pytest.raises(BadInput, match=r"another run's results \(its code differ"):
        hf.evaluate(hf.methods.NearestCentroid(net=spec), rule, n=3, out=tmp_path / "run")


def test_a_recipe_takes_a_class_in_a_file(tmp_path, monkeypatch):
    torch_file(tmp_path)
    small().save(tmp_path / "tiny")
    (tmp_path / "mine.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second time the trained model is loaded again
        verb("run", "mine.toml", "--out", "out")
        (table,) = (tmp_path / "out").rglob("tasks.parquet")
        shutil.rmtree(table.parent)


@pytest.mark.parametrize(
    "model, said",
    [
        ("absent.py:Net", "absent.py is not a file"),
        ("mine.py:Other", "mine.py defines no Other; it has Mine"),
        ("broken.py:Net", r"broken.py cannot be run \(ZeroDivisionError"),
        ("mine.py", "write torch:file.py:Class"),
    ],
)
def test_a_class_that_is_not_there_is_one_sentence(model, said, tmp_path, monkeypatch):
    torch_file(tmp_path)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=said):
        build(f"torch:{model}", SHAPE)


def test_a_model_folder_runs_no_code_that_it_names(tmp_path):
    spec, _ = torch_file(tmp_path)
    hf.methods.NearestCentroid(net=spec).untrained((16, 16, 3)).save(tmp_path / "model")
    with pytest.raises(BadInput, match="give it again"):
        hf.load(tmp_path / "model")
    assert hf.load(tmp_path / "model", net=spec).backbone.width == 7
    assert chosen(tmp_path / "model", {"net": spec}).backbone.width == 7


def test_photos_are_read_as_large_as_the_encoder_wants_them(tmp_path):
    onnx_file(tmp_path / "net.onnx")
    assert Encoder(f"onnx:{tmp_path / 'net.onnx'}").size == 224
    folder = tmp_path / "large"
    hf_folder("dinov2", folder)
    facts = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**facts, "size": {"shortest_edge": 300}}))
    assert Encoder(f"hf:{folder}").size == 300


# all of them through the verbs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    blobs(n_classes=24, each=20, seed=7).save(folder / "blobs")
    rng = np.random.default_rng(0)
    for name in ("oak", "elm"):
        (folder / "photos" / name).mkdir(parents=True)
        look = rng.integers(0, 256, (4, 4, 3)).repeat(6, 0).repeat(6, 1)
        for i in range(5):
            pixels = np.clip(look + rng.normal(0, 25, look.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{i}.png")
    return folder


def verb(*words: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 0, words


@pytest.mark.parametrize("kind", ["hf", "timm", "open_clip", "onnx", "torch"])
def test_eval_fit_audit_cache_and_resume(kind, made, tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    if kind == "hf":
        spec = f"hf:{hf_folder('clip', tmp_path / 'net')}"
    elif kind == "timm":
        if said := lacking("timm", "timm", "timm"):
            pytest.skip(said)
        timm = require_without_torchvision("timm", "timm", "timm")
        torch.manual_seed(0)
        save_file(timm.create_model("vit_tiny_patch16_224", img_size=32).state_dict(), tmp_path / "w.safetensors")
        spec = f"timm:vit_tiny_patch16_224,size=32,weights={tmp_path / 'w.safetensors'}"
    elif kind == "open_clip":
        if said := lacking("open_clip", "open-clip", "timm open_clip_torch"):
            pytest.skip(said)
        spec = open_clip_file(tmp_path)[0]
    elif kind == "onnx":
        onnx_file(tmp_path / "net.onnx")
        spec = f"onnx:{tmp_path / 'net.onnx'}"
    else:
        spec, _ = torch_file(tmp_path)
    blobs = str(made / "blobs")
    command = [
        "eval",
        "nearest-centroid",
        blobs,
        "--ways",
        "3",
        "--shots",
        "2",
        "--queries",
        "3",
        "--set",
        f"net={spec}",
    ]
    verb(*command, "--tasks", "10", "--out", str(tmp_path / "run"))
    collection = hf.open(blobs)
    kept = FeatureCache.of(build(spec, collection.card.shape).eval(), collection, Compute())
    rows = np.arange(len(collection))
    assert kept is not None and sum(len(at) for at, _ in kept.read(rows)) > 0
    verb(*command, "--tasks", "20", "--out", str(tmp_path / "run"))
    whole = hf.evaluate(
        hf.methods.NearestCentroid(net=spec), hf.tasks.AnyWay(collection.test, 3, 2, 3), n=20, cache=False
    )
    np.testing.assert_allclose(hf.Run.open(tmp_path / "run").frame["accuracy"], whole.frame["accuracy"])
    verb(
        *["audit", blobs, "--only", "difficulty", "--minutes", "0.1", "--net", spec, "--out", str(tmp_path / "a.html")]
    )
    verb("fit", str(made / "photos"), "--out", str(tmp_path / "model"), "--net", spec)
    if kind == "torch":
        verb("predict", str(tmp_path / "model"), str(made / "photos" / "oak"), "--net", spec)
    again = {} if kind != "torch" else {"net": spec}
    answers = hf.load(tmp_path / "model", **again).predict(made / "photos" / "oak")
    assert answers.probabilities.shape == (5, 2)


def test_reports_say_what_an_encoder_has_seen():
    assert "ImageNet-21k and ImageNet-1k" in seen("timm:vit_base_patch16_224.augreg_in21k_ft_in1k")
    assert "texts" in seen("hf:openai/clip-vit-base-patch32") and "texts" in seen(
        "open_clip:ViT-B-32/laion2b_s34b_b79k"
    )
    assert seen("timm:resnet50,weights=mine.pth") == "other images" and seen("conv4") == ""


def test_a_name_that_only_the_hub_has_is_refused_at_once_without_a_network(monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://handful.invalid")
    monkeypatch.setattr("handful.hub.SECONDS", 0.5)
    for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(Missing, match="handful.invalid cannot be reached.*name a local folder"):
        build("hf:nobody/has-this", SHAPE)
