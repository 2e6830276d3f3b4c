"""Converts ONNX files into ncnn's pairs of files, `.param` and `.bin`, in the environment of pnnx.

models/conversion/loop.py runs it. It imports nothing of this project: the Python of pnnx may be
3.8. pnnx itself is a program.
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

#: As pnnx writes the types of inputs.
_TYPES = {"float": "f", "int": "i", "uint": "u"}
_TYPE = re.compile(r"(float|uint|int)(\d+)")
#: How the program that pnnx writes beside the files feeds an input.
_FED = re.compile(r'ex\.input\("(\w+)", ncnn\.Mat\((.*)\)')
_BATCH = re.compile(r"batch_index=(\d+)")
#: Of the layer Input: its parameters by dimension, from the innermost.
_SIZES = {1: (0,), 2: (0, 1), 3: (0, 1, 2), 4: (0, 1, 11, 2)}
#: What pnnx's log has besides words: headings, tables, colours.
_NO_WORDS = re.compile(r"#.*|[^\w\s].*|\w+ \.\.\..*")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: Of pnnx's files here: no file of the user's is called so.
_STEM = "reusebench_converted"


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"] (.param) and job["weights"] (.bin); return None, or the step that failed
    and its words.
    """
    shapes = []
    for tensor in job["inputs"]:
        kind = _TYPE.fullmatch(tensor["type"])
        if not kind or not tensor["shape"]:
            what = tensor["type"] if tensor["shape"] else "scalar"
            return {
                "step": "reading the inputs",
                "words": f"pnnx takes no {what} (input {tensor['name']})",
            }
        shapes.append(f"[{','.join(map(str, tensor['shape']))}]{_TYPES[kind[1]]}{kind[2]}")
    # It writes where the model is, a copy, and calls its files as the model.
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
        return {
            "step": "pnnx",
            "words": f"it leaves operators that ncnn lacks: {', '.join(lacking)}",
        }
    lines = _with_sizes(lines, job["inputs"], (folder / f"{_STEM}_ncnn.py").read_text())
    param.write_text("\n".join(lines) + "\n")
    net = ncnn.Net()
    if net.load_param(str(param)) != 0 or net.load_model(str(weights)) != 0:
        # ncnn has printed which layer it was.
        return {"step": "loading what pnnx wrote with ncnn", "words": ""}
    shutil.move(str(weights), job["weights"])
    shutil.move(str(param), job["output"])
    return None


def _pnnx() -> str:
    """Return the program that the package has; its module would import PyTorch."""
    spec = importlib.util.find_spec("pnnx")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(spec.submodule_search_locations[0]) / "pnnx")


def _with_sizes(layers: list[str], inputs: list[dict[str, Any]], program: str) -> list[str]:
    """Return the lines of the network with the sizes of its inputs, which pnnx leaves out.

    The program says which dimension of an input is its batch, which ncnn does not have; 233 stands
    for none.
    """
    batches = {}
    for name, arguments in _FED.findall(program):
        index = _BATCH.search(arguments)
        batches[name] = int(index[1]) if index else None
    sized = []
    for line in layers:
        kind, name, *_ = [*line.split(), ""]
        if (
            kind == "Input"
            and name.startswith("in")
            and name[2:].isdigit()
            and int(name[2:]) < len(inputs)
        ):
            shape = list(inputs[int(name[2:])]["shape"])
            batch = batches.get(name)
            if batch is not None and batch < len(shape):
                del shape[batch]
            parameters = zip(_SIZES.get(len(shape), ()), reversed(shape))
            line = " ".join([line, *(f"{number}={size}" for number, size in parameters)])
        sized.append(line)
    return sized


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Return how pnnx failed: by which signal, or its last line in words."""
    if done.returncode < 0:
        return f"it crashed ({signal.Signals(-done.returncode).name})"
    lines = [_COLOURS.sub("", line).strip() for line in done.stdout.splitlines()]
    said = [line for line in lines if line and not _NO_WORDS.fullmatch(line)]
    return said[-1] if said else f"it ended with {done.returncode} and wrote nothing"
