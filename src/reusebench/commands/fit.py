"""`reusebench fit`: the layout of contexts that takes the least memory, within a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from click.core import ParameterSource

from reusebench.commands.fit_limits import FREE, limit_on
from reusebench.commands.fit_plans import PlanBench, write_plan
from reusebench.commands.fit_sessions import SessionRequest, fit_sessions
from reusebench.commands.fit_text import answer_lines
from reusebench.commands.options import PATH, Parsed, target_storage
from reusebench.commands.reply import give, json_option, reply_of, warn
from reusebench.fit.answering import patches_of, stored_answer, with_measured
from reusebench.fit.layouts import Demand, Layout
from reusebench.fit.npu_costs import NpuCosts
from reusebench.fit.process_costs import ProcessCosts
from reusebench.fit.search import Costs, Wish, search
from reusebench.fit.study import Study
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_files import InputShape, ModelFile
from reusebench.harness.model_request import (
    ModelRequest,
    parse_resolution,
    parse_shape,
    resolve_model_sets,
)
from reusebench.harness.selection import resolve_targets
from reusebench.harness.settings import MOST_CONTEXTS, MOST_FPS, excess
from reusebench.measured.plan import LOAD, Context, Plan
from reusebench.measured.runtimes import RUNTIMES, find_runtime
from reusebench.models.model_kinds import is_language_model
from reusebench.scenarios.catalogue import RESOLUTIONS, STREAMS
from reusebench.snippets import snippet_of
from reusebench.storage.fit_answer import (
    FitAnswer,
    FitPatch,
    write_answer,
)
from reusebench.storage.limits import parse_size
from reusebench.storage.result import Result
from reusebench.targets.chips import CHIPS
from reusebench.targets.resolve import Selection, with_library
from reusebench.targets.target import Target

__all__ = ["fit"]

_MIB = 2**20
#: NPU memory is exact in every repeat; memory of a process moves.
_REPEATS = {"npu": 1, "cpu": 2}
#: Processes of a recommended layout.
_REPEATS_OF_RECOMMENDED = {"npu": 3, "cpu": 2}


_count = click.IntRange(min=1, max=MOST_CONTEXTS)
_tokens = click.IntRange(min=1)


@click.command()
@click.option(
    "--limit",
    type=Parsed(parse_size, FREE),
    metavar="SIZE",
    help=(
        "Available memory, such as 64MiB; `free`: this board's free memory. It is the NPU's memory"
        " if the runtime has any, otherwise the process's."
    ),
)
@click.option(
    "--model", "models", type=PATH, metavar="FILE", multiple=True, help="As for `reusebench bench`."
)
@click.option(
    "--resolution",
    "resolutions",
    type=Parsed(parse_resolution),
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
    "--sessions",
    type=_count,
    metavar="N",
    help="Language models only, in place of --streams: conversations.",
)
@click.option(
    "--tokens", type=_tokens, metavar="T", help="Tokens that a conversation has room for."
)
@click.option(
    "--prompt",
    type=_tokens,
    metavar="P",
    help="Tokens of its prompt. Default: all that the answer leaves.",
)
@click.option(
    "--generated",
    type=_tokens,
    metavar="R",
    help="Tokens of its answer. Default: 16, or fewer if there is less room.",
)
@click.option(
    "--common",
    type=click.IntRange(min=0),
    metavar="C",
    help="Tokens at the beginning of the prompt that all conversations have in common. Default: 0.",
)
@click.option(
    "--tokens-per-s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="F",
    help="Tokens per second that each conversation generates while all do. Default: any speed.",
)
@click.option(
    "--runtime",
    type=click.Choice([entry.name for entry in RUNTIMES]),
    metavar="NAME",
    help="Default: the first that the target has.",
)
@click.option(
    "--target",
    metavar="TARGET",
    default="python",
    show_default=True,
    help="As for `reusebench bench`.",
)
@click.option("--rknn-library", type=PATH, metavar="FILE", help="As for `reusebench bench`.")
@click.option(
    "--npu-memory",
    type=Parsed(parse_size),
    metavar="SIZE",
    help="Virtual boards only: the memory that `free` means.",
)
@click.option(
    "--shape",
    "shapes",
    type=Parsed(parse_shape),
    metavar="[NAME=]SIZES",
    multiple=True,
    help="As for `reusebench bench`.",
)
@click.option("--inputs", type=PATH, metavar="FILE", help="As for `reusebench bench`.")
@click.option(
    "--stored",
    is_flag=True,
    help="Take plans that an earlier call measured; measure the others.",
)
@click.option("--verify", is_flag=True, help="Measure the recommended layout in fresh processes.")
@click.option(
    "--code",
    is_flag=True,
    help=(
        "Print a program with this layout, if it fits: C for RKNN, Python for the others. The"
        " answer goes to standard error."
    ),
)
@target_storage
@json_option
def fit(
    limit: int | str | None,
    models: Sequence[Path],
    resolutions: Sequence[ModelFile],
    streams: int,
    contexts: int,
    fps: float | None,
    sessions: int | None,
    tokens: int | None,
    prompt: int | None,
    generated: int | None,
    common: int | None,
    tokens_per_s: float | None,
    runtime: str | None,
    target: str,
    rknn_library: Path | None,
    npu_memory: int | None,
    shapes: Sequence[InputShape],
    inputs: Path | None,
    stored: bool,
    verify: bool,
    code: bool,
    storage: Path,
) -> int:
    """Find the layout of contexts that takes the least memory with equal outputs.

    A handful of small plans is measured; every other layout is predicted from them. With --sessions
    it is that of conversations with a language model.

    Exits with 0 if the recommended layout fits the limit, with 1 if it does not.
    """
    if code and reply_of().is_json:
        raise UserError("--code and --json are two outputs: leave one of them out")
    # Every stage measures on the same library.
    runtimes = (runtime,) if runtime else ()
    selection = with_library(
        Selection(target, rknn_library, npu_memory, runtimes=runtimes, models=tuple(models))
    )
    _check_question(sessions is not None)
    if sessions is not None:
        wished = SessionRequest(
            models=models,
            limit=limit,
            sessions=sessions,
            tokens=tokens,
            prompt=prompt,
            generated=generated,
            common=common,
            tokens_per_s=tokens_per_s,
            stored=stored,
            verify=verify,
            code=code,
            storage=storage,
        )
        return fit_sessions(wished, selection)
    _check_models(models)
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
    available = limit_on(place, limit, demand.binds, npu_memory)
    wish = Wish(available.size_bytes, fps, available.source)
    measuring = _Measuring(
        Study(demand, place.computes), PlanBench(name, place, selection, storage)
    )
    if stored:
        measuring.take_stored()
    answer = _answer(measuring, wish)
    if verify and answer.recommended:
        answer = with_measured(answer, measuring.verify(answer.recommended))
    write_answer(storage, answer)
    if answer.short:
        warn(_shortage(answer))
    if code:
        click.echo("\n".join(answer_lines(answer, place.name)), err=True)
        return _print_program(answer)
    give(answer, _lines(answer, place.name, storage))
    return 0 if answer.fits else 1


#: Options of conversations, and options that these do not have.
_OF_SESSIONS = ("tokens", "prompt", "generated", "common", "tokens_per_s")
_OF_STREAMS = ("streams", "contexts", "fps", "resolutions", "shapes", "inputs", "npu_memory")


def _check_question(has_sessions: bool) -> None:
    """Raise UserError for options of the other question: of conversations, or of streams."""
    context = click.get_current_context()
    given = []
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if is_given and name in (_OF_STREAMS if has_sessions else _OF_SESSIONS):
            given.append(option.opts[0])
    if not given:
        return
    if has_sessions:
        raise UserError(
            f"--sessions is for language models, which have no {given[0]}: leave one of them out"
        )
    raise UserError(f"{given[0]} is for language models: add --sessions N, or leave it out")


def _check_models(models: Sequence[Path]) -> None:
    """Raise UserError for a language model without conversations."""
    for path in models:
        if is_language_model(path):
            raise UserError(
                f"{path.name} is a language model: add --sessions N and --tokens T, the number of"
                " conversations and the tokens that each has room for"
            )


def _lines(answer: FitAnswer, target: str, storage: Path) -> Iterator[str]:
    """Yield the answer, and the command that measures it again."""
    yield from answer_lines(answer, target)
    if answer.recommended:
        path = write_plan(answer.recommended, storage, "recommended")
        yield f"\nreusebench bench --plan {path} measures it again."
    if answer.applied_plan:
        path = write_plan(answer.applied_plan, storage, "applied")
        yield f"Apply it to a program that you do not change: reusebench apply --plan {path} -- CMD"
    elif find_runtime(answer.runtime).can_be_applied:
        yield "Share what is safe in a program that you do not change: reusebench apply -- CMD"


def _print_program(answer: FitAnswer) -> int:
    """Print the program of a layout that fits, and return the exit code."""
    if answer.fits and answer.recommended:
        click.echo(snippet_of(answer.recommended, answer.chip).text, nl=False)
        return 0
    click.echo(
        "Error: no program is printed, for its layout does not fit. Raise --limit, or lower"
        " --streams, --contexts or --fps",
        err=True,
    )
    return 1


def _demand(request: ModelRequest, runtime: str, target: Target, contexts: int) -> Demand:
    """Return the workload; without the user's models the first built-in one serves all streams."""
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
    entry = find_runtime(runtime)
    is_npu = entry.device == "npu"
    if is_npu and not target.keeps_ledger:
        raise UserError(
            f"--target {target.name} does not count NPU buffers, from which layouts are predicted:"
            " add --target board (once before: reusebench board install-ledger), or --target"
            " vboard:CHIP"
        )
    streams_of_models = tuple(
        len(range(first, request.streams, len(models))) for first in range(len(models))
    )
    return Demand(
        runtime=runtime,
        models=models,
        streams=streams_of_models,
        contexts=contexts,
        cores=_cores(target) if is_npu else target.machine.host.usable_cpus(),
        binds=is_npu,
        are_resolutions=bool(request.resolutions),
        lacks=frozenset(scenario for scenario, _ in entry.lacks),
    )


def _cores(target: Target) -> int:
    """Return the number of the NPU's cores; 1 if the chip is unknown."""
    return CHIPS[target.chip].npu_cores if target.chip else 1


@dataclass
class _Measuring:
    """Measurements of the layouts of a study."""

    study: Study
    bench: PlanBench

    @property
    def runtime(self) -> str:
        """The runtime's name."""
        return self.study.demand.runtime

    def take_stored(self) -> None:
        """Take the results of earlier calls; those that lack a figure are measured again."""
        usable = [result for result in self.bench.stored() if self.study.can_use(result)]
        self.study.add(usable, self.bench.results)

    def measure(
        self, layouts: Sequence[Layout], reason: str, repeats: Mapping[str, int] | None = None
    ) -> list[Result]:
        """Measure the layouts and return the results; raise UserError if pytest could not begin."""
        plans = []
        for number, layout in enumerate(layouts, start=1):
            plans.append(self.study.plan(layout, _name(layout, number)))
        repeats = repeats or _REPEATS
        click.echo(f"{reason}: {self._in_words(plans, repeats)}", err=True)
        results, output = self.bench.run(plans, self._repeats(repeats))
        self.study.add(results, self.bench.results)
        unmeasured = [layout for layout in layouts if self.study.result(layout) is None]
        if unmeasured:
            click.echo(output, err=True)
            raise UserError("the plans were not measured: pytest's output above has the reason")
        return results

    def verify(self, plan: Plan) -> Result:
        """Return the result of the plan, measured in fresh processes."""
        words = self._in_words([plan], _REPEATS_OF_RECOMMENDED)
        click.echo(f"Verifying the recommended layout: {words}", err=True)
        results, output = self.bench.run([plan], self._repeats(_REPEATS_OF_RECOMMENDED))
        if not results or results[-1].outcome != "ok":
            click.echo(output, err=True)
            failure = str(results[-1].failure) if results else "pytest did not measure it"
            raise UserError(f"the recommended layout could not be measured: {failure}")
        return results[-1]

    def _repeats(self, repeats: Mapping[str, int]) -> int:
        return repeats[find_runtime(self.runtime).device]

    def _in_words(self, plans: Sequence[Plan], repeats: Mapping[str, int]) -> str:
        """Return the number of plans, their contexts, and how often each is measured."""
        counts = sorted({len(plan.contexts) for plan in plans})
        plans_in_words = _counted(len(plans), "plan", "plans")
        contexts = _counted(counts[-1], "context", "contexts")
        if len(counts) > 1:
            contexts = f"{counts[0]} to {contexts}"
        processes = _counted(self._repeats(repeats), "process", "processes")
        each = " each" if len(plans) > 1 else ""
        return f"{plans_in_words} of {contexts}, in {processes}{each}"


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _name(layout: Layout, number: int) -> str:
    """Return a name for the layout's plan."""
    parts = [f"{number:02}"]
    for group in layout.groups:
        form = group.form
        parts.append(form.mechanism)
        if form.shares_internal:
            parts.append("internal")
        parts += [*form.zero_copy, str(group.count)]
    return re.sub(r"[^\w-]", "_", "-".join(parts))


def _answer(measuring: _Measuring, wish: Wish) -> FitAnswer:
    """Measure until every form of the layouts that decide was measured, and return the answer."""
    study = measuring.study
    runtime = find_runtime(study.demand.runtime)
    costs: Costs = NpuCosts(study) if study.demand.binds else ProcessCosts(study)
    while missing := costs.missing():
        _check_runs(measuring.measure(missing, "Measuring"))
    measured: set[Layout] = set()
    while True:
        answer = search(study.demand, costs, wish)
        if not runtime.can_be_applied:
            answer = replace(answer, applied=None)
        unproven: list[Layout] = []
        for candidate in (answer.least, answer.recommended):
            if candidate and not unproven:
                # What a measurement did not prove, another one will not.
                unproven = [one for one in costs.unproven(candidate.layout) if one not in measured]
        if answer.applied and not unproven:
            # The memory of its process is not a program's: the memory of its forms is enough.
            known = {answer.applied.layout, *measured}
            unproven = [one for one in costs.unproven(answer.applied.layout) if one not in known]
        if not unproven:
            break
        measuring.measure(unproven, "Measuring the recommended layout", _REPEATS_OF_RECOMMENDED)
        measured.update(unproven)
    best = answer.recommended
    patches: tuple[FitPatch, ...] = ()
    if runtime.open_driver and best and isinstance(costs, NpuCosts):
        patches = patches_of(costs, best.layout, runtime.open_driver)
    return stored_answer(study, wish, answer, patches)


def _check_runs(results: Sequence[Result]) -> None:
    """Raise UserError if a model does not run without reuse.

    Larger plans may fail: more contexts than twice the cores may be too much for this board.
    """
    for result in results:
        contexts = result.plan.contexts
        is_plain = all(_is_plain(context) for context in contexts)
        if is_plain and result.failure and len(contexts) <= 2 * result.plan.cores:
            raise UserError(f"{result.models[0].name} does not run: {result.failure}")


def _is_plain(context: Context) -> bool:
    """Whether the context is loaded and shares nothing."""
    return context.mechanism == LOAD and not context.zero_copy and context.internal is None


def _shortage(answer: FitAnswer) -> str:
    """Return the warning about plans that were measured while memory was short."""
    plans = "; ".join(
        f"{short.plan} ({', '.join(map(str, short.signs))})" for short in answer.short
    )
    return (
        "memory was short while these plans were measured, so that the answer may be too small:"
        f" {plans}. Free memory, and measure them again: the same command, with --stored"
    )
