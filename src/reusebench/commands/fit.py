"""`reusebench fit`: which contexts should share what, within a limit of memory."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from reusebench.commands.benching import run_bench
from reusebench.commands.known_runs import warn
from reusebench.commands.options import PATH, target_storage
from reusebench.fit.answering import stored_answer, with_measured
from reusebench.fit.layouts import Demand, Layout
from reusebench.fit.npu_costs import NpuCosts
from reusebench.fit.process_costs import ProcessCosts
from reusebench.fit.search import Costs, Wish, search
from reusebench.fit.study import Study
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.model_files import InputShape, ModelFile
from reusebench.harness.model_request import (
    ModelRequest,
    parse_resolution,
    parse_shape,
    resolve_model_sets,
)
from reusebench.harness.selection import resolve_targets
from reusebench.harness.settings import MOST_CONTEXTS, MOST_FPS, excess
from reusebench.measured.messages import words
from reusebench.measured.plan import LOAD, Plan
from reusebench.measured.runtimes import RUNTIMES, find_runtime
from reusebench.samplers.system_memory import read_system
from reusebench.scenarios.catalogue import RESOLUTIONS, STREAMS
from reusebench.snippets import snippet_of
from reusebench.storage.errors import StorageError
from reusebench.storage.fit_answer import (
    FitAnswer,
    FitGroup,
    FitPoint,
    answer_json,
    calibrations,
    write_answer,
)
from reusebench.storage.limits import parse_size
from reusebench.storage.result import BUSY_PERCENT, Result
from reusebench.storage.run_file import StoredRun, read_run_file, read_storage
from reusebench.system.cache import OwnFolder
from reusebench.system.files import replacing
from reusebench.system.user_files import ChangedFile, Pins
from reusebench.targets.chips import CHIPS
from reusebench.targets.resolve import Selection
from reusebench.targets.target import Target

__all__ = ["fit"]

_FREE = "free"
_MIB = 2**20
#: NPU memory is exact in every repeat; memory of a process moves.
_REPEATS = {"npu": 1, "cpu": 2}
#: Beside the first layouts of the frontier, in the terminal.
_MOST_ALTERNATIVES = 8


class _Parsed(click.ParamType):  # type: ignore[type-arg]
    """What one of the parsers of pytest's options reads."""

    name = "TEXT"

    def __init__(self, parse: Callable[[str], Any], *words: str) -> None:
        """Take the parser, and words that it does not see."""
        self._parse = parse
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; a mistake is click's."""
        if not isinstance(value, str) or value in self._words:
            return value
        try:
            return self._parse(value)
        except argparse.ArgumentTypeError as error:
            self.fail(f"{error}{''.join(f', or {word}' for word in self._words)}", param, ctx)


_count = click.IntRange(min=1, max=MOST_CONTEXTS)


@click.command()
@click.option(
    "--limit",
    type=_Parsed(parse_size, _FREE),
    metavar="SIZE",
    help=(
        "Memory that there is, such as 64MiB; `free`: what this board has now. Of an NPU its own"
        " memory is meant, else that of the process."
    ),
)
@click.option(
    "--model", "models", type=PATH, metavar="FILE", multiple=True, help="As of pytest bench/."
)
@click.option(
    "--resolution",
    "resolutions",
    type=_Parsed(parse_resolution),
    metavar="FILE[,WEIGHTLESS]",
    multiple=True,
    help="In place of --model: resolutions of one network, the one with the weights first.",
)
@click.option(
    "--streams",
    type=_count,
    metavar="N",
    default=4,
    show_default=True,
    help="Streams; models in turn.",
)
@click.option(
    "--contexts",
    type=_count,
    metavar="N",
    default=3,
    show_default=True,
    help="Contexts of a stream, at most.",
)
@click.option(
    "--fps",
    type=click.FloatRange(min=0, min_open=True, max=MOST_FPS),
    metavar="F",
    help="Frames per second of each stream. Default: as many as without reuse.",
)
@click.option(
    "--runtime",
    type=click.Choice([entry.name for entry in RUNTIMES]),
    metavar="NAME",
    help="Default: the first that the target has.",
)
@click.option(
    "--target", metavar="TARGET", default="python", show_default=True, help="As of pytest bench/."
)
@click.option("--rknn-library", type=PATH, metavar="FILE", help="As of pytest bench/.")
@click.option(
    "--npu-memory",
    type=_Parsed(parse_size),
    metavar="SIZE",
    help="Of a virtual board: what `free` is there.",
)
@click.option(
    "--shape",
    "shapes",
    type=_Parsed(parse_shape),
    metavar="[NAME=]SIZES",
    multiple=True,
    help="As of pytest bench/.",
)
@click.option("--inputs", type=PATH, metavar="FILE", help="As of pytest bench/.")
@click.option(
    "--stored",
    is_flag=True,
    help="Take plans that an earlier call has measured; measure the others.",
)
@click.option("--verify", is_flag=True, help="Measure the recommended layout in fresh processes.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.option(
    "--code", is_flag=True, help="Print a program that does it: C for RKNN, Python for the others."
)
@target_storage
def fit(
    limit: int | str | None,
    models: Sequence[Path],
    resolutions: Sequence[ModelFile],
    streams: int,
    contexts: int,
    fps: float | None,
    runtime: str | None,
    target: str,
    rknn_library: Path | None,
    npu_memory: int | None,
    shapes: Sequence[InputShape],
    inputs: Path | None,
    stored: bool,
    verify: bool,
    as_json: bool,
    code: bool,
    storage: Path,
) -> int:
    """Find the layout of contexts that takes the least memory with equal outputs, and whether it
    fits.

    A handful of small plans is measured; every other layout is predicted from them.

    Exits with 0 where the recommended layout fits, with 1 where it does not.
    """
    if code and as_json:
        raise UserError("--code and --json are two outputs: leave one of them out")
    selection = Selection(target, rknn_library, npu_memory, runtimes=(runtime,) if runtime else ())
    name, place = next(iter(resolve_targets(selection).items()))
    request = ModelRequest(
        files=tuple(map(ModelFile, models)),
        resolutions=tuple(resolutions),
        shapes=tuple(shapes),
        arrays=inputs,
        streams=streams,
    )
    if models and resolutions:
        raise UserError("--model and --resolution are two questions: leave one of them out")
    problem = excess(streams * contexts, rounds=1)
    if problem:
        raise UserError(f"{problem}. Lower --streams or --contexts")
    demand = _demand(request, name, place, contexts)
    wish = Wish(_limit_bytes(limit, demand, place, npu_memory), fps)
    measuring = _Measuring(Study(demand, place.computes), place, selection, storage)
    if stored:
        measuring.take_stored()
    answer = _answer(measuring, wish)
    if verify and answer.recommended:
        answer = with_measured(answer, measuring.verify(answer.recommended))
    write_answer(storage, answer)
    if answer.short:
        plans = "; ".join(f"{one.plan} ({', '.join(map(str, one.signs))})" for one in answer.short)
        warn(
            "memory was short while these plans were measured, so that the answer may be too"
            f" small: {plans}. Free memory, and measure them again: the same command, with --stored"
        )
    if as_json:
        click.echo(answer_json(answer))
    elif code and answer.recommended:
        click.echo(snippet_of(answer.recommended, answer.chip).text, nl=False)
    else:
        click.echo("\n".join(_lines(answer, place)))
        if answer.recommended:
            click.echo(
                f"\npytest bench/ --plan {_write_plan(answer.recommended, storage)} measures it"
                " again."
            )
    return 0 if answer.fits else 1


def _demand(request: ModelRequest, runtime: str, target: Target, contexts: int) -> Demand:
    """Return what is to be served; of the built-in models the one of the first stream serves
    all.
    """
    sets = resolve_model_sets(request, {runtime: target})
    models = sets.of(runtime, RESOLUTIONS if request.resolutions else STREAMS)
    for line in sets.assumptions():
        click.echo(line, err=True)
    if not (request.files or request.resolutions):
        models = models[:1]
    if len(models) > request.streams:
        raise UserError(
            f"{len(models)} models and {request.streams} streams: a model serves one stream or"
            " more; add --streams"
        )
    is_npu = find_runtime(runtime).device == "npu"
    if is_npu and not target.keeps_ledger:
        raise UserError(
            f"--target {target.name} does not count NPU buffers, from which layouts are predicted:"
            " add --target board (once before: reusebench board install-ledger), or --target"
            " vboard:CHIP"
        )
    cores = (
        (CHIPS[target.chip].npu_cores if target.chip else 1)
        if is_npu
        else target.machine.host.usable_cpus()
    )
    return Demand(
        runtime=runtime,
        models=models,
        streams=tuple(
            len(range(model, request.streams, len(models))) for model in range(len(models))
        ),
        contexts=contexts,
        cores=cores,
        binds=is_npu,
        are_resolutions=bool(request.resolutions),
    )


def _limit_bytes(
    limit: int | str | None, demand: Demand, target: Target, npu_memory: int | None
) -> int | None:
    """Return the limit in bytes; raise UserError if it is more than the board has, or what it
    has is not known.
    """
    if target.keeps_ledger and not target.computes:
        if limit == _FREE and npu_memory is None:
            raise UserError(
                "--limit free: a virtual board has no memory of its own; say how much with"
                " --npu-memory"
            )
        return npu_memory if limit == _FREE else int(limit) if limit else None
    system = read_system(target.machine.host)
    is_contiguous = demand.binds and target.chip and not CHIPS[target.chip].iommu
    total = system.total_bytes
    free = system.available_bytes
    if is_contiguous and system.cma_total_bytes and system.cma_free_bytes is not None:
        total = system.cma_total_bytes
        free = system.cma_free_bytes
    if limit == _FREE:
        return free
    if limit is not None and int(limit) > total:
        raise UserError(
            f"--limit {_mib(int(limit))}: this board has {_mib(total)}; give less, or `free`"
        )
    return int(limit) if limit else None


@dataclass
class _Measuring:
    """Measures plans by `pytest bench/`, in fresh processes, and keeps what came of them."""

    study: Study
    target: Target
    selection: Selection
    storage: Path
    #: Of the library, which sessions of pytest measure one after the other.
    _pins: Pins = field(default_factory=Pins)

    def __post_init__(self) -> None:
        self._check_library()

    @property
    def runtime(self) -> str:
        """The runtime's name."""
        return self.study.demand.runtime

    def take_stored(self) -> None:
        """Take what earlier calls have measured on this target, of the newest version of the
        runtime.
        """
        results = []
        for run in read_storage(calibrations(self.storage)):
            if isinstance(run, StoredRun):
                results += [result.info for result in run.results]
        mine = [
            result
            for result in results
            if (result.runtime, result.target) == (self.runtime, self.target.name)
        ]
        if mine:
            newest = [
                result for result in mine if result.runtime_version == mine[-1].runtime_version
            ]
            # What was measured while memory was short is measured again, unless it was measured
            # well at another time; so is what lacks a figure.
            believed = [
                result
                for result in newest
                if not result.shortage_signs and self.study.can_use(result)
            ]
            self.study.add(believed, calibrations(self.storage))

    def measure(self, layouts: Sequence[Layout], reason: str) -> list[Result]:
        """Measure the layouts and return the results; raise UserError if pytest could not
        begin.
        """
        plans = [
            self.study.plan(layout, _name(layout, number))
            for number, layout in enumerate(layouts, start=1)
        ]
        click.echo(f"{reason}: {len(plans)} plan{'s' * (len(plans) > 1)}", err=True)
        results = self._run(plans, calibrations(self.storage), ())
        self.study.add(results, calibrations(self.storage))
        unmeasured = [layout for layout in layouts if self.study.result(layout) is None]
        if unmeasured:
            raise UserError("the plans were not measured: what pytest wrote above says why")
        return results

    def verify(self, plan: Plan) -> Result:
        """Return the result of the plan, measured in fresh processes."""
        click.echo("Verifying", err=True)
        results = self._run([plan], calibrations(self.storage), ())
        if not results or results[-1].outcome != "ok":
            failure = str(results[-1].failure) if results else "pytest did not measure it"
            raise UserError(f"the recommended layout could not be measured: {failure}")
        return results[-1]

    def _run(self, plans: Sequence[Plan], storage: Path, options: Sequence[str]) -> list[Result]:
        with OwnFolder() as folder:
            files = [folder / f"{plan.scenario}.json" for plan in plans]
            for plan, file in zip(plans, files):
                file.write_text(json.dumps(plan.to_json()), encoding="utf-8")
            tests = [f"test_plans.py::test_plans[{self.runtime}-{plan.scenario}]" for plan in plans]
            chosen = [word for file in files for word in ("--plan", str(file))]
            chosen += [
                "--runtime",
                self.runtime,
                "--target",
                self.selection.target,
                "-q",
                "--no-header",
                "--benchmark-quiet",
            ]
            chosen += ["--repeats", str(_REPEATS[find_runtime(self.runtime).device])]
            if self.selection.rknn_library:
                chosen += ["--rknn-library", str(self.selection.rknn_library)]
            storage.mkdir(parents=True, exist_ok=True)
            self.target.machine.close()  # a board far away is pytest's meanwhile
            _, paths = run_bench([*chosen, *options], storage, tests, sys.stderr)
            self._check_library()
        runs = map(read_run_file, paths)
        return [result.info for run in runs if isinstance(run, StoredRun) for result in run.results]

    def _check_library(self) -> None:
        """Pin the library; raise UserError if it is another one than at the beginning."""
        if self.selection.rknn_library:
            try:
                self._pins.check(self.selection.rknn_library)
            except ChangedFile as error:
                raise UserError(f"--rknn-library {error}") from None


def _name(layout: Layout, number: int) -> str:
    """Return a name for a plan that is measured for the answer."""
    parts = [f"{number:02}"]
    for group in layout.groups:
        form = group.form
        parts += [
            form.mechanism,
            *(["internal"] if form.shares_internal else []),
            *form.zero_copy,
            str(group.count),
        ]
    return re.sub(r"[^\w-]", "_", "-".join(parts))


def _answer(measuring: _Measuring, wish: Wish) -> FitAnswer:
    """Measure what is missing until the recommended layout has no form that was not measured
    itself.
    """
    study = measuring.study
    costs: Costs = NpuCosts(study) if study.demand.binds else ProcessCosts(study)
    while missing := costs.missing():
        _check_runs(measuring.measure(missing, "Measuring"))
    while True:
        answer = search(study.demand, costs, wish)
        unproven = costs.unproven(answer.recommended.layout) if answer.recommended else []
        if not unproven:
            break
        measuring.measure(unproven, "Measuring what is recommended")
    return stored_answer(study, wish, answer)


def _check_runs(results: Sequence[Result]) -> None:
    """Raise UserError if a model does not run as it is, without any reuse.

    That more contexts than are measured of other forms are too much for this board is no mistake.
    """
    for result in results:
        contexts = result.plan.contexts
        is_plain = all(context.mechanism == LOAD and not context.zero_copy for context in contexts)
        is_plain = is_plain and all(context.internal is None for context in contexts)
        if is_plain and result.failure and len(contexts) <= 2 * result.plan.cores:
            raise UserError(f"{result.models[0].name} does not run: {result.failure}")


# What is printed


def _lines(answer: FitAnswer, target: Target) -> Iterator[str]:
    what = "NPU memory" if answer.limit_of == "npu_memory" else "application memory"
    yield f"Without reuse   {_taking(answer.today)} {_size(answer.today)} of {what}"
    if answer.limit_bytes is not None:
        yield f"Limit           {_mib(answer.limit_bytes)}"
    best = answer.best
    if best is None:
        most = max(answer.frontier, key=lambda point: point.frames_per_s or 0)
        yield (
            f"No layout has {answer.fps:,.10g} frames per second of each stream; the most is"
            f" {_frames(most)}:"
        )
        yield from _layout(most, answer)
        return
    yield f"Recommended     {_taking(best)} {_size(best)}{_margin(answer, best)}"
    yield from _layout(best, answer)
    if best.limited_bytes > best.bytes and answer.predicted_npu_peak_bytes is not None:
        yield (
            f"                {_mib(best.limited_bytes)} at most while contexts are made, which the"
            " limit must have"
        )
    within = [
        point for point in answer.frontier if point.limited_bytes <= (answer.limit_bytes or 0)
    ]
    if answer.limit_bytes is not None and not answer.fits and within:
        yield f"What fits       {_taking(within[-1])} {_size(within[-1])}"
        yield from _layout(within[-1], answer)
    if best.frames_per_s is not None:
        yield (
            f"Frames          {_frames(best)} of all streams, without reuse {_frames(answer.today)}"
        )
    elif answer.fps is not None:
        yield f"Frames          {target.name} does not compute: --fps was not considered"
    if best.frames_per_s is not None and answer.busy_percent > BUSY_PERCENT:
        yield (
            f"                other work took {answer.busy_percent:.0f} % of this machine: do not"
            " rely on the frames"
        )
    if answer.least_bytes is not None:
        gap = best.bytes - answer.least_bytes
        yield (
            f"Lower bound     {_mib(answer.least_bytes)}; the layout takes {_mib(max(0.0, gap))}"
            " more"
        )
    yield from _components(answer)
    yield from _alternatives(answer)


def _contexts(point: FitPoint) -> str:
    return "1 context" if point.contexts == 1 else f"{point.contexts} contexts"


def _taking(point: FitPoint) -> str:
    return f"{_contexts(point)} {'takes' if point.contexts == 1 else 'take'}"


def _margin(answer: FitAnswer, point: FitPoint) -> str:
    if answer.limit_bytes is None:
        return ""
    margin = answer.limit_bytes - point.limited_bytes
    return (
        f": fits, {_mib(margin)} left"
        if margin >= 0
        else f": does not fit, {_mib(-margin)} too much"
    )


def _layout(point: FitPoint, answer: FitAnswer) -> Iterator[str]:
    for group in point.layout:
        yield f"                {_group(group, answer)}"


def _group(group: FitGroup, answer: FitAnswer) -> str:
    model = f"{group.model}: " if len(answer.models) > 1 else ""
    return model + ", ".join(map(words, group.words))


def _components(answer: FitAnswer) -> Iterator[str]:
    """Yield a table of what is predicted, and measured where it was."""
    rows: list[tuple[str, float | None, float | None]] = []
    measured = answer.measured_npu_components_bytes or {}
    for component, size in (answer.predicted_npu_components_bytes or {}).items():
        rows.append((component.replace("_", " "), size, measured.get(component)))
    rows.append(("NPU memory", answer.predicted_npu_memory_bytes, answer.measured_npu_memory_bytes))
    rows.append(("its peak", answer.predicted_npu_peak_bytes, answer.measured_npu_peak_bytes))
    for title, name in (
        ("application memory", "application_memory"),
        ("over the import", "application_memory_over_baseline"),
        ("over the import, trimmed", "application_memory_trimmed_over_baseline"),
    ):
        rows.append(
            (
                title,
                getattr(answer, f"predicted_{name}_bytes"),
                getattr(answer, f"measured_{name}_bytes"),
            )
        )
    shown = [(title, *_compared(one, other, _MIB)) for title, one, other in rows if one is not None]
    if answer.predicted_frames_per_s is not None:
        shown.append(
            (
                "frames per second",
                *_compared(answer.predicted_frames_per_s, answer.measured_frames_per_s, 1),
            )
        )
    heads = ["MiB", "predicted", "measured", "error"]
    columns = 2 if all(row[2] == "" for row in shown) else 4
    yield ""
    yield tabulate(
        [row[:columns] for row in shown],
        heads[:columns],
        disable_numparse=True,
        colalign=("left", *["right"] * (columns - 1)),
    )


def _compared(predicted: float, measured: float | None, unit: int) -> tuple[str, str, str]:
    if measured is None:
        return f"{predicted / unit:.2f}", "", ""
    error = f"{100 * (predicted - measured) / measured:+.2f} %" if measured else ""
    return f"{predicted / unit:.2f}", f"{measured / unit:.2f}", error


def _alternatives(answer: FitAnswer) -> Iterator[str]:
    """Yield the layouts that no other one is better than, of memory and frames."""
    yield "\nLayouts that no other one is better than:"
    step = -(-len(answer.frontier) // _MOST_ALTERNATIVES)
    # The last does most.
    for point in answer.frontier[::-1][::step][::-1]:
        at_once = f"up to {point.lanes} at once" if point.lanes > 1 else "one at a time"
        does = at_once if point.frames_per_s is None else f"{_frames(point)} frames per second"
        yield f"{_size(point):>16}  {_contexts(point)}, {does}"
        yield from _layout(point, answer)


def _size(point: FitPoint) -> str:
    spread = f" ±{point.plus_minus_bytes / _MIB:.1f}" if point.plus_minus_bytes else ""
    return f"{point.bytes / _MIB:.2f}{spread} MiB"


def _frames(point: FitPoint) -> str:
    assert point.frames_per_s is not None
    return f"{point.frames_per_s:.1f} ±{point.frames_per_s_plus_minus or 0:.1f}"


def _mib(size: float) -> str:
    return f"{size / _MIB:.2f} MiB"


def _write_plan(plan: Plan, storage: Path) -> Path:
    """Write the plan beside the answers, and return its path."""
    path = calibrations(storage).parent / f"recommended-{plan.runtime}.json"
    try:
        with replacing(path) as unfinished:
            unfinished.write_text(json.dumps(plan.to_json(), indent=2), encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"the plan cannot be stored in {path.parent} ({error.strerror})"
        ) from None
    return path
