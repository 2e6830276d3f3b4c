"""Replaces rknn-toolkit2's environment by a Python that has a scripted `rknn`.

$SCRIPTED_TOOLKIT sets its behaviour: `refuse`, or `refuse 640`, which succeeds if no input has that
size. models/rknn/converter.py itself runs for real.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reusebench.models.conversion.environments import ConverterEnvironment
from reusebench.models.rknn.toolkit import TOOLKIT

# The interpreter: takes `-I PROGRAM`, and makes the scripted package importable.
_PYTHON = """#!/bin/sh
echo started >> '{folder}/starts'
exec '{python}' -c 'import runpy, sys
sys.path.insert(0, "{folder}")
runpy.run_path(sys.argv[2], run_name="__main__")' "$@"
"""

_RKNN = r"""
import json, os, re, signal, time, zlib

def _array(file):
    # The type of a .npy file, the number of its bytes of data, and their checksum.
    header, _, data = file.partition(b"\n")
    return re.search(rb"'descr': '(.*?)'", header)[1].decode(), len(data), zlib.crc32(data)

class RKNN:
    def __init__(self, verbose):
        print("I rknn-toolkit2 version: scripted")

    def config(self, **options):
        self.options = options
        return 0

    def load_onnx(self, path, **sizes):
        self.options.update(sizes, onnx=os.path.basename(path))
        return 0

    def build(self, do_quantization, dataset=None):
        self.options["do_quantization"] = do_quantization
        files = open(dataset).read().split() if dataset else []
        self.options["calibration"] = [_array(open(file, "rb").read()) for file in files]
        script, _, size = os.environ.get("SCRIPTED_TOOLKIT", "succeed").partition(" ")
        if size and int(size) not in sum(self.options["input_size_list"], []):
            script = "succeed"
        return getattr(self, "_" + script)()

    def export_rknn(self, path):
        with open(path, "w") as file:
            json.dump(self.options, file)
        return 0

    def release(self):
        pass

    def _succeed(self):
        return 0

    def _refuse(self):
        print("\x1b[1;31mE\x1b[0m \x1b[1;31mbuild: rv9999 cannot do that!\x1b[0m")
        print("W and that was all")
        return -1

    def _raise(self):
        raise ValueError('Traceback:\n  File "sparse.py", line 1\nIndexError: out\n of range\n\n')

    def _die(self):
        print("half a wo", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def _hang(self):
        print("I OpFusing 0", flush=True)
        time.sleep(600)

    def _interrupt(self):
        with open("process", "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)
"""


def install_scripted_toolkit() -> Path:
    """Install it in the toolkit's place; return its folder, whose file `starts` gets a line per
    start.
    """
    return install_scripted(TOOLKIT, "rknn", {"__init__": "", "api": _RKNN})


def install_scripted(
    environment: ConverterEnvironment, package: str, modules: dict[str, str]
) -> Path:
    """Install a Python with a package of these modules as the environment; return its folder."""
    folder = environment.folder()
    for name, text in modules.items():
        module = folder / package / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(text)
    python = environment.python()
    python.parent.mkdir()
    python.write_text(_PYTHON.format(folder=folder, python=sys.executable))
    python.chmod(0o755)
    return folder
