# Written by handful.door.write() from the registry.

from handful.nets.backbone import Backbone
from handful.nets.building import build
from handful.nets.clip import Clip
from handful.nets.compute import Compute
from handful.nets.conv4 import Conv4
from handful.nets.given import Given
from handful.nets.hf import Hf
from handful.nets.lite import Lite0
from handful.nets.lite import Lite1
from handful.nets.lite import Lite2
from handful.nets.lite_minilm import Lite2MiniLM
from handful.nets.mlp import MLP
from handful.nets.onnx_net import Onnx
from handful.nets.open_clip_net import OpenClip
from handful.nets.pixels import Pixels
from handful.nets.resnet import ResNet10
from handful.nets.resnet import ResNet18
from handful.nets.resnet import ResNet50
from handful.nets.resnet12 import ResNet12
from handful.nets.timm_net import Timm
from handful.nets.torch_file import TorchFile
from handful.nets.vggs import VGGS
from handful.nets.wrn import WRN2810

__all__ = [
    "Backbone",
    "Clip",
    "Compute",
    "Conv4",
    "Given",
    "Hf",
    "Lite0",
    "Lite1",
    "Lite2",
    "Lite2MiniLM",
    "MLP",
    "Onnx",
    "OpenClip",
    "Pixels",
    "ResNet10",
    "ResNet12",
    "ResNet18",
    "ResNet50",
    "Timm",
    "TorchFile",
    "VGGS",
    "WRN2810",
    "build",
]
