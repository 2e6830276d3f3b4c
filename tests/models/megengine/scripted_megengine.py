"""Replaces MegEngine's environment by a Python that has a scripted `megengine`.

A "dump" is what the layers were called with, as JSON. What else it does is set with
$SCRIPTED_MEGENGINE; models/megengine/converter.py itself runs for real, with this Python's numpy.
"""

from __future__ import annotations

from pathlib import Path

from reusebench.models.megengine.environment import MEGENGINE
from tests.models.rknn.scripted_toolkit import install_scripted

_MEGENGINE = """
def tensor(values):
    return list(values.shape)
"""

# Each function of a layer returns its name and what it got: an array is its shape.
_FUNCTIONAL = """
import os, signal

def _called(name):
    def call(*arguments, **options):
        what = os.environ.get("SCRIPTED_MEGENGINE", "succeed")
        if what == "raise":
            raise RuntimeError("assertion failed\\n\\nbacktrace:\\n/lib/somewhere")
        if what == "die":
            print("half a wo", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return [name, *arguments, options]
    return call

conv2d = _called("conv2d")
linear = _called("linear")
max_pool2d = _called("max_pool2d")
mean = _called("mean")
concat = _called("concat")
relu, relu6, silu, sigmoid = map(_called, ("relu", "relu6", "silu", "sigmoid"))

class vision:
    interpolate = staticmethod(_called("interpolate"))
"""

_JIT = """
import json

class trace:
    def __init__(self, **options):
        self.options = options

    def __call__(self, *arguments):
        if not hasattr(self, "function"):
            (self.function,) = arguments
            return self
        self.outputs = self.function(*arguments)

    def dump(self, file, **options):
        dumped = {"trace": self.options, "dump": options, "outputs": self.outputs}
        file.write(json.dumps(dumped).encode())
"""


# Each pass over a graph writes one pass more, until there have been three.
_NETWORK = """
import json

class Network:
    def __init__(self, graph):
        self.graph = graph

    @classmethod
    def load(cls, file):
        return cls(json.load(file))

    def dump(self, file, output_names):
        assert output_names == self.graph["dump"]["output_names"]
        self.graph["passes"] = min(self.graph.get("passes", 0) + 1, 3)
        file.write(json.dumps(self.graph).encode())
"""


def install_scripted_megengine() -> Path:
    """Install it in MegEngine's place; return its folder, whose file `starts` gets a line per
    start.
    """
    modules = {"__init__": _MEGENGINE, "functional": _FUNCTIONAL, "jit": _JIT}
    modules |= {"utils/__init__": "", "utils/network": _NETWORK}
    return install_scripted(MEGENGINE, "megengine", modules)
