"""Prints the contents of a `.mge` file as JSON, or null if it is no such file; runs no network.

It runs in MegEngine's own environment and imports nothing of this project: the Python there may be
3.8.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

# Otherwise MegEngine makes a folder in the user's cache. It reads this variable when imported.
os.environ["MGE_FASTRUN_CACHE_TYPE"] = "MEMORY"

import megengine  # type: ignore[import-not-found]
import numpy as np
from megengine.utils.network import Network  # type: ignore[import-not-found]

#: Types of operators that are constants, of one tensor or several, or inputs.
_CONSTANTS = (
    "ImmutableTensor",
    "SharedDeviceTensor",
    "MultipleDeviceTensorHolder",
    "MultipleDeviceTensorWithFormatHolder",
)
_INPUTS = ("Host2DeviceCopy",)


def main() -> None:
    """Print the contents of the file in the first argument."""
    answer = os.fdopen(os.dup(1), "w")
    # MegEngine's messages about missing drivers go to standard error.
    os.dup2(2, 1)
    try:
        network = Network.load(sys.argv[1])
    except RuntimeError:
        network = None
    json.dump(_contents(network) if network else None, answer)


def _contents(network: Any) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    operators: Counter[str] = Counter()
    for operator in network.all_oprs:
        if operator.type in _CONSTANTS:
            for variable in operator.outputs:
                element_type = np.dtype(variable.dtype)
                counts[element_type.name] += 1
                sizes[element_type.name] += int(np.prod(variable.shape)) * element_type.itemsize
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
    # The shape is None if it depends on values.
    shape = None if variable.shape is None else [int(size) for size in variable.shape]
    return variable.name, np.dtype(variable.dtype).name, shape


if __name__ == "__main__":
    main()
