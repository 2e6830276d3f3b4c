"""The plan of `reusebench apply --plan`: its file, and what `fit` predicted for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reusebench.apply.errors import ApplyError
from reusebench.apply.plan import APPLIED_RUNTIMES, PlanSettings
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_files import is_unchanged
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.reading import read_plan_file
from reusebench.harness.plans.writing import file_plan
from reusebench.measured.plan import Model, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.models import Recipe
from reusebench.models.language import LanguageRecipe
from reusebench.storage.fit_answer import FitAnswer, read_answers
from reusebench.system.user_files import Pins

__all__ = ["read_plan"]


def read_plan(path: Path) -> tuple[PlanSettings, int | None]:
    """Return the settings of a plan's file, and the most runs at once if the file says it.

    Raises ApplyError if the file is wrong, or cannot be applied.
    """
    try:
        file = read_plan_file(path)
        plan = _plan_of(file)
    except UserError as error:
        raise ApplyError(str(error)) from None
    settings = PlanSettings.of(plan)
    predicted = _predicted_bytes(plan, settings, path)
    return replace(settings, predicted_bytes=predicted), file.cores


def _plan_of(file: PlanFile) -> Plan:
    pins = Pins()
    for model in file.models:
        if isinstance(model.source, Model) and not is_unchanged(model.source, pins):
            raise ApplyError(
                f"--plan: {model.source.path} has changed since the plan was stored. Put the old"
                " file back, or find the layout of the new one with `reusebench fit`"
            )
    cores = file.cores or 1 + max((context.core or 0 for context in file.contexts), default=0)
    return file_plan(file, file.runtime or _runtime_of(file), cores)


def _runtime_of(file: PlanFile) -> str:
    """Return the runtime whose own files all models are; raise ApplyError if there is none."""
    suffixes = set()
    for model in file.models:
        if isinstance(model.source, (Recipe, LanguageRecipe)):
            raise ApplyError(
                f"--plan: the model {model.name!r} is a built-in network, which no program loads."
                " Give it the `file` that the program loads"
            )
        source = model.source.path if isinstance(model.source, Model) else model.source
        suffixes.add(Path(source).suffix)
    by_suffix = {find_runtime(name).suffix: name for name in APPLIED_RUNTIMES}
    names = {by_suffix.get(suffix) for suffix in suffixes}
    name = names.pop() if len(names) == 1 else None
    if name is None:
        valid = ", ".join(f"{suffix} ({runtime})" for suffix, runtime in by_suffix.items())
        raise ApplyError(
            f"--plan: its models are files with {', '.join(sorted(suffixes)) or 'no suffix'};"
            f" valid: all of one runtime, {valid}"
        )
    return name


def _predicted_bytes(plan: Plan, settings: PlanSettings, path: Path) -> int | None:
    """Return the NPU memory by the answer of `fit` that is beside the plan's file, if any."""
    for answer in read_answers(path.absolute().parent.parent):
        if not isinstance(answer, FitAnswer) or answer.predicted_npu_memory_bytes is None:
            continue
        if answer.applied and answer.applied_plan and _are_equal(answer.applied_plan, plan):
            return round(answer.applied.bytes)
        is_whole = not settings.left_out
        if is_whole and answer.recommended and _are_equal(answer.recommended, plan):
            return answer.predicted_npu_memory_bytes
    return None


def _are_equal(one: Plan, other: Plan) -> bool:
    """Whether two plans have equal contexts, whatever their names and rounds are."""
    nameless = [replace(plan, scenario="", baseline=None, rounds=1) for plan in (one, other)]
    return nameless[0] == nameless[1]
