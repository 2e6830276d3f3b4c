"""MobileNetV2 at width 1.0: the small classifier of depthwise convolutions and linear bottlenecks.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", arXiv:1801.04381, table 2,
as in torchvision.models.mobilenet_v2, whose block numbers it keeps; batch norm is folded.
"""

from __future__ import annotations

from reusebench.models.networks.layers import (
    Activation,
    Add,
    Convolution,
    FullyConnected,
    GlobalAveragePool,
)
from reusebench.models.networks.network import INPUT_NAME, Network, NetworkBuilder

__all__ = ["mobilenet_v2"]

#: Expansion, output channels, blocks and first stride of each row (paper, table 2).
_ROWS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_STEM_CHANNELS = 32
_LAST_CHANNELS = 1280
_CLASSES = 1000


def mobilenet_v2(size: int) -> Network:
    """Return MobileNetV2 for size x size pixels, 1000 logits out."""
    relu6 = Activation.RELU6
    net = NetworkBuilder()
    x = net.add(
        Convolution(
            "features.0",
            INPUT_NAME,
            _STEM_CHANNELS,
            kernel=3,
            stride=2,
            padding=1,
            activation=relu6,
        )
    )
    channels = _STEM_CHANNELS
    index = 1
    for expansion, out_channels, blocks, first_stride in _ROWS:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = _inverted_residual(
                net, f"features.{index}", x, channels, channels * expansion, out_channels, stride
            )
            channels = out_channels
            index += 1
    x = net.add(Convolution(f"features.{index}", x, _LAST_CHANNELS, kernel=1, activation=relu6))
    x = net.add(GlobalAveragePool("pool", x))
    logits = net.add(FullyConnected("classifier.1", x, _CLASSES))
    return net.build("mobilenet_v2", size, size, [logits])


def _inverted_residual(
    net: NetworkBuilder,
    name: str,
    source: str,
    channels: int,
    hidden: int,
    out_channels: int,
    stride: int,
) -> str:
    """Add a block that widens to `hidden` channels, filters depthwise, and narrows linearly."""
    relu6 = Activation.RELU6
    x = source
    if hidden != channels:
        x = net.add(Convolution(f"{name}.expand", x, hidden, kernel=1, activation=relu6))
    x = net.add(
        Convolution(
            f"{name}.depthwise",
            x,
            hidden,
            kernel=3,
            stride=stride,
            padding=1,
            groups=hidden,
            activation=relu6,
        )
    )
    x = net.add(Convolution(f"{name}.project", x, out_channels, kernel=1))
    if stride == 1 and channels == out_channels:
        x = net.add(Add(f"{name}.add", source, x))
    return x
