"""YOLOv5s (release 6.0 and later): the detector, as it is deployed on NPUs.

Ultralytics, github.com/ultralytics/yolov5, models/yolov5s.yaml and models/common.py of tag v7.0:
6x6 stem, C3 blocks, SPPF, three detection heads for the 80 classes of COCO; the yaml's depth
multiple 0.33 and width multiple 0.50 are already applied to the numbers here. Layers have the same
names; batch norm is folded. The graph ends at the three maps of sigmoids, as NPU vendors export it:
the application turns them into boxes.
"""

from __future__ import annotations

from reusebench.models.networks.layers import (
    Activation,
    Add,
    Concat,
    Convolution,
    MaxPool,
    Upsample,
)
from reusebench.models.networks.network import INPUT_NAME, Network, NetworkBuilder

__all__ = ["yolov5s"]

_ANCHORS_PER_CELL = 3
#: Box (x, y, w, h), objectness, and COCO's classes.
_VALUES_PER_ANCHOR = 4 + 1 + 80
_HEAD_CHANNELS = _ANCHORS_PER_CELL * _VALUES_PER_ANCHOR


def yolov5s(size: int) -> Network:
    """Return YOLOv5s for size x size pixels, size a multiple of 32.

    Three outputs (1, 255, size / stride, size / stride) for strides 8, 16 and 32.
    """
    net = NetworkBuilder()
    maps = _head(net, *_backbone(net))
    outputs = []
    for index, source in enumerate(maps):
        # All values of all anchors, at every cell.
        head = Convolution(
            f"model.24.m.{index}", source, _HEAD_CHANNELS, kernel=1, activation=Activation.SIGMOID
        )
        outputs.append(net.add(head))
    return net.build("yolov5s", size, size, outputs)


def _backbone(net: NetworkBuilder) -> tuple[str, str, str]:
    """Add modules 0 to 9 and return the maps at strides 8, 16 and 32."""
    x = _conv(net, "model.0", INPUT_NAME, 32, kernel=6, stride=2, padding=2)
    x = _conv(net, "model.1", x, 64, kernel=3, stride=2)
    x = _c3(net, "model.2", x, 64, bottlenecks=1)
    x = _conv(net, "model.3", x, 128, kernel=3, stride=2)
    stride_8 = _c3(net, "model.4", x, 128, bottlenecks=2)
    x = _conv(net, "model.5", stride_8, 256, kernel=3, stride=2)
    stride_16 = _c3(net, "model.6", x, 256, bottlenecks=3)
    x = _conv(net, "model.7", stride_16, 512, kernel=3, stride=2)
    x = _c3(net, "model.8", x, 512, bottlenecks=1)
    return stride_8, stride_16, _sppf(net, "model.9", x, 512)


def _head(
    net: NetworkBuilder, stride_8: str, stride_16: str, stride_32: str
) -> tuple[str, str, str]:
    """Add modules 10 to 23, down to stride 8 and up again, and return the maps for detection."""
    lateral_32 = _conv(net, "model.10", stride_32, 256)
    x = net.add(Upsample("model.11", lateral_32, factor=2))
    x = net.add(Concat("model.12", (x, stride_16)))
    x = _c3(net, "model.13", x, 256, bottlenecks=1, shortcut=False)

    lateral_16 = _conv(net, "model.14", x, 128)
    x = net.add(Upsample("model.15", lateral_16, factor=2))
    x = net.add(Concat("model.16", (x, stride_8)))
    small = _c3(net, "model.17", x, 128, bottlenecks=1, shortcut=False)

    x = _conv(net, "model.18", small, 128, kernel=3, stride=2)
    x = net.add(Concat("model.19", (x, lateral_16)))
    medium = _c3(net, "model.20", x, 256, bottlenecks=1, shortcut=False)

    x = _conv(net, "model.21", medium, 256, kernel=3, stride=2)
    x = net.add(Concat("model.22", (x, lateral_32)))
    large = _c3(net, "model.23", x, 512, bottlenecks=1, shortcut=False)
    return small, medium, large


def _conv(
    net: NetworkBuilder,
    name: str,
    source: str,
    channels: int,
    kernel: int = 1,
    stride: int = 1,
    padding: int | None = None,
) -> str:
    """Add the module Conv: convolution and SiLU; `padding` None means half the kernel."""
    if padding is None:
        padding = kernel // 2
    return net.add(
        Convolution(name, source, channels, kernel, stride, padding, activation=Activation.SILU)
    )


def _c3(
    net: NetworkBuilder,
    name: str,
    source: str,
    channels: int,
    bottlenecks: int,
    *,
    shortcut: bool = True,
) -> str:
    """Add the module C3: bottlenecks for half the channels, then a convolution over all."""
    half = channels // 2
    through = _conv(net, f"{name}.cv1", source, half)
    for index in range(bottlenecks):
        through = _bottleneck(net, f"{name}.m.{index}", through, half, shortcut=shortcut)
    around = _conv(net, f"{name}.cv2", source, half)
    joined = net.add(Concat(f"{name}.concat", (through, around)))
    return _conv(net, f"{name}.cv3", joined, channels)


def _bottleneck(
    net: NetworkBuilder, name: str, source: str, channels: int, *, shortcut: bool
) -> str:
    """Add the module Bottleneck: 1x1 and 3x3 at full width; the backbone's has a shortcut."""
    x = _conv(net, f"{name}.cv1", source, channels)
    x = _conv(net, f"{name}.cv2", x, channels, kernel=3)
    if not shortcut:
        return x
    return net.add(Add(f"{name}.add", source, x))


def _sppf(net: NetworkBuilder, name: str, source: str, channels: int) -> str:
    """Add the module SPPF: three 5x5 max pools in a row, each read by the last convolution."""
    x = _conv(net, f"{name}.cv1", source, channels // 2)
    maps = [x]
    for index in range(3):
        maps.append(net.add(MaxPool(f"{name}.m.{index}", maps[-1], kernel=5, stride=1, padding=2)))
    joined = net.add(Concat(f"{name}.concat", tuple(maps)))
    return _conv(net, f"{name}.cv2", joined, channels)
