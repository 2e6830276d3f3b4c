"""Sizes that others published from real boards, measured again on the virtual board.

`python -m benchmarks.silicon --models DIR` compares the sizes of silicon.csv with those that every
library of Rockchip's that is here has on the virtual board (docs/evidence/silicon.md),
and prints a table in Markdown; it takes a minute for each library. The exit code is 1 if a size
differs.

DIR has the .rknn files of others, in any folders. For RK3588:

    git clone https://github.com/allbilly/rk3588
    python -m benchmarks.silicon --models rk3588/experimental/rknn/models

Files with a SHA-256 in silicon.csv are found by it, the others by their name there (NAME.rknn).
Plain convolutions (conv2d_c64_h56_w56_oc128_k1x1) and MobileNetV2 need no files: they are built,
and converted by rknn-toolkit2 (`reusebench models install rknn-toolkit`).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import reusebench
from benchmarks.quick import own_folder, parse, skip
from reusebench.commands.benching import run_bench
from reusebench.models import ModelError, Recipe, ensure_all
from reusebench.storage.board_sizes import ScenarioSizes, sizes_of_results
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun, read_run_file
from reusebench.targets.rknn_library import RknnLibrary, find_libraries
from reusebench.targets.vboard.catalogue import rknn_board

__all__ = ["PUBLISHED", "Published", "compared", "published", "sizes_as_published"]

PUBLISHED = Path(__file__).with_name("silicon.csv")
_PAGE_BYTES = 4096
#: Key: unit of a printed figure with two decimals.
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
#: Parts of the buffer with the weights: of librknnrt, and of librknnmrt, which has the internal
#: tensors there too.
_WEIGHTS_BUFFER = ("weights", "other", "register_commands", "task_list_copy")
_INTERNAL = "internal"
_MINI = "librknnmrt"
#: Parts that rknn_init allocates: what eval_memory counts.
_OF_INIT = ("task_list", *_WEIGHTS_BUFFER, _INTERNAL)
_CONVOLUTION = re.compile(r"conv2d_c(\d+)_h(\d+)_w(\d+)_oc(\d+)_k(\d+)x(\d+)")
_NETWORK = "mobilenet_v2"
_NETWORK_SIZE = 224
_SCENARIO = "no_reuse"


@dataclass(frozen=True)
class Published:
    """A figure that somebody printed on a real board."""

    chip: str
    library: str
    model: str
    #: SHA-256 of the model's file; empty: not known.
    sha256: str
    part: str
    #: As it was printed.
    size: str
    #: "bytes": as requested; "pages": bytes in whole pages; or a key of _UNITS.
    unit: str
    source: str


def published() -> list[Published]:
    """Return the figures of silicon.csv, in order."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [Published(**row) for row in csv.DictReader(file)]


def sizes_as_published(sizes: dict[str, int], kind: str) -> dict[str, int]:
    """Return the parts of a context by the names of silicon.csv, in bytes as they were requested;
    `rest` and `total` are in whole pages.
    """
    buffer = sum(sizes.get(part, 0) for part in _WEIGHTS_BUFFER)
    if kind == _MINI:
        buffer += sizes.get(_INTERNAL, 0)
    tasks = sizes.get("task_list", 0)
    of_init = _pages(tasks) + _pages(buffer)
    weights = sizes.get("weights", 0)
    total = of_init + (0 if kind == _MINI else _pages(sizes.get(_INTERNAL, 0)))
    return {
        **sizes,
        "weights_buffer": buffer,
        "rest": of_init - weights,
        "total": total,
    }


def compared(figure: Published, sizes: dict[str, int]) -> str:
    """Return the measured size as the figure was printed; empty if there is no such part."""
    size_bytes = sizes.get(figure.part)
    if size_bytes is None:
        return ""
    if figure.unit == "pages":
        return str(_pages(size_bytes))
    if figure.unit in _UNITS:
        return f"{size_bytes / _UNITS[figure.unit]:.2f}"
    return str(size_bytes)


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; return 1 if a size differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, metavar="DIR", help="folder with .rknn files")
    parser.add_argument(
        "--rknn-library",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="library or folder; default: those in the usual folders",
    )
    parser.add_argument("--chip", help="only this chip")
    parser.add_argument("--only", action="append", metavar="MODEL", help="only this model")
    options = parse(parser, arguments, ["--chip=rk3588", f"--only={_NETWORK}"])
    libraries = [
        one for one in find_libraries(options.rknn_library) if not rknn_board(one).missing_parts()
    ]
    if not libraries:
        skip("no virtual board is ready: reusebench board install --rknn-library FILE")
    figures = [
        figure
        for figure in published()
        if options.chip in (None, figure.chip)
        and (options.only is None or figure.model in options.only)
    ]
    try:
        files = dict(_files(figures, options.models, own_folder()))
    except ModelError as error:
        skip(str(error))
    tally = _Tally()
    print("| chip | library | model | part | published | measured |\n|---|---|---|---|---:|---:|")
    for library in libraries[-1:] if options.quick else libraries:
        for chip in dict.fromkeys(figure.chip for figure in figures):
            if chip in library.chips():
                _compare(library, chip, [one for one in figures if one.chip == chip], files, tally)
    print(f"\n{tally.equal:,} of {tally.compared:,} sizes are equal.")
    absent = dict.fromkeys(figure.model for figure in figures if figure.model not in files)
    if absent:
        print(f"Not here: {', '.join(absent)}.")
    return 0 if tally.compared and tally.equal == tally.compared else 1


@dataclass
class _Tally:
    compared: int = 0
    equal: int = 0


def _files(
    figures: Sequence[Published], folder: Path | None, own: Path
) -> Iterator[tuple[str, Path]]:
    """Yield each model with its file, if it is here or can be built."""
    here = sorted(folder.rglob("*.rknn")) if folder else []
    digests = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in here}
    names = {path.stem: path for path in here}
    for figure in {figure.model: figure for figure in figures}.values():
        if figure.sha256:
            path = digests.get(figure.sha256)
        elif _CONVOLUTION.fullmatch(figure.model):
            path = names.get(figure.model) or _convolution(figure.model, own)
        elif figure.model == _NETWORK:
            (path,) = ensure_all(".rknn", [Recipe(_NETWORK, _NETWORK_SIZE, 1)], figure.chip)
        else:
            path = names.get(figure.model)
        if path is not None:
            yield figure.model, path


def _convolution(name: str, folder: Path) -> Path:
    """Write a convolution without bias as an ONNX file, and return its path."""
    match = _CONVOLUTION.fullmatch(name)
    assert match is not None
    channels, height, width, outputs, rows, columns = map(int, match.groups())
    values = np.random.default_rng(1).standard_normal((outputs, channels, rows, columns))
    out_shape = [1, outputs, height - rows + 1, width - columns + 1]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["input", "weight"], ["output"])],
        name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, channels, height, width])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, out_shape)],
        [numpy_helper.from_array(values.astype(np.float32), "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


def _compare(
    library: RknnLibrary,
    chip: str,
    figures: Sequence[Published],
    files: dict[str, Path],
    tally: _Tally,
) -> None:
    """Measure the models of a chip, one context each, and print a row for each figure."""
    of_model: dict[str, dict[str, int]] = {}
    # A session leaves ONNX files out if there are .rknn files too.
    for suffix in (".rknn", ".onnx"):
        models = []
        for model in dict.fromkeys(figure.model for figure in figures):
            if model in files and files[model].suffix == suffix:
                models.append(model)
        if models:
            sizes = _measured(library, chip, [files[model] for model in models])
            assert len(sizes.contexts) == len(models), sizes
            of_model.update(zip(models, sizes.contexts))
    for figure in figures:
        if figure.model not in of_model:
            continue
        measured = compared(figure, sizes_as_published(of_model[figure.model], library.kind))
        tally.compared += 1
        tally.equal += measured == figure.size
        shown = measured if measured == figure.size else f"**{measured or 'none'}**"
        published_size = f"{figure.size} {figure.unit}"
        row = (chip, library.version, figure.model, figure.part, published_size, shown)
        print(f"| {' | '.join(row)} |", flush=True)


def _measured(library: RknnLibrary, chip: str, paths: Sequence[Path]) -> ScenarioSizes:
    """Return the sizes of a context of each model, in order; end the script if there are none."""
    options = ["--runtime", "rknn", "--target", f"vboard:{chip}"]
    options += ["--rknn-library", str(library.path), "--streams", str(len(paths))]
    options += ["--contexts", "1", "--repeats", "1", "--rounds", "1", "-k", f"{_SCENARIO}]"]
    for path in paths:
        options += ["--model", str(path.absolute())]
    # Others converted their convolutions in floating point.
    if paths[0].suffix == ".onnx":
        options.append("--float")
    storage = own_folder()
    _, runs = run_bench(options, storage, ["test_dup.py"], sys.stderr)
    results: list[Result] = []
    for path in runs:
        run = read_run_file(path)
        if isinstance(run, StoredRun):
            results += [result.info for result in run.results]
    if not results or results[-1].outcome != "ok":
        sys.exit("the models were not measured: pytest's output above has the reason")
    (sizes,) = sizes_of_results(storage, results[-1:], chip, reusebench.__version__).scenarios
    return sizes


if __name__ == "__main__":
    sys.exit(main())
