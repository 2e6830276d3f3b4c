"""A network of 0.3 MiB for tests and for trying the tool; it is good for nothing else."""

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

__all__ = ["tiny"]

_CLASSES = 100


def tiny(size: int) -> Network:
    """Return a classifier for size x size pixels, 100 logits out, with most kinds of layers."""
    relu = Activation.RELU
    net = NetworkBuilder()
    x = net.add(Convolution("stem", INPUT_NAME, 16, kernel=3, stride=2, padding=1, activation=relu))
    x = net.add(
        Convolution("depthwise", x, 16, kernel=3, padding=1, groups=16, activation=Activation.RELU6)
    )
    x = net.add(Convolution("widen", x, 64, kernel=3, stride=2, padding=1, activation=relu))
    branch = net.add(Convolution("branch", x, 64, kernel=3, padding=1))
    x = net.add(Add("add", x, branch, activation=relu))
    x = net.add(MaxPool("maxpool", x, kernel=2, stride=2))
    x = net.add(Convolution("last", x, 128, kernel=1, activation=relu))
    x = net.add(GlobalAveragePool("pool", x))
    logits = net.add(FullyConnected("fc", x, _CLASSES))
    return net.build("tiny", size, size, [logits])
