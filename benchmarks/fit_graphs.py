"""Whether `reusebench fit` keeps its ± on a CPU: generated networks, for docs/evidence/fit.md.

    python -m benchmarks.fit_graphs --storage DIR --seeds 1-30 [--runtime NAME] [--beside]

For each seed a random network is written, and what fit measures for its contexts is measured. Then
each form that fit keeps runs in fresh processes, with the numbers of contexts that fit predicts and
with all contexts. Each process is compared with the prediction and its ±. The last lines count the
processes within, by figure, with Wilson's 95 % interval. The exit code is 1 if fewer than 95 % of
all are within.

Contexts infer six times, the least that fit takes: only memory is judged. With --beside fit's plans
run beside a process of the same runtime that comes and goes, and the others without it. A second
call with the same folder takes what the first has measured.

With --optimum all layouts of two contexts that may infer at once are enumerated without fit's
search, and the least of them is compared with the least that fit predicts.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from benchmarks.fit_accuracy import measured_plans
from benchmarks.neighbours import neighbour
from benchmarks.quick import own_folder, parse, tiny_model
from reusebench.fit.layouts import ContextGroup, Demand, Layout, spread
from reusebench.fit.process_costs import ProcessCosts
from reusebench.fit.search import Wish, search
from reusebench.fit.study import Study
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.harness.model_request import ModelRequest, resolve_model_sets
from reusebench.harness.selection import resolve_targets
from reusebench.measured.plan import DUP, INPUT, LOAD, OUTPUT, SHARED_CONTEXT, Context, Plan
from reusebench.models.errors import ModelError
from reusebench.models.networks.layers import (
    Activation,
    Add,
    Concat,
    Convolution,
    FullyConnected,
    GlobalAveragePool,
    MaxPool,
)
from reusebench.models.networks.network import INPUT_NAME, Network, NetworkBuilder
from reusebench.models.onnx.emitter import emit
from reusebench.scenarios.catalogue import STREAMS
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun, read_storage
from reusebench.targets.resolve import Selection

_MIB = 2**20
_WITHIN = 0.95
#: Quantile of the normal distribution for an interval of 95 %.
_QUANTILE = 1.96
#: Inferences of each context.
_ROUNDS = 6
#: A network that takes more of them is drawn again, so that a process takes a second or two.
_MOST_MULTIPLICATIONS = 300e6
_TENSORS: tuple[tuple[str, ...], ...] = ((), (INPUT,), (OUTPUT,), (INPUT, OUTPUT))
#: Layouts of the enumeration that are measured again in more processes.
_BEST = 6
_FIGURES = ("application memory", "above the import", "trimmed")


def random_network(seed: int) -> Network:
    """Return a network of random depth, widths, branches, size and outputs."""
    chance = random.Random(seed)
    while True:
        try:
            network = _drawn(chance)
        except ModelError:  # its maps became smaller than a kernel
            continue
        if _multiplications(network) <= _MOST_MULTIPLICATIONS:
            return network


def _multiplications(network: Network) -> int:
    """Return the multiplications of an inference, without those of biases and activations."""
    shapes = network.shapes()
    count = 0
    for name, parameters in network.parameters().items():
        positions = math.prod(shapes[name][2:])
        count += math.prod(parameters.weight) * positions
    return count


def _drawn(chance: random.Random) -> Network:
    net = NetworkBuilder()
    size = chance.choice((32, 64, 96, 128, 192, 256))
    x = INPUT_NAME
    #: Maps of the present size and number of channels, which can be added.
    alike: list[str] = []
    kept: list[str] = []
    width = 3
    for number in range(chance.randint(3, 14)):
        name = f"layer{number}"
        kind = chance.choice(("convolution", "convolution", "narrow", "pool", "add", "concat"))
        if kind == "pool":
            x = net.add(MaxPool(name, x, kernel=2, stride=2))
            alike = []
        elif kind == "add" and alike:
            x = net.add(Add(name, x, chance.choice(alike)))
        elif kind == "concat" and alike:
            x = net.add(Concat(name, (x, chance.choice(alike))))
            width *= 2
            alike = []
        else:
            width = min(512, chance.choice((8, 16, 32, 64, 128, 256)))
            kernel = 1 if kind == "narrow" else chance.choice((3, 5))
            stride = chance.choice((1, 1, 2))
            layer = Convolution(
                name,
                x,
                width,
                kernel=kernel,
                stride=stride,
                padding=kernel // 2,
                activation=chance.choice(tuple(Activation)),
            )
            x = net.add(layer)
            alike = []
        alike.append(x)
        kept.append(x)
    outputs = [x]
    if chance.random() < 0.5:
        pooled = net.add(GlobalAveragePool("pool", x))
        outputs = [net.add(FullyConnected("logits", pooled, chance.choice((10, 1000, 20000))))]
    if chance.random() < 0.4:
        outputs.append(chance.choice(kept))
    return net.build("graph", size, size, list(dict.fromkeys(outputs)))


@dataclass(frozen=True)
class Judged:
    """A figure of one process of a layout, beside its prediction."""

    figure: str
    predicted: Figure
    measured_bytes: float
    #: Whether fit has measured this layout too, in other processes.
    is_known: bool

    @property
    def is_within(self) -> bool:
        """Whether the process is within the ± of the prediction."""
        return abs(self.error_bytes) <= (self.predicted.spread or 0.0)

    @property
    def error_bytes(self) -> float:
        """The difference of the prediction to the process."""
        return self.predicted.median - self.measured_bytes


@dataclass(frozen=True)
class Bench:
    """Measurements of one network's layouts, which a later call takes from the storage."""

    study: Study
    storage: Path
    repeats: int

    def __post_init__(self) -> None:
        """Take what was measured before."""
        for run in read_storage(self.storage):
            if isinstance(run, StoredRun):
                self.study.add([result.info for result in run.results], self.storage)

    def measure(self, layouts: Sequence[Layout]) -> list[Result]:
        """Return the result of each layout; those without one are measured."""
        plans = []
        for number, layout in enumerate(layouts):
            if self.study.result(layout) is None:
                plan = self.study.plan(layout, f"layout-{number}")
                plans.append(replace(plan, rounds=_ROUNDS))
        if plans:
            runtime = self.study.demand.runtime
            # A way to have weights that the runtime lacks fails, as in fit.
            results = measured_plans(plans, runtime, self.repeats, self.storage, may_fail=True)
            self.study.add(results, self.storage)
        measured = []
        for layout in layouts:
            result = self.study.result(layout)
            assert result is not None
            measured.append(result)
        return measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the networks, print a line for each, and the counts."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.fit_graphs", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--runtime", default="onnxruntime", metavar="NAME")
    parser.add_argument("--seeds", default="1-30", metavar="FIRST-LAST")
    parser.add_argument("--streams", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--contexts", type=int, default=3, metavar="N", help="each; default: 3")
    parser.add_argument(
        "--repeats", type=int, default=2, metavar="N", help="processes per layout; default: 2"
    )
    parser.add_argument("--beside", action="store_true", help="calibrate beside a neighbour")
    parser.add_argument("--optimum", action="store_true", help="enumerate two contexts instead")
    parser.add_argument("--storage", type=Path, required=True, metavar="DIR")
    options = parse(parser, arguments, _quick_options)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if options.optimum:
        return max(_optimum(seed, options) for seed in seeds)
    by_network = [_judged_network(seed, options) for seed in seeds]
    return _count(by_network, options.quick)


def _quick_options() -> list[str]:
    return ["--seeds=1", "--streams=1", "--contexts=2", "--repeats=1", f"--storage={own_folder()}"]


def _demand(seed: int, options: argparse.Namespace) -> Demand:
    """Return the demand of the network of a seed, in a file that the runtime reads."""
    folder = options.storage / f"{options.runtime}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder.absolute() / "graph.onnx"
    if not file.exists():
        emit(random_network(seed), seed, file)
    targets = resolve_targets(Selection("python", runtimes=(options.runtime,)))
    request = ModelRequest(files=(ModelFile(file),), streams=options.streams)
    models = resolve_model_sets(request, targets).of(options.runtime, STREAMS)
    return Demand(
        runtime=options.runtime,
        models=models,
        streams=(options.streams,),
        contexts=options.contexts,
        cores=targets[options.runtime].machine.host.usable_cpus(),
        binds=False,
    )


def _calibrated(demand: Demand, folder: Path, is_beside: bool) -> ProcessCosts:
    """Return predictions from what fit measures, two processes each."""
    bench = Bench(Study(demand), folder / ("beside" if is_beside else "measured"), 2)
    costs = ProcessCosts(bench.study)
    runtime = demand.runtime
    with neighbour(runtime, tiny_model()) if is_beside else contextlib.nullcontext():
        while missing := costs.missing():
            bench.measure(missing)
    return costs


def _judged_network(seed: int, options: argparse.Namespace) -> list[Judged]:
    demand = _demand(seed, options)
    folder = options.storage / f"{options.runtime}-{seed}"
    costs = _calibrated(demand, folder, options.beside)
    layouts = []
    for form in costs.forms(0):
        for count in range(1, demand.most[0] + 1):
            cores = range(min(count, demand.cores))
            group = ContextGroup(0, form, spread(count, cores, demand.cores))
            layout = Layout((group,))
            if count == demand.most[0] or costs.unproven(layout):
                layouts.append(layout)
    bench = Bench(Study(demand), folder / "judged", options.repeats)
    judged = []
    for layout, result in zip(layouts, bench.measure(layouts)):
        judged += list(_judged(costs, layout, result))
    within = sum(one.is_within for one in judged)
    worst = max(judged, key=lambda one: abs(one.error_bytes) / (one.predicted.spread or 1.0))
    share = 100 * (worst.predicted.spread or 0.0) / worst.predicted.median
    print(
        f"graph {seed}: {within} of {len(judged)} within ±; worst: {worst.figure},"
        f" {100 * worst.error_bytes / worst.measured_bytes:+.1f} % of"
        f" {worst.measured_bytes / _MIB:.1f} MiB, said ±{share:.1f} %",
        flush=True,
    )
    return judged


def _judged(costs: ProcessCosts, layout: Layout, result: Result) -> Iterator[Judged]:
    prediction = costs.predict(layout)
    is_known = not costs.unproven(layout)
    memory = result.memory
    for number, baseline in enumerate(memory.baseline_memory_bytes):
        whole = memory.application_memory_bytes[number]
        over = memory.application_memory_over_baseline_bytes[number]
        trimmed = memory.application_memory_trimmed_bytes[number]
        if baseline is None or whole is None or over is None or trimmed is None:
            continue
        yield Judged("application memory", prediction.application, whole, is_known)
        yield Judged("above the import", prediction.over_baseline, over, is_known)
        if prediction.trimmed is not None:
            yield Judged("trimmed", prediction.trimmed, trimmed - baseline, is_known)


def _count(by_network: Sequence[Sequence[Judged]], is_quick: bool) -> int:
    """Print how many figures are within, and how wide ± is; return the exit code."""
    judged = [one for network in by_network for one in network]
    whole = sum(all(one.is_within for one in network) for network in by_network)
    print(f"{whole} of {len(by_network)} networks with all figures within ±")
    for name in _FIGURES:
        own = [one for one in judged if one.figure == name]
        print(f"{name}: {_coverage(own)}")
        for is_known, kind in ((True, "measured by fit too"), (False, "predicted only")):
            of_kind = [one for one in own if one.is_known == is_known]
            if of_kind:
                print(f"    {kind}: {_coverage(of_kind)}")
    within = sum(one.is_within for one in judged)
    return int(within < _WITHIN * len(judged) and not is_quick)


def _coverage(judged: Sequence[Judged]) -> str:
    within = sum(one.is_within for one in judged)
    low, high = _wilson(within, len(judged))
    errors = [100 * abs(one.error_bytes) / one.measured_bytes for one in judged]
    said = [100 * (one.predicted.spread or 0.0) / one.measured_bytes for one in judged]
    return (
        f"{within} of {len(judged)} within ± ({100 * within / len(judged):.1f} %,"
        f" {100 * low:.1f} to {100 * high:.1f}); error median {statistics.median(errors):.2f} %,"
        f" largest {max(errors):.1f} %; said median ±{statistics.median(said):.2f} %, largest"
        f" ±{max(said):.1f} %"
    )


def _wilson(within: int, count: int) -> tuple[float, float]:
    """Return Wilson's interval of 95 % for a share."""
    share = within / count
    square = _QUANTILE**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    variance = share * (1 - share) / count + square / (4 * count**2)
    half = _QUANTILE / (1 + square / count) * math.sqrt(variance)
    return middle - half, middle + half


def _optimum(seed: int, options: argparse.Namespace) -> int:
    """Compare fit's layout of two contexts with the least of all; return 1 if it takes more.

    The least ones of the enumeration, which the noise of one process chose, are measured again.
    """
    options.streams = 2
    options.contexts = 1
    demand = _demand(seed, options)
    folder = options.storage / f"{options.runtime}-{seed}" / "optimum"
    costs = _calibrated(demand, folder, options.beside)
    candidates = search(demand, costs, Wish()).candidates
    of_two = [candidate for candidate in candidates if candidate.layout.contexts == 2]
    chosen = min(of_two, key=lambda candidate: candidate.bytes)
    said = chosen.prediction.over_baseline.spread or 0.0

    study = Study(demand)
    own_plan = replace(study.plan(chosen.layout, "chosen"), rounds=_ROUNDS)
    plans: list[Plan] = []
    for number, contexts in enumerate(_pairs(demand.cores)):
        plans.append(replace(own_plan, scenario=f"pair-{number}", contexts=contexts))
    results = measured_plans(plans, options.runtime, 1, folder / "pairs", may_fail=True)
    ran = [pair for pair in zip(plans, results) if pair[1].outcome == "ok"]
    ran.sort(key=lambda pair: _over_baseline(pair[1]))
    best = [replace(plan, scenario=f"best-{plan.scenario}") for plan, _ in ran[:_BEST]]
    repeats = options.repeats
    *again, own = measured_plans([*best, own_plan], options.runtime, repeats, folder / "best")
    least = min(map(_over_baseline, again))
    more = _over_baseline(own) - least
    print(
        f"graph {seed}: {len(plans)} layouts of two contexts, {len(ran)} ran; the least takes"
        f" {least / _MIB:.2f} MiB above the import, the chosen one {more / _MIB:+.2f} MiB, said"
        f" ±{said / _MIB:.2f}; the median of all takes"
        f" {statistics.median(_over_baseline(result) for _, result in ran) / _MIB:.2f}",
        flush=True,
    )
    return int(more > said)


def _over_baseline(result: Result) -> float:
    figure = Figure.of(result.memory.application_memory_over_baseline_bytes)
    assert figure is not None
    return figure.median


def _pairs(cores: int) -> Iterator[tuple[Context, ...]]:
    """Yield every pair of contexts, the second of which may infer beside the first."""
    # No runtime on a CPU takes its weights from memory of the application.
    mechanisms = (LOAD, DUP, SHARED_CONTEXT)
    for mechanism, shares, first, second in product(mechanisms, (False, True), _TENSORS, _TENSORS):
        if mechanism == SHARED_CONTEXT and shares:
            continue
        contexts = []
        for index, tensors in enumerate((first, second)):
            is_loaded = index == 0 or mechanism == LOAD
            core = index % cores
            context = Context(
                stream=None,
                model=0,
                mechanism=LOAD if is_loaded else mechanism,
                source=None if is_loaded else 0,
                zero_copy=tensors,
                core=core if shares else None,
                internal=core if shares else None,
            )
            contexts.append(context)
        yield tuple(contexts)


if __name__ == "__main__":
    sys.exit(main())
