"""`reusebench plan`: a scenario, or what was measured, as a plan file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from commands.known_runs import KnownRuns
from commands.options import storages
from harness.options import default_recipes
from harness.plans.writing import check_scenario, machine_cores, scenario_text
from runtimes import RUNTIMES
from storage.errors import StorageError
from storage.run_file import StoredRun, read_run_file

__all__ = ["plan"]

_AT_LEAST_1 = click.IntRange(min=1)


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--streams", type=_AT_LEAST_1, metavar="N", default=4, show_default=True, help="Streams.")
@click.option(
    "--contexts", type=_AT_LEAST_1, metavar="N", default=3, show_default=True, help="Contexts of each stream."
)
@click.option("--cores", type=_AT_LEAST_1, metavar="N", help="Cores to infer on. Default: this machine's.")
@click.option(
    "--runtime",
    type=click.Choice([entry.name for entry in RUNTIMES]),
    metavar="NAME",
    help="Print it as this runtime runs it: on an NPU contexts of streams are bound to cores. Default: onnxruntime; of "
    "stored runs, the one that has it.",
)
@click.option("--run", "reference", metavar="RUN", help="Print what this stored run measured, as it is stored (JSON).")
@storages
def plan(
    name: str,
    streams: int,
    contexts: int,
    cores: int | None,
    runtime: str | None,
    reference: str | None,
    storages: Sequence[Path],
) -> None:
    """Print a scenario as a plan file, to start one of your own from: pytest bench/ --plan FILE.

    NAME is a built-in scenario; with --run it may be a plan of yours too.
    """
    if reference is not None:
        stored = _stored_plan(KnownRuns.read_if_any(storages, Path()), reference, name, runtime)
        click.echo(json.dumps(stored, indent=2, ensure_ascii=False))
        return
    check_scenario(name)
    runtime = runtime or RUNTIMES[0].name
    recipes = default_recipes(name, streams)
    click.echo(scenario_text(name, runtime, recipes, streams, contexts, cores or machine_cores(runtime)), nl=False)


def _stored_plan(known: KnownRuns, reference: str, name: str, runtime: str | None) -> dict[str, Any]:
    """Return the JSON of the plan, of the newest run that has it.

    Raises StorageError where no run has it, and where one has it on several runtimes.
    """
    measured: set[str] = set()
    for run in reversed(known.find(reference)):
        file = read_run_file(run.path)
        results = [stored.info for stored in file.results] if isinstance(file, StoredRun) else []
        measured.update(info.scenario for info in results)
        plans = {info.runtime: info.plan.to_json() for info in results if info.scenario == name}
        if runtime in plans:
            return plans[runtime]
        if runtime is None and len(plans) == 1:
            return next(iter(plans.values()))
        if runtime is None and plans:
            raise StorageError(f"{run} has {name!r} on several runtimes; add --runtime, one of {', '.join(plans)}")
    where = f" on {runtime}" if runtime else ""
    raise StorageError(f"{reference} has no {name!r}{where}; it has: {', '.join(sorted(measured)) or 'no scenario'}")
