"""`reusebench plan`: a scenario or a stored result as a plan file, or as a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import RUNS_ARE_NAMED, storages
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import PlanResult
from reusebench.harness.effort import SESSIONS
from reusebench.harness.errors import UserError
from reusebench.harness.model_request import default_recipes
from reusebench.harness.plans.reading import read_plan_file
from reusebench.harness.plans.writing import (
    file_plan,
    machine_cores,
    scenario_plans,
    scenario_text,
    writable_scenario,
)
from reusebench.harness.settings import MOST_CONTEXTS, excess, has_conversations
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import RUNTIMES, find_runtime
from reusebench.measured.runtimes.base import NotSupported
from reusebench.scenarios.catalogue import SCENARIOS, suits
from reusebench.snippets import Snippet, snippet_of
from reusebench.storage.errors import StorageError
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun, read_run_file
from reusebench.targets.chips import CHIPS

__all__ = ["plan"]

_COUNT = click.IntRange(min=1, max=MOST_CONTEXTS)
_RKNN = "rknn"
#: Suffixes of plan files.
_SUFFIXES = (".toml", ".json")


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--streams", type=_COUNT, metavar="N", default=4, show_default=True, help="Streams.")
@click.option(
    "--contexts",
    type=_COUNT,
    metavar="N",
    default=3,
    show_default=True,
    help="Contexts of each stream.",
)
@click.option(
    "--sessions",
    type=_COUNT,
    metavar="N",
    default=SESSIONS,
    show_default=True,
    help="Conversations with a language model.",
)
@click.option(
    "--cores", type=_COUNT, metavar="N", help="Cores to infer on. Default: this machine's."
)
@click.option(
    "--runtime",
    type=click.Choice([entry.name for entry in RUNTIMES]),
    metavar="NAME",
    help=(
        "Print it as this runtime runs it: on an NPU contexts of streams are bound to cores."
        " Default: the first that runs such models; for stored runs, the one that has it."
    ),
)
@click.option(
    "--run",
    "reference",
    metavar="RUNS",
    help=f"Print the plan that this stored run measured (JSON). {RUNS_ARE_NAMED}",
)
@click.option(
    "--code",
    is_flag=True,
    help="Print a program with this layout instead: C for RKNN, Python for the others.",
)
@click.option(
    "--chip",
    type=click.Choice(list(CHIPS)),
    metavar="CHIP",
    help=(
        f"With --code: the chip, one of {', '.join(CHIPS)}. Default: one with librknnrt; for stored"
        " runs, their own."
    ),
)
@storages
@json_option
def plan(
    name: str,
    streams: int,
    contexts: int,
    sessions: int,
    cores: int | None,
    runtime: str | None,
    reference: str | None,
    code: bool,
    chip: str | None,
    storages: Sequence[Path],
) -> None:
    """Print a scenario as a plan file, a start for your own: `reusebench bench --plan FILE`.

    NAME is a built-in scenario; with --run it may be a plan of your own, with --code the path of a
    plan file.
    """
    if chip and not code:
        raise UserError("--chip is the chip that a program is for: add --code, or leave it out")
    if chip and runtime not in (None, _RKNN):
        raise UserError(
            f"--chip is Rockchip's, and --runtime {runtime} does not run on its NPU: leave one of"
            " them out"
        )
    if reference is not None:
        stored = _stored(KnownRuns.read_if_any(storages, Path()), reference, name, runtime)
        if code:
            _give_program(snippet_of(stored.plan, chip or stored.chip), stored.runtime)
        else:
            _give("json", json.dumps(stored.plan.to_json(), indent=2, ensure_ascii=False))
        return
    problem = excess(streams * contexts, rounds=1)
    if problem:
        raise UserError(f"{problem}. Lower --streams or --contexts")
    is_file = name.endswith(_SUFFIXES)
    if is_file and not code:
        raise UserError(f"{name} is a plan file already; with --code its program is printed")
    runtime = runtime or (_RKNN if chip else _default_runtime(name))
    cores = cores or (CHIPS[chip].npu_cores if chip else machine_cores(runtime))
    if is_file:
        plan_of_file = file_plan(read_plan_file(Path(name)), runtime, cores)
        applied = f"reusebench apply --plan {name}"
        _give_program(_first_program([plan_of_file], chip), runtime, applied)
        return
    scenario = writable_scenario(name, runtime)
    recipes = default_recipes(scenario, streams, runtime)
    contexts = sessions if has_conversations(runtime) else contexts
    if code:
        plans = scenario_plans(scenario, runtime, recipes, streams, contexts, cores)
        _give_program(_first_program(plans, chip), runtime)
    else:
        _give("toml", scenario_text(scenario, runtime, recipes, streams, contexts, cores))


def _default_runtime(name: str) -> str:
    """Return the first runtime that takes part in a scenario, or in any plan of a file."""
    for entry in RUNTIMES:
        is_scenario = name in [scenario.name for scenario in SCENARIOS]
        if not is_scenario or suits(name, entry.has_conversations):
            return entry.name
    return RUNTIMES[0].name


def _give_program(program: Snippet, runtime: str, applied: str = "reusebench apply") -> None:
    """Print the program; `applied` is the command for a program that nobody changes."""
    _give(program.language, program.text)
    if find_runtime(runtime).can_be_applied:
        words = "To share memory in a program that you do not change"
        click.echo(f"{words}: {applied} -- PROGRAM", err=True)


def _give(language: str, text: str) -> None:
    give(PlanResult(language, text), [text.rstrip("\n")])


def _first_program(plans: Sequence[Plan], chip: str | None) -> Snippet:
    """Return the program of the first plan whose mechanisms the runtime has.

    Raises the NotSupported of the first plan if there is none.
    """
    refusals = []
    for candidate in plans:
        try:
            return snippet_of(candidate, chip)
        except NotSupported as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _stored(known: KnownRuns, reference: str, name: str, runtime: str | None) -> Result:
    """Return the result called `name` in the newest run that has one.

    Raises StorageError if no run has one, or if that run has it on several runtimes.
    """
    measured: set[str] = set()
    for run in reversed(known.find(reference)):
        file = read_run_file(run.path)
        results = [stored.info for stored in file.results] if isinstance(file, StoredRun) else []
        measured.update(info.scenario for info in results)
        named = {info.runtime: info for info in results if info.scenario == name}
        if runtime in named:
            return named[runtime]
        if runtime is None and len(named) == 1:
            return next(iter(named.values()))
        if runtime is None and named:
            raise StorageError(
                f"{run} has {name!r} on several runtimes; add --runtime, one of {', '.join(named)}"
            )
    on_runtime = f" on {runtime}" if runtime else ""
    names = ", ".join(sorted(measured)) or "no scenario"
    raise StorageError(f"{reference} has no {name!r}{on_runtime}; it has: {names}")
