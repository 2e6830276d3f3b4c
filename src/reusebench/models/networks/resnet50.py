"""ResNet-50: the classifier with bottleneck blocks and plain ReLU.

He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385, in the form that is
deployed (torchvision.models.resnet50, "v1.5": a block's stride is in its 3x3 convolution). Layers
have the names of torchvision; batch norm is folded.
"""

from __future__ import annotations

from reusebench.models.networks.layers import (
    Activation,
    Add,
    Convolution,
    FullyConnected,
    GlobalAveragePool,
    MaxPool,
)
from reusebench.models.networks.network import INPUT_NAME, Network, NetworkBuilder

__all__ = ["resnet50"]

#: Blocks and inner channels of the four stages (paper, table 1).
_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
#: Ratio of a block's output channels to its inner channels.
_EXPANSION = 4
_CLASSES = 1000


def resnet50(size: int) -> Network:
    """Return ResNet-50 for size x size pixels, 1000 logits out."""
    net = NetworkBuilder()
    x = net.add(
        Convolution(
            "conv1", INPUT_NAME, 64, kernel=7, stride=2, padding=3, activation=Activation.RELU
        )
    )
    x = net.add(MaxPool("maxpool", x, kernel=3, stride=2, padding=1))
    for stage, (blocks, channels) in enumerate(_STAGES, start=1):
        for block in range(blocks):
            # The first stage's size was already halved by the pool.
            stride = 2 if block == 0 and stage > 1 else 1
            x = _bottleneck(net, f"layer{stage}.{block}", x, channels, stride, project=block == 0)
    x = net.add(GlobalAveragePool("avgpool", x))
    logits = net.add(FullyConnected("fc", x, _CLASSES))
    return net.build("resnet50", size, size, [logits])


def _bottleneck(
    net: NetworkBuilder, name: str, source: str, channels: int, stride: int, *, project: bool
) -> str:
    """Add a 1x1, 3x3, 1x1 block with a shortcut, which `project` fits to the new shape."""
    relu = Activation.RELU
    branch = net.add(Convolution(f"{name}.conv1", source, channels, kernel=1, activation=relu))
    branch = net.add(
        Convolution(
            f"{name}.conv2", branch, channels, kernel=3, stride=stride, padding=1, activation=relu
        )
    )
    branch = net.add(Convolution(f"{name}.conv3", branch, channels * _EXPANSION, kernel=1))
    shortcut = source
    if project:
        shortcut = net.add(
            Convolution(
                f"{name}.downsample", source, channels * _EXPANSION, kernel=1, stride=stride
            )
        )
    return net.add(Add(f"{name}.add", shortcut, branch, activation=relu))
