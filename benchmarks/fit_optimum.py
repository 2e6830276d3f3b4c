"""Proof that `reusebench fit` recommends the best layout: the table of docs/evidence/fit.md.

    python -m benchmarks.fit_optimum --target vboard:rk3588 --rknn-library librknnrt.so \\
        --streams 2 mobilenet_v2-96

A case has one to three models, built-in networks or .rknn files, and up to four contexts. The
script enumerates its layouts without fit's search. Each context

- is loaded, is a dup, or uses the weight memory of an earlier context of its model;
- has internal memory from the library, from the application, or shared by contexts of its core;
- has tensors that are copied or in place, own or shared;
- has a core, so that as many contexts run in parallel as without reuse.

Two parts are measured completely: all choices of weights, internal memory and cores with copied
tensors, up to the numbering of equal contexts and of cores; and, for the contexts of one model on
one core, all choices of tensors. A layout takes the sum of both. This is checked on all layouts if
they are few, otherwise on random ones. fit must recommend the least sum, to the byte.

Predictions of fit are compared with measurements, and its limit with the memory that the driver of
a limited board grants. Measurements stay in DIR, and an interrupted call continues from there.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations, product
from math import prod
from pathlib import Path
from typing import Any, Optional

from benchmarks.fit_accuracy import calibrated_study
from benchmarks.quick import own_folder, parse, skip
from reusebench.accounting.sharing import WRONG_READS
from reusebench.fit.layouts import ContextGroup, Layout, spread
from reusebench.fit.npu_costs import NpuCosts
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.repeat_measurement import RepeatMeasurement
from reusebench.harness.selection import resolve_targets
from reusebench.harness.settings import Settings
from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    InvalidPlan,
    Plan,
)
from reusebench.models import ModelError, Recipe, can_be_weightless, ensure_all
from reusebench.targets.chips import CHIPS
from reusebench.targets.resolve import Selection
from reusebench.targets.rknn_library import find_libraries
from reusebench.targets.target import Target
from reusebench.targets.vboard.catalogue import rknn_board

_CHECKOUT = Path(__file__).resolve().parent.parent
_MIB = 2**20
_PAGE_BYTES = 4096
#: Seed of random choices, so that two calls measure the same.
_SEED = 18
_TENSORS = ((), (INPUT,), (OUTPUT,), (NATIVE_OUTPUT,), (INPUT, OUTPUT), (INPUT, NATIVE_OUTPUT))
#: Largest error of a prediction of memory when all contexts infer.
_BOUND_PERCENT = 0.5
_QUICK_CHIP = "rk3588"
_QUICK_NETWORK = "tiny-64"
#: Up to this number all layouts are measured.
_FEW = 1000
#: Number of errors to show.
_SHOWN = 10
_HEADS = (
    "models",
    "contexts",
    "layouts",
    "measured",
    "checked (ran), not the sum",
    "no reuse, MiB",
    "least, MiB",
    "recommended, MiB",
    "predicted",
    "largest, mean error",
    "of the peak",
    "at the limit",
)

#: Contexts of a plan, with all fields that a layout chooses.
_Contexts = tuple[Context, ...]
#: A context's tensors: those that are in place, and whether contexts of its model and core share
#: them.
_Tensors = tuple[tuple[str, ...], bool]


@dataclass(frozen=True)
class Case:
    """A question for fit."""

    target: str
    library: Path
    models: tuple[Path, ...]
    #: Per model: the file without weights, for contexts that use the first model's weights.
    weightless: tuple[Optional[Path], ...]
    streams: int
    contexts: int
    storage: Path

    def ask(self, *options: str) -> tuple[int, dict[str, Any]]:
        """Return fit's exit code and its answer."""
        command = [
            sys.executable,
            "-m",
            "reusebench",
            "fit",
            "--json",
            "--runtime",
            "rknn",
            "--target",
            self.target,
        ]
        command += ["--rknn-library", str(self.library), "--storage", str(self.storage)]
        command += ["--streams", str(self.streams), "--contexts", str(self.contexts), *options]
        for model, weightless in zip(self.models, self.weightless):
            if any(self.weightless):
                command += ["--resolution", ",".join(map(str, filter(None, (model, weightless))))]
            else:
                command += ["--model", str(model)]
        done = subprocess.run(command, cwd=_CHECKOUT, stdout=subprocess.PIPE, check=False)
        return done.returncode, json.loads(done.stdout)["result"]

    def board(self, memory_bytes: int | None = None) -> Target:
        """Return the virtual board, with a limit for the NPU's memory."""
        (target,) = resolve_targets(
            Selection(self.target, self.library, memory_bytes, runtimes=("rknn",))
        ).values()
        return target


@dataclass(frozen=True)
class Space:
    """All layouts of a case."""

    #: The model of each context.
    models: tuple[int, ...]
    #: Number of cores with contexts, as many as without reuse.
    cores: int
    #: Mechanisms for the weights of another context that the library supports, as tried.
    mechanisms: tuple[str, ...]

    def draw(self, chance: random.Random) -> _Contexts:
        """Return a random layout, which the library may refuse."""
        while True:
            contexts: list[Context] = []
            for model in self.models:
                core = chance.randrange(self.cores)
                context = chance.choice(list(self._weights(model, contexts)))
                context = chance.choice(list(_internals(replace(context, core=core))))
                contexts.append(self.with_choice(context, chance.choice(list(_every_tensors()))))
            if len({context.core for context in contexts}) == self.cores and self.plan_is_valid(
                contexts
            ):
                return tuple(contexts)

    def structures(self) -> Iterator[_Contexts]:
        """Yield all choices of weights, internal memory and cores, with copied tensors.

        Cores are in the order of their first use. Memory with a single user is left out, since it
        equals the application's own memory for one context.
        """
        for cores in product(range(self.cores), repeat=len(self.models)):
            if list(dict.fromkeys(cores)) == list(range(self.cores)):
                yield from self._structures(cores, ())

    def _structures(self, cores: Sequence[int], contexts: _Contexts) -> Iterator[_Contexts]:
        if len(contexts) == len(self.models):
            if _reduced(contexts) == contexts:
                yield contexts
            return
        index = len(contexts)
        for weights in self._weights(self.models[index], contexts):
            for context in _internals(replace(weights, core=cores[index])):
                if _has_internal(context):
                    yield from self._structures(cores, (*contexts, context))

    def _weights(self, model: int, before: Sequence[Context]) -> Iterator[Context]:
        """Yield the choices of weights for a context."""
        yield Context(None, model)
        if SHARED_WEIGHT_MEMORY in self.mechanisms:
            yield Context(None, model, outside=(WEIGHTS,))
        for source, other in enumerate(before):
            if other.mechanism != LOAD:
                continue
            if other.model == model:
                if DUP in self.mechanisms:
                    yield Context(None, model, DUP, source)
                if SHARED_WEIGHT_MEMORY in self.mechanisms and WEIGHTS in other.outside:
                    yield Context(None, model, SHARED_WEIGHT_MEMORY, source)
            elif other.model == 0 and SHARED_WEIGHTS in self.mechanisms:
                yield Context(None, model, SHARED_WEIGHTS, source)

    def with_tensors(self, structure: _Contexts) -> Iterator[_Contexts]:
        """Yield the structure with every choice of tensors; shared tensors have several users."""
        members = list(_by_model_and_core(structure).values())
        for chosen in product(*(_assignments(len(indices)) for indices in members)):
            contexts = list(structure)
            for indices, assignment in zip(members, chosen):
                for index, tensors in zip(indices, assignment):
                    contexts[index] = self.with_choice(contexts[index], tensors)
            yield tuple(contexts)

    def count(self) -> int:
        """Return the number of layouts, in which contexts are numbered."""
        total = 0
        for structure in self.structures():
            total += prod(
                len(_assignments(len(indices)))
                for indices in _by_model_and_core(structure).values()
            )
        return total

    def tensors_alone(self, model: int, count: int) -> list[_Contexts]:
        """Return every choice of tensors for `count` contexts of a model on one core."""
        structure = (Context(None, model, core=0),) * count
        chosen = {_tensors_of(contexts): contexts for contexts in self.with_tensors(structure)}
        return list(chosen.values())

    def with_choice(self, context: Context, tensors: _Tensors) -> Context:
        """Return the context with these tensors, in the memory of its model and core."""
        zero_copy, shares = tensors
        assert context.core is not None
        number = (context.model * self.cores + context.core) * len(_TENSORS) + _TENSORS.index(
            zero_copy
        )
        return replace(context, zero_copy=zero_copy, io=number if shares else None)

    def plan_is_valid(self, contexts: Sequence[Context]) -> bool:
        """Whether the contexts make a valid plan."""
        models: Any = (None,) * (max(self.models) + 1)
        try:
            Plan("", None, "rknn", models, tuple(contexts), self.cores, 1)
        except InvalidPlan:
            return False
        return True


def _internals(context: Context) -> Iterator[Context]:
    """Yield the context with internal memory of the library, of its own, and of its core."""
    yield context
    yield replace(context, outside=(*context.outside, INTERNAL))
    yield replace(context, internal=context.core)


def _has_internal(context: Context) -> bool:
    """Whether the application provides internal memory, which it must if it provides weights."""
    if context.internal is not None or INTERNAL in context.outside:
        return True
    return WEIGHTS not in context.outside and context.mechanism != SHARED_WEIGHT_MEMORY


def _every_tensors() -> Iterator[_Tensors]:
    for zero_copy in _TENSORS:
        yield zero_copy, False
        if zero_copy:
            yield zero_copy, True


def _assignments(count: int) -> list[tuple[_Tensors, ...]]:
    """Return the choices of tensors for `count` contexts of one model and core."""
    every = []
    for chosen in product(_every_tensors(), repeat=count):
        if all(not tensors[1] or chosen.count(tensors) > 1 for tensors in chosen):
            every.append(chosen)
    return every


def _by_model_and_core(contexts: Sequence[Context]) -> dict[tuple[int, int | None], list[int]]:
    members: dict[tuple[int, int | None], list[int]] = {}
    for index, context in enumerate(contexts):
        members.setdefault((context.model, context.core), []).append(index)
    return members


def _reduced(contexts: Sequence[Context]) -> _Contexts:
    """Return the layout with shared memory of a single user replaced by its own memory."""
    internal = Counter(context.internal for context in contexts)
    io = Counter(context.io for context in contexts)
    reduced = []
    for context in contexts:
        if context.internal is not None and internal[context.internal] == 1:
            context = replace(context, internal=None, outside=(*context.outside, INTERNAL))
        if context.io is not None and io[context.io] == 1:
            context = replace(context, io=None)
        reduced.append(context)
    return tuple(reduced)


def _tensors_of(contexts: Sequence[Context]) -> tuple[_Tensors, ...]:
    """Return the tensors of contexts of one model and core, sorted."""
    return tuple(
        sorted((context.zero_copy, context.io is not None) for context in _reduced(contexts))
    )


def _key(contexts: Sequence[Context]) -> tuple[Any, ...]:
    """Return a key that is equal for layouts that differ only in the numbering."""
    reduced = _reduced(contexts)
    orders: list[list[int]] = [[]]
    for model in sorted({context.model for context in reduced}):
        members = [index for index, context in enumerate(reduced) if context.model == model]
        orders = [[*order, *rest] for order in orders for rest in permutations(members)]
    return min(_numbered(reduced, order) for order in orders)


def _numbered(contexts: _Contexts, order: Sequence[int]) -> tuple[Any, ...]:
    """Return the contexts in this order, their sources and cores numbered by it."""
    cores = list(dict.fromkeys(contexts[index].core for index in order))
    rows = []
    for index in order:
        context = contexts[index]
        source = -1 if context.source is None else order.index(context.source)
        shared = context.internal is not None, context.io is not None
        core = cores.index(context.core)
        rows.append(
            (
                context.model,
                context.mechanism,
                source,
                core,
                context.outside,
                context.zero_copy,
                shared,
            )
        )
    return tuple(rows)


@dataclass(frozen=True)
class Size:
    """NPU memory of a layout in bytes: when all contexts infer, and at most."""

    steady_bytes: int
    peak_bytes: int


class Board:
    """Measures layouts of one case, each in a fresh process, each once."""

    def __init__(self, target: Target, plan: Plan, jobs: int, file: Path) -> None:
        """Take the board, a plan with the models and cores, and the file of measurements."""
        self._target = target
        self._plan = plan
        self._jobs = jobs
        self._file = file
        #: Sizes by the plan's JSON; None if it fails, or reads memory of another context.
        self._measured: dict[str, Size | None] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            words, size = json.loads(line)
            self._measured[words] = None if size is None else Size(*size)

    def __len__(self) -> int:
        """Return the number of measured layouts."""
        return len(self._measured)

    def measure(self, layouts: Iterable[_Contexts]) -> list[Size | None]:
        """Return the size of each layout, None if it fails."""
        plans = [replace(self._plan, contexts=contexts) for contexts in layouts]
        keys = [json.dumps(plan.to_json()) for plan in plans]
        new = {key: plan for key, plan in zip(keys, plans) if key not in self._measured}
        with ThreadPoolExecutor(self._jobs) as pool, self._file.open("a") as file:
            for key, size in zip(new, pool.map(self._size, new.values())):
                self._measured[key] = size
                file.write(json.dumps([key, size and (size.steady_bytes, size.peak_bytes)]) + "\n")
                file.flush()
                print(f"\r{len(self)} measured", end="", file=sys.stderr)
        return [self._measured[key] for key in keys]

    def _size(self, plan: Plan) -> Size | None:
        repeat = measured_once(plan, self._target)
        if repeat.failure is not None or repeat.npu is None:
            return None
        is_wrong = any(finding.kind in WRONG_READS for finding in repeat.npu.findings)
        return None if is_wrong else Size(repeat.npu.total_bytes, repeat.npu.peak_bytes or 0)


def measured_once(plan: Plan, target: Target) -> Repeat:
    """Return the result of the plan in one fresh process."""
    settings = Settings(
        streams=1,
        contexts=1,
        repeats=1,
        rounds=1,
        sample_hz=1.0,
        time_limit_s=120.0,
        idle_s=0.0,
        cpus=1,
        npu_cores=plan.cores,
    )
    measurement = RepeatMeasurement(plan, target, settings, None, lambda *_: None, lambda _: None)
    return measurement.measure(lambda _: "")


class Proof:
    """All measurements of one case."""

    def __init__(self, case: Case, jobs: int) -> None:
        """Ask fit, and try the mechanisms of the library."""
        self.case = case
        _, self.answer = case.ask("--stored")
        self.recommended = Plan.from_json(self.answer["recommended"])
        self.board = Board(case.board(), self.recommended, jobs, case.storage / "layouts.jsonl")
        counts = [streams * self.answer["contexts"] for streams in self.answer["streams"]]
        models = tuple(model for model, count in enumerate(counts) for _ in range(count))
        cores = min(len(models), self.answer["cores"])
        self.space = Space(models, cores, tuple(self._mechanisms()))

    def _mechanisms(self) -> Iterator[str]:
        """Yield the mechanisms for the weights of another context that the library supports."""
        loaded = Context(None, 0, core=0)
        outside = Context(None, 0, core=0, outside=(WEIGHTS, INTERNAL))
        pairs = {
            DUP: (loaded, replace(loaded, mechanism=DUP, source=0)),
            SHARED_WEIGHT_MEMORY: (
                outside,
                replace(outside, mechanism=SHARED_WEIGHT_MEMORY, source=0, outside=(INTERNAL,)),
            ),
        }
        if any(self.case.weightless):
            pairs[SHARED_WEIGHTS] = (
                loaded,
                replace(loaded, model=1, mechanism=SHARED_WEIGHTS, source=0),
            )
        for mechanism, contexts in pairs.items():
            if self.board.measure([contexts]) != [None]:
                yield mechanism

    @cached_property
    def structures(self) -> dict[tuple[Any, ...], _Contexts]:
        """All choices of weights, internal memory and cores, each once."""
        return {_key(contexts): contexts for contexts in self.space.structures()}

    @cached_property
    def structure_bytes(self) -> dict[tuple[Any, ...], int | None]:
        """The size of each structure with copied tensors."""
        return dict(
            zip(self.structures, map(_steady, self.board.measure(self.structures.values())))
        )

    @cached_property
    def tensor_bytes(self) -> dict[tuple[int, tuple[_Tensors, ...]], int | None]:
        """The additional bytes of each choice of tensors, compared with copied ones.

        The key has the model and the tensors of its contexts on one core.
        """
        counts = set()
        for structure in self.structures.values():
            counts |= {
                (model, len(indices))
                for (model, _), indices in _by_model_and_core(structure).items()
            }
        more: dict[tuple[int, tuple[_Tensors, ...]], int | None] = {}
        for model, count in counts:
            layouts = self.space.tensors_alone(model, count)
            sizes = map(_steady, self.board.measure(layouts))
            (copied,) = map(_steady, self.board.measure([(Context(None, model, core=0),) * count]))
            assert copied is not None, "a model does not run without reuse"
            for contexts, size in zip(layouts, sizes):
                more[model, _tensors_of(contexts)] = None if size is None else size - copied
        return more

    def sum_bytes(self, contexts: _Contexts) -> int | None:
        """Return the size of a layout as the sum of its two parts; None if one part fails."""
        total = self.structure_bytes.get(
            _key([replace(context, zero_copy=(), io=None) for context in contexts])
        )
        for (model, _), indices in _by_model_and_core(contexts).items():
            more = self.tensor_bytes[model, _tensors_of([contexts[index] for index in indices])]
            total = None if total is None or more is None else total + more
        return total

    def least(self) -> tuple[int, _Contexts]:
        """Return the least sum of all layouts, and a layout with it."""
        best: dict[tuple[int, int], tuple[int, tuple[_Tensors, ...]]] = {}
        for (model, tensors), more in self.tensor_bytes.items():
            if more is not None:
                best[model, len(tensors)] = min(
                    best.get((model, len(tensors)), (more, tensors)), (more, tensors)
                )
        sums = []
        for key, structure in self.structures.items():
            size = self.structure_bytes[key]
            chosen = list(structure)
            if size is None:
                continue
            for (model, _), indices in _by_model_and_core(structure).items():
                more, tensors = best[model, len(indices)]
                size += more
                for index, own in zip(indices, tensors):
                    chosen[index] = self.space.with_choice(structure[index], own)
            sums.append((size, tuple(chosen)))
        return min(sums, key=lambda pair: pair[0])

    def to_check(self, most: int) -> list[_Contexts]:
        """Return all layouts up to numbering if they are few, otherwise `most` random ones."""
        if self.space.count() <= _FEW:
            every = {}
            for structure in self.structures.values():
                every.update(
                    {_key(contexts): contexts for contexts in self.space.with_tensors(structure)}
                )
            return list(every.values())
        chance = random.Random(_SEED)
        return [self.space.draw(chance) for _ in range(most)]

    def predicted(self, most: int) -> list[tuple[Size, _Contexts]]:
        """Return fit's predictions for layouts of its own forms, of at most `most` random ones."""
        study = calibrated_study(self.answer, self.case.storage, any(self.case.weightless))
        demand = study.demand
        costs = NpuCosts(study)
        layouts = []
        for forms in product(*(list(costs.forms(model)) for model in range(len(demand.models)))):
            for sets in product(*(_core_sets(count, demand.cores) for count in demand.most)):
                groups = []
                for model, (form, count, cores) in enumerate(zip(forms, demand.most, sets)):
                    groups.append(ContextGroup(model, form, spread(count, cores, demand.cores)))
                if Layout(tuple(groups)).lanes == self.space.cores:
                    layouts.append(Layout(tuple(groups)))
        if len(layouts) > most:
            layouts = random.Random(_SEED).sample(layouts, most)
        predictions = [costs.predict(layout) for layout in layouts]
        return [
            (
                Size(prediction.npu_bytes or 0, prediction.npu_peak_bytes or 0),
                study.plan(layout).contexts,
            )
            for prediction, layout in zip(predictions, layouts)
        ]

    def limit_holds(self) -> bool:
        """Whether the recommended plan runs in its predicted peak but not in a page less.

        fit must agree. For a page less it may recommend another layout, which must run there.
        """
        exact = self.answer["predicted_npu_peak_bytes"]
        failure = measured_once(self.recommended, self.case.board(exact - _PAGE_BYTES)).failure
        holds = failure is not None and failure.kind == "out_of_memory"
        for limit in (exact, exact - _PAGE_BYTES):
            code, answer = self.case.ask("--stored", "--limit", f"{limit}B")
            plan = Plan.from_json(answer["recommended"])
            holds &= answer["fits"] == (code == 0) and (answer["fits"] or limit < exact)
            if limit == exact:
                holds &= plan == self.recommended
            if answer["fits"]:
                holds &= measured_once(plan, self.case.board(limit)).failure is None
        return holds


def _steady(size: Size | None) -> int | None:
    return None if size is None else size.steady_bytes


def _core_sets(count: int, cores: int) -> list[tuple[int, ...]]:
    """Return the sets of cores that `count` contexts can use."""
    sizes = range(1, min(count, cores) + 1)
    return [chosen for size in sizes for chosen in combinations(range(cores), size)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one case and print its row; return 1 if fit was wrong."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.fit_optimum", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--target", default="vboard:rk3588", metavar="vboard:CHIP")
    parser.add_argument("--rknn-library", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--streams", type=int, default=1, metavar="N", help="as in reusebench fit; default: 1"
    )
    parser.add_argument(
        "--contexts", type=int, default=1, metavar="N", help="as in reusebench fit; default: 1"
    )
    parser.add_argument(
        "--resolutions", action="store_true", help="the networks are resolutions of one"
    )
    parser.add_argument(
        "--check",
        type=int,
        default=200,
        metavar="N",
        help="random layouts and predictions to check; default: 200",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="parallel processes; default: 1"
    )
    parser.add_argument(
        "--storage",
        type=Path,
        required=True,
        metavar="DIR",
        help="an empty folder for fit's results",
    )
    parser.add_argument(
        "models", nargs="+", metavar="NETWORK-SIZE|FILE", help="such as mobilenet_v2-96"
    )
    options = parse(parser, arguments, _quick_options)
    proof = Proof(_case(options), options.jobs)
    names = " + ".join(Path(model).stem for model in options.models)
    return _prove(proof, names, options.check)


def _prove(proof: Proof, names: str, most: int) -> int:
    """Compare fit's answer with measurements, and print the row; return the exit code."""
    least_bytes, layout = proof.least()
    predictions = proof.predicted(most)
    predicted_plans = [contexts for _, contexts in predictions]
    candidates = [*proof.to_check(most), layout, proof.recommended.contexts, *predicted_plans]
    plans = list(dict.fromkeys(candidates))
    sizes = dict(zip(plans, proof.board.measure(plans)))
    wrong = [
        contexts for contexts in plans if _steady(sizes[contexts]) != proof.sum_bytes(contexts)
    ]
    least_bytes = min([least_bytes, *(size.steady_bytes for size in sizes.values() if size)])
    recommended = sizes[proof.recommended.contexts]
    assert recommended is not None, "the layout that fit recommends does not run"
    errors = [_errors_percent(predicted, sizes[contexts]) for predicted, contexts in predictions]
    steady, peak = zip(*errors)
    holds = proof.limit_holds()
    row = (
        names,
        str(len(proof.space.models)),
        f"{proof.space.count():,}",
        f"{len(proof.board):,}",
        f"{len(plans):,} ({sum(size is not None for size in sizes.values()):,}), {len(wrong)}",
        f"{proof.answer['today']['bytes'] / _MIB:.2f}",
        f"{least_bytes / _MIB:.3f}",
        f"{recommended.steady_bytes / _MIB:.3f}",
        str(len(errors)),
        f"{max(steady):.2f}, {statistics.mean(steady):.3f} %",
        f"{max(peak):.2f}, {statistics.mean(peak):.3f} %",
        "exact" if holds else "wrong",
    )
    print(f"\n| {' | '.join(_HEADS)} |\n|{'---|' * len(_HEADS)}\n| {' | '.join(row)} |")
    for contexts in wrong[:_SHOWN]:
        print(
            f"not the sum: {sizes[contexts]} and {proof.sum_bytes(contexts)}: {contexts}",
            file=sys.stderr,
        )
    for (predicted, contexts), error in list(zip(predictions, errors))[:_SHOWN]:
        if max(error) > _BOUND_PERCENT:
            print(f"predicted {predicted}, measured {sizes[contexts]}: {contexts}", file=sys.stderr)
    if recommended.steady_bytes != least_bytes:
        print(f"the least: {layout}", file=sys.stderr)
    is_best = recommended.steady_bytes == least_bytes and not wrong
    return 0 if is_best and holds and max(steady) <= _BOUND_PERCENT else 1


def _quick_options() -> list[str]:
    """Return options for the tiny network on a virtual board; skip the script if there is none."""
    fitting = [library for library in find_libraries() if _QUICK_CHIP in library.chips()]
    libraries = [library for library in fitting if not rknn_board(library).missing_parts()]
    if not libraries:
        skip(
            f"no library of Rockchip's for {_QUICK_CHIP} with a virtual board in the user's cache"
            " (docs/how-to/rknn.md)"
        )
    try:
        ensure_all(".rknn", [Recipe(*_network(_QUICK_NETWORK), seed=1)], _QUICK_CHIP)
    except ModelError as error:
        skip(str(error))
    board = [f"--target=vboard:{_QUICK_CHIP}", f"--rknn-library={libraries[-1].path}"]
    return [*board, "--check=1", "--jobs=2", f"--storage={own_folder()}", _QUICK_NETWORK]


def _errors_percent(predicted: Size, measured: Size | None) -> tuple[float, float]:
    """Return the errors of the steady and the peak size; 100 % if the layout does not run."""
    if measured is None:
        return 100.0, 100.0
    steady = abs(predicted.steady_bytes - measured.steady_bytes) / measured.steady_bytes
    peak = abs(predicted.peak_bytes - measured.peak_bytes) / measured.peak_bytes
    return 100 * steady, 100 * peak


def _case(options: argparse.Namespace) -> Case:
    """Return the case of the options; make the built-in networks if they are missing."""
    chip = CHIPS[options.target.partition(":")[2]].name
    recipes = {
        word: Recipe(*_network(word), seed=1) for word in options.models if not Path(word).suffix
    }
    files = dict(zip(recipes, ensure_all(".rknn", list(recipes.values()), chip)))
    weightless: dict[str, Path] = {}
    if options.resolutions and can_be_weightless(".rknn", chip):
        slaves = options.models[1:]
        weightless = dict(
            zip(
                slaves,
                ensure_all(".rknn", [recipes[word] for word in slaves], chip, weightless=True),
            )
        )
    return Case(
        target=options.target,
        library=options.rknn_library,
        models=tuple(files.get(word, Path(word)) for word in options.models),
        weightless=tuple(map(weightless.get, options.models)),
        streams=options.streams,
        contexts=options.contexts,
        storage=options.storage,
    )


def _network(word: str) -> tuple[str, int]:
    name, _, size = word.rpartition("-")
    return name, int(size)


if __name__ == "__main__":
    sys.exit(main())
