"""A network that turns a camera frame into one of equal size, so that copying them is its cost."""

from __future__ import annotations

from reusebench.models.networks.layers import Convolution
from reusebench.models.networks.network import INPUT_CHANNELS, INPUT_NAME, Network, NetworkBuilder

__all__ = ["ROWS_STEP", "frame"]

#: A frame has 16 columns for every 9 rows.
_COLUMNS_STEP = 16
ROWS_STEP = 9


def frame(size: int) -> Network:
    """Return the network for frames of 16:9, size rows high, a multiple of ROWS_STEP.

    Each colour out is a weighted sum of the pixel's three. No activation: it would make a colour
    whose weights are all negative black.
    """
    net = NetworkBuilder()
    colours = net.add(Convolution("colours", INPUT_NAME, INPUT_CHANNELS, kernel=1))
    return net.build("frame", size, size // ROWS_STEP * _COLUMNS_STEP, [colours])
