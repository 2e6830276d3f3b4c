"""Whether `reusebench fit` keeps its ± on a CPU: generated networks, for docs/fit.md.

    python -m benchmarks.fit_graphs --runtime onnxruntime --storage DIR --seeds 1-30

For each seed a random network is written and `fit` calibrates for its contexts. Then layouts that
fit has not measured run in fresh processes: every form that fit keeps, with numbers of contexts in
between. Each process is compared with the prediction and its ±. The last lines count the processes
within, by figure. The exit code is 1 if fewer than 95 % of all are within.

With --optimum layouts of two contexts are enumerated without fit's search, and the least of them is
compared with what fit recommends for two.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.fit_accuracy import calibrated_study, measured_layouts, measured_plans
from benchmarks.quick import own_folder, parse
from reusebench.fit.layouts import ContextGroup, Layout, spread
from reusebench.fit.process_costs import ProcessCosts
from reusebench.fit.study import WEIGHTS
from reusebench.measured.plan import INPUT, LOAD, OUTPUT, SHARED_CONTEXT, Context, Plan
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
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

_CHECKOUT = Path(__file__).resolve().parent.parent
_MIB = 2**20
_WITHIN = 0.95
_TENSORS: tuple[tuple[str, ...], ...] = ((), (INPUT,), (OUTPUT,), (INPUT, OUTPUT))
#: Layouts of the enumeration that are measured again in more processes.
_BEST = 6
_FIGURES = ("application memory", "over the import", "trimmed")


def random_network(seed: int) -> Network:
    """Return a network of random depth, widths, branches, size and outputs."""
    while True:
        try:
            return _drawn(random.Random(seed))
        except ModelError:  # its maps became smaller than a kernel
            seed += 1000


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

    @property
    def is_within(self) -> bool:
        """Whether the process is within the ± of the prediction."""
        return abs(self.error_bytes) <= (self.predicted.spread or 0.0)

    @property
    def error_bytes(self) -> float:
        """The difference of the prediction to the process."""
        return self.predicted.median - self.measured_bytes


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
    parser.add_argument("--optimum", action="store_true", help="enumerate two contexts instead")
    parser.add_argument("--storage", type=Path, required=True, metavar="DIR")
    options = parse(parser, arguments, _quick_options)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if options.optimum:
        return max(_optimum(seed, options) for seed in seeds)
    judged: list[Judged] = []
    for seed in seeds:
        judged += _judged_graph(seed, options)
    return _count(judged, options.quick)


def _quick_options() -> list[str]:
    return ["--seeds=1", "--streams=1", "--contexts=3", "--repeats=1", f"--storage={own_folder()}"]


def _fitted(seed: int, options: argparse.Namespace) -> tuple[dict[str, Any], Path]:
    """Return fit's answer for the network of a seed, and its storage; measured once."""
    storage = options.storage / f"graph-{seed}"
    storage.mkdir(parents=True, exist_ok=True)
    model = storage / "graph.onnx"
    if not model.exists():
        emit(random_network(seed), seed, model)
    command = [sys.executable, "-m", "reusebench", "fit", "--json", "--stored"]
    command += ["--runtime", options.runtime, "--model", str(model.absolute())]
    command += ["--streams", str(options.streams), "--contexts", str(options.contexts)]
    command += ["--storage", str(storage)]
    done = subprocess.run(command, cwd=_CHECKOUT, stdout=subprocess.PIPE, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer, storage


def _judged_graph(seed: int, options: argparse.Namespace) -> list[Judged]:
    answer, storage = _fitted(seed, options)
    study = calibrated_study(answer, storage)
    costs = ProcessCosts(study)
    layouts = []
    for form in costs.forms(0):
        for count in range(1, study.demand.most[0] + 1):
            cores = range(min(count, study.demand.cores))
            group = ContextGroup(0, form, spread(count, cores, study.demand.cores))
            if study.result(Layout((group,))) is None:
                layouts.append(Layout((group,)))
    results = measured_layouts(study, layouts, options.runtime, options.repeats, storage)
    judged = []
    for layout, result in zip(layouts, results):
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
    memory = result.memory
    for number, baseline in enumerate(memory.baseline_memory_bytes):
        whole = memory.application_memory_bytes[number]
        over = memory.application_memory_over_baseline_bytes[number]
        trimmed = memory.application_memory_trimmed_bytes[number]
        if baseline is None or whole is None or over is None or trimmed is None:
            continue
        yield Judged("application memory", prediction.application, whole)
        yield Judged("over the import", prediction.over_baseline, over)
        if prediction.trimmed is not None:
            yield Judged("trimmed", prediction.trimmed, trimmed - baseline)


def _count(judged: Sequence[Judged], is_quick: bool) -> int:
    """Print how many figures are within, and how wide ± is; return the exit code."""
    for name in _FIGURES:
        own = [one for one in judged if one.figure == name]
        within = sum(one.is_within for one in own)
        errors = [100 * abs(one.error_bytes) / one.measured_bytes for one in own]
        said = [100 * (one.predicted.spread or 0.0) / one.measured_bytes for one in own]
        print(
            f"{name}: {within} of {len(own)} within ± ({100 * within / len(own):.1f} %); error"
            f" median {statistics.median(errors):.2f} %, largest {max(errors):.1f} %; said median"
            f" ±{statistics.median(said):.2f} %, largest ±{max(said):.1f} %"
        )
    counts = Counter(one.is_within for one in judged)
    return int(counts[True] < _WITHIN * len(judged) and not is_quick)


def _optimum(seed: int, options: argparse.Namespace) -> int:
    """Compare fit's layout of two contexts with the least of all; return 1 if it takes more.

    The least of the enumeration, which the noise of one process chose, is measured again.
    """
    options.streams = 2
    options.contexts = 1
    answer, storage = _fitted(seed, options)
    recommended = Plan.from_json(answer["recommended"])
    plans = []
    for number, contexts in enumerate(_pairs(recommended.cores)):
        plans.append(replace(recommended, scenario=f"pair-{number}", contexts=contexts))
    results = measured_plans(plans, options.runtime, 1, storage, may_fail=True)
    ran = [pair for pair in zip(plans, results) if pair[1].outcome == "ok"]
    ran.sort(key=lambda pair: _over_baseline(pair[1]))
    best = [replace(plan, scenario=f"best-{plan.scenario}") for plan, _ in ran[:_BEST]]
    best.append(replace(recommended, scenario="recommended"))
    *again, own = measured_plans(best, options.runtime, options.repeats, storage)
    least = min(map(_over_baseline, again))
    said = answer["best"]["plus_minus_bytes"]
    more = _over_baseline(own) - least
    print(
        f"graph {seed}: {len(plans)} layouts of two contexts, {len(ran)} ran; the least takes"
        f" {least / _MIB:.2f} MiB above the import, the recommended one {more / _MIB:+.2f} MiB,"
        f" said ±{said / _MIB:.2f}",
        flush=True,
    )
    return int(more > said)


def _over_baseline(result: Result) -> float:
    figure = Figure.of(result.memory.application_memory_over_baseline_bytes)
    assert figure is not None
    return figure.median


def _pairs(cores: int) -> Iterator[tuple[Context, ...]]:
    """Yield every pair of contexts, the second of which may infer beside the first."""
    for mechanism, shares, first, second in product(WEIGHTS, (False, True), _TENSORS, _TENSORS):
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
