"""Converts ONNX files into ncnn's pairs of files, `.param` and `.bin`, in the environment of pnnx.

models/conversion/loop.py runs it. It imports nothing of this project: the Python of pnnx may be
3.8. pnnx itself is a program without a Python module.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import ncnn

#: Types of inputs in the notation of pnnx.
_TYPES = {"float": "f", "int": "i", "uint": "u"}
_TYPE = re.compile(r"(float|uint|int)(\d+)")
#: Line that feeds an input, in the program that pnnx writes beside the files.
_FED = re.compile(r'ex\.input\("(\w+)", ncnn\.Mat\((.*)\)')
_BATCH = re.compile(r"batch_index=(\d+)")
#: Parameters of the layer Input with its sizes, by number of dimensions, from the innermost.
_SIZES = {1: (0,), 2: (0, 1), 3: (0, 1, 2), 4: (0, 1, 11, 2)}
#: Lines of pnnx's log without a message: headings, tables, progress.
_NO_MESSAGE = re.compile(r"#.*|[^\w\s].*|\w+ \.\.\..*")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: Stem of pnnx's files, which no file of the user has.
_STEM = "reusebench_converted"


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"] (.param) and job["weights"] (.bin).

    Returns None, or the failed step and its message.
    """
    shapes = []
    for tensor in job["inputs"]:
        shape = _input_shape(tensor)
        if shape is None:
            words = f"pnnx takes no {tensor['type']} (input {tensor['name']})"
            return {"step": "reading the inputs", "words": words}
        shapes.append(shape)

    # pnnx writes beside the model, which is a copy, and its files get the model's stem.
    model = Path(job["onnx"])
    folder = model.parent
    model.rename(folder / f"{_STEM}.onnx")
    done = subprocess.run(
        [_pnnx(), f"{_STEM}.onnx", f"inputshape={','.join(shapes)}", "fp16=0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    param = folder / f"{_STEM}.ncnn.param"
    weights = folder / f"{_STEM}.ncnn.bin"
    if done.returncode or not param.exists():
        return {"step": "pnnx", "words": _last_words(done)}

    lines = param.read_text().splitlines()
    kinds = sorted({line.split()[0] for line in lines[2:]})
    lacking = [kind for kind in kinds if ncnn.layer_to_index(kind) < 0]
    if lacking:
        words = f"it leaves operators that ncnn lacks: {', '.join(lacking)}"
        return {"step": "pnnx", "words": words}
    lines = _with_sizes(lines, job["inputs"], (folder / f"{_STEM}_ncnn.py").read_text())
    param.write_text("\n".join(lines) + "\n")
    net = ncnn.Net()
    if net.load_param(str(param)) != 0 or net.load_model(str(weights)) != 0:
        # ncnn has printed the layer that failed.
        return {"step": "loading what pnnx wrote with ncnn", "words": ""}
    shutil.move(str(weights), job["weights"])
    shutil.move(str(param), job["output"])
    return None


def _input_shape(tensor: dict[str, Any]) -> str | None:
    """Return shape and type of an input in the notation of pnnx; None if pnnx refuses it."""
    kind = _TYPE.fullmatch(tensor["type"])
    if not kind:
        return None
    sizes = ",".join(map(str, tensor["shape"]))
    return f"[{sizes}]{_TYPES[kind[1]]}{kind[2]}"


def _pnnx() -> str:
    """Return the path of the program in the package, whose module would import PyTorch."""
    spec = importlib.util.find_spec("pnnx")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(spec.submodule_search_locations[0]) / "pnnx")


def _with_sizes(layers: list[str], inputs: list[dict[str, Any]], program: str) -> list[str]:
    """Return the lines of the network with the sizes of its inputs, which pnnx leaves out.

    The program has the batch dimension of each input, which ncnn leaves out; 233 means none.
    """
    batches = {}
    for name, arguments in _FED.findall(program):
        batch = _BATCH.search(arguments)
        if batch:
            batches[name] = int(batch[1])

    sized = []
    for line in layers:
        kind, name, *_ = [*line.split(), ""]
        number = name[2:]
        is_input = kind == "Input" and name.startswith("in") and number.isdigit()
        if is_input and int(number) < len(inputs):
            shape = list(inputs[int(number)]["shape"])
            if name in batches and batches[name] < len(shape):
                del shape[batches[name]]
            for parameter, size in zip(_SIZES.get(len(shape), ()), reversed(shape)):
                line += f" {parameter}={size}"
        sized.append(line)
    return sized


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the signal that ended pnnx, or its last message."""
    if done.returncode < 0:
        return f"it crashed ({signal.Signals(-done.returncode).name})"
    lines = [_COLOURS.sub("", line).strip() for line in done.stdout.splitlines()]
    messages = [line for line in lines if line and not _NO_MESSAGE.fullmatch(line)]
    if not messages:
        return f"it ended with {done.returncode} and wrote nothing"
    return messages[-1]
