"""Small nets in ncnn's format: text with a line for each layer, and a file of weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

__all__ = ["DETECTOR", "Detector", "write_net"]

_MAGIC = 7767517
#: Bytes before the weights of a layer that are float32.
_FLOATS = b"\0\0\0\0"


class Detector:
    """A net with two outputs, 0.3 MB of weights and wider tensors, for pictures of any size."""

    #: Outputs, inputs and side of the kernel of each convolution.
    convolutions = ((16, 3, 3), (64, 16, 3), (64, 64, 3), (8, 64, 1), (5, 64, 1))

    def weights(self, seed: int = 0) -> list[np.ndarray]:
        """Return the weights and the biases."""
        random = np.random.RandomState(seed)
        arrays = []
        for outputs, inputs, side in self.convolutions:
            arrays.append(
                random.randn(outputs, inputs, side, side).astype(np.float32) / (inputs * side)
            )
            arrays.append(random.randn(outputs).astype(np.float32))
        return arrays

    def layers(self, size: int | None) -> list[str]:
        """Return the layers; without a size, the file leaves the sizes of the picture free."""
        sizes = "" if size is None else f" 0={size} 1={size} 2=3"
        return [
            f"Input in0 0 1 in0{sizes}",
            self._convolution("first", "in0", "a", 0, "1=3 3=2 4=1 9=1"),
            self._convolution("second", "a", "b", 1, "1=3 4=1 9=1"),
            self._convolution("third", "b", "c", 2, "1=3 4=1 9=1"),
            "Split split 1 2 c d e",
            self._convolution("scores", "d", "out1", 3, "1=1"),
            self._convolution("boxes", "e", "f", 4, "1=1"),
            "Sigmoid sigmoid 1 1 f out0",
        ]

    def _convolution(self, name: str, bottom: str, top: str, number: int, parameters: str) -> str:
        outputs, inputs, side = self.convolutions[number]
        return (
            f"Convolution {name} 1 1 {bottom} {top} 0={outputs} 5=1"
            f" 6={outputs * inputs * side * side} {parameters}"
        )


DETECTOR = Detector()


def write_net(path: Path, layers: Sequence[str], weights: Sequence[np.ndarray] = ()) -> Path:
    """Write the .param file of the path and its .bin; arrays of one dimension are biases."""
    blobs = sum(int(line.split()[3]) for line in layers)
    path.write_text("\n".join([str(_MAGIC), f"{len(layers)} {blobs}", *layers, ""]))
    pieces = [(_FLOATS if array.ndim > 1 else b"") + array.tobytes() for array in weights]
    path.with_suffix(".bin").write_bytes(b"".join(pieces))
    return path
