"""The influence of another process of the same runtime: `python -m benchmarks.neighbours`.

The scenarios of a quick session are measured twice: on a quiet machine, and beside a process that
imports the same runtime, runs a small model, and comes and goes every 4 s. Printed are the medians
and all repeats of memory above the baseline, as allocated and trimmed, and by how much they differ
from the quiet ones in percent; beside them the same by PSS, which was the figure before version
0.2. The last line has the largest difference of each.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.quick import own_folder, parse, skip, tiny_model
from reusebench.storage.result import Result, StoredRepeat
from reusebench.storage.run_file import StoredRun, read_storage

_MIB = 2**20
_PERIOD_S = 4.0
#: Loads a model, infers once, and waits; then the next process does.
_NEIGHBOURS = {
    "onnxruntime": """
        import onnxruntime, numpy
        session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
        feeds = {}
        for given in session.get_inputs():
            feeds[given.name] = numpy.zeros(given.shape, numpy.float32)
        session.run(None, feeds)
    """,
    "openvino": """
        import openvino
        openvino.Core().compile_model(sys.argv[1], "CPU")
    """,
    "mnn": "import MNN",
    "ncnn": "import ncnn",
    "litert": "from ai_edge_litert.compiled_model import CompiledModel",
}
#: Options for --quick: one scenario, once.
_SMALL = ("-k", "full_dup", "--repeats", "1", "--streams", "1", "--rounds", "2")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure twice, and print a line for each scenario."""
    parser = argparse.ArgumentParser("python -m benchmarks.neighbours", description=__doc__)
    parser.add_argument("--runtime", choices=_NEIGHBOURS, default="onnxruntime")
    parser.add_argument("--repeats", default="3", help="processes of each scenario (default: 3)")
    options = parse(parser, arguments, ["--repeats=1"])
    folder = own_folder()
    model = tiny_model()
    session = ["--quick", "--runtime", options.runtime, "-q", "--repeats", options.repeats]
    if options.quick:
        session += _SMALL
    quiet = _measure(session, folder / "quiet")
    with neighbour(options.runtime, model):
        beside = _measure(session, folder / "beside")
    if not quiet or quiet.keys() != beside.keys():
        skip(f"{options.runtime} was not measured: pytest's output above has the reason")

    print(
        f"{'MiB above the baseline':28}{'quiet':>9}{'beside':>9}{'differs':>9}  repeats beside it"
    )
    worst: dict[str, float] = {}
    for scenario, before in quiet.items():
        after = beside[scenario]
        for name, values_before, values_after in _figures(before, after):
            worst[name] = max(
                worst.get(name, 0.0), _print(scenario, name, values_before, values_after)
            )
    for name, percent in worst.items():
        print(f"largest difference, {name}: {percent:.2f} %")


def _figures(before: Result, after: Result) -> Iterator[tuple[str, list[int], list[int]]]:
    yield (
        "pages",
        _known(before.memory.application_memory_over_baseline_bytes),
        _known(after.memory.application_memory_over_baseline_bytes),
    )
    yield "pages, trimmed", _trimmed(before), _trimmed(after)
    yield "PSS", _by_pss(before, "steady"), _by_pss(after, "steady")
    yield "PSS, trimmed", _by_pss(before, "trimmed"), _by_pss(after, "trimmed")


def _trimmed(result: Result) -> list[int]:
    memory = result.memory
    trimmed = _known(memory.application_memory_trimmed_bytes)
    return [most - least for most, least in zip(trimmed, _known(memory.baseline_memory_bytes))]


def _by_pss(result: Result, phase: str) -> list[int]:
    return [_pss(repeat, phase) - _pss(repeat, "imported") for repeat in result.repeats]


def _pss(repeat: StoredRepeat, phase: str) -> int:
    return repeat.phases[phase].process.pss_bytes


def _known(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _print(scenario: str, name: str, before: Sequence[int], after: Sequence[int]) -> float:
    """Print a line; return the largest difference of a repeat, in percent of the quiet median."""
    quiet = statistics.median(before)
    differences = [100 * (value - quiet) / quiet for value in after]
    median = 100 * (statistics.median(after) - quiet) / quiet
    repeats = " ".join(f"{value / _MIB:.2f}" for value in after)
    print(
        f"{scenario[:17]:17} {name:10.10}{quiet / _MIB:9.2f}"
        f"{statistics.median(after) / _MIB:9.2f}{median:8.2f}%  {repeats}"
    )
    return max(map(abs, differences))


def _measure(session: Sequence[str], folder: Path) -> dict[str, Result]:
    """Return the results of a session that came to their end, by scenario."""
    folder.mkdir()
    storage = folder / "storage"
    command = [sys.executable, "-m", "reusebench", "bench", *session]
    subprocess.run([*command, f"--benchmark-storage=file://{storage}"], cwd=folder, check=False)
    results = {}
    for run in read_storage(storage):
        assert isinstance(run, StoredRun)
        for stored in run.results:
            info = stored.info
            is_plain = info.limit is None and info.cycles is None
            if info.outcome == "ok" and info.measured_as is None and is_plain:
                results[info.scenario] = info
    return results


@contextmanager
def neighbour(runtime: str, model: str) -> Iterator[None]:
    """Have processes of the runtime come and go, each for half of the period."""
    body = textwrap.dedent(_NEIGHBOURS[runtime])
    program = f"import sys, time\n{body}\ntime.sleep({_PERIOD_S / 2})"
    loop = (
        "import subprocess, sys, time\n"
        "while True:\n"
        "    subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[2]], check=True)\n"
        f"    time.sleep({_PERIOD_S / 2})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", loop, program, model])
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
