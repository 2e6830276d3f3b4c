"""Prints what a `.mge` file shows as JSON, in MegEngine's own environment; null where it is none.
It runs nothing.

It imports nothing of this project: MegEngine's Python may be 3.8.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

# Otherwise it makes a folder of its own in the user's cache. It is read at the import.
os.environ["MGE_FASTRUN_CACHE_TYPE"] = "MEMORY"

import megengine  # type: ignore[import-not-found]
import numpy as np
from megengine.utils.network import Network  # type: ignore[import-not-found]

#: Operators that are constants, of one tensor or several, and those that are inputs.
_CONSTANTS = (
    "ImmutableTensor",
    "SharedDeviceTensor",
    "MultipleDeviceTensorHolder",
    "MultipleDeviceTensorWithFormatHolder",
)
_INPUTS = ("Host2DeviceCopy",)


def main() -> None:
    """Print what the file in the first argument shows."""
    answer = os.fdopen(os.dup(1), "w")
    # What MegEngine says of missing drivers goes to standard error.
    os.dup2(2, 1)
    try:
        network = Network.load(sys.argv[1])
    except RuntimeError:
        network = None
    json.dump(_shown(network) if network else None, answer)


def _shown(network: Any) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    for operator in network.all_oprs:
        if operator.type in _CONSTANTS:
            for variable in operator.outputs:
                name = np.dtype(variable.dtype).name
                counts[name] += 1
                sizes[name] += int(np.prod(variable.shape)) * np.dtype(variable.dtype).itemsize
        elif operator.type not in _INPUTS:
            operators[operator.type] += 1
    return {
        "inputs": [_tensor(variable) for variable in network.input_vars],
        "outputs": [_tensor(variable) for variable in network.output_vars],
        "weights": [(name, counts[name], size) for name, size in sizes.most_common()],
        "operators": operators.most_common(),
        "version": megengine.__version__,
    }


def _tensor(variable: Any) -> tuple[str, str, list[int] | None]:
    # None if it follows from values alone.
    shape = variable.shape
    return (
        variable.name,
        np.dtype(variable.dtype).name,
        None if shape is None else [int(size) for size in shape],
    )


if __name__ == "__main__":
    main()
