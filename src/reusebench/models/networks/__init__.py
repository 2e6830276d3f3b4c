"""The list of networks that model files can be made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from reusebench.models.errors import ModelError
from reusebench.models.networks.frame import ROWS_STEP, frame
from reusebench.models.networks.mobilenet_v2 import mobilenet_v2
from reusebench.models.networks.network import Network
from reusebench.models.networks.resnet50 import resnet50
from reusebench.models.networks.tiny import tiny
from reusebench.models.networks.yolov5s import yolov5s

__all__ = ["NETWORKS", "NetworkEntry", "find_network"]

#: Smaller inputs would leave nothing of the deepest maps (stride 32).
_SMALLEST_SIZE = 32
#: Far above any use: a typing error is refused here, before a shape overflows.
_LARGEST_SIZE = 16384


@dataclass(frozen=True)
class NetworkEntry:
    """One network on offer."""

    name: str
    #: Function that makes the description for a size that check_size accepts.
    make: Callable[[int], Network]
    #: Height in pixels that the published figures are for; also the width, except for `frame`.
    default_size: int
    #: Valid sizes are multiples of this number.
    size_step: int
    #: Millions of parameters as published (batch norm not folded); None for a network of our own.
    published_millions: float | None
    #: Publication of the architecture and its parameter count.
    source: str

    def check_size(self, size: int) -> None:
        """Raise ModelError unless the network can be made for that size."""
        smallest = math.ceil(_SMALLEST_SIZE / self.size_step) * self.size_step
        if smallest <= size <= _LARGEST_SIZE and size % self.size_step == 0:
            return
        number = "a whole number"
        if self.size_step > 1:
            number = f"a multiple of {self.size_step}"
        valid = f"{number} from {smallest} to {_LARGEST_SIZE}"
        raise ModelError(f"{self.name} cannot be made for size {size}; valid: {valid}")


NETWORKS: tuple[NetworkEntry, ...] = (
    NetworkEntry(
        "resnet50", resnet50, 224, 1, 25.56, "arXiv:1512.03385; torchvision.models.resnet50"
    ),
    NetworkEntry(
        "mobilenet_v2",
        mobilenet_v2,
        224,
        1,
        3.50,
        "arXiv:1801.04381; torchvision.models.mobilenet_v2",
    ),
    # Two of its maps are upsampled and joined with others, so multiples of the largest stride fit.
    NetworkEntry("yolov5s", yolov5s, 640, 32, 7.2, "github.com/ultralytics/yolov5, tag v7.0"),
    NetworkEntry("tiny", tiny, 64, 1, None, "made up: for tests and for trying the tool"),
    NetworkEntry(
        "frame", frame, 1080, ROWS_STEP, None, "made up: 16:9 frames in and out, size is the height"
    ),
)


def find_network(name: str) -> NetworkEntry:
    """Return the entry of that name, or raise ModelError."""
    for entry in NETWORKS:
        if entry.name == name:
            return entry
    raise ModelError(
        f"unknown network {name!r}; valid: {', '.join(entry.name for entry in NETWORKS)}"
    )
