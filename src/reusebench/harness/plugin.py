"""The pytest plug-in: options, hooks and fixtures; what they do is in the modules beside this
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reusebench.harness.bench_options import add_options, resolve_plan_files
from reusebench.harness.benchmark_plugin import (
    choose_board_storage,
    hide_latency_table,
    show_latency_table,
)
from reusebench.harness.clock import ReplayClock
from reusebench.harness.errors import UserError
from reusebench.harness.machine_info import describe_machine, this_machine
from reusebench.harness.measure import Measure
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.selection import option_scenarios, selected_runtimes, selection_of
from reusebench.harness.session import Session
from reusebench.harness.standard_output import StandardOutput, leave_open
from reusebench.scenarios.catalogue import FIRST_LOOK
from reusebench.storage.board_storage import board_storage
from reusebench.system.files import keep_writing_to_user
from reusebench.system.interrupts import handle_signals, ignore_signals
from reusebench.system.package import QUESTIONS

_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_OUTPUT: pytest.StashKey[StandardOutput] = pytest.StashKey()
_RUNTIMES: pytest.StashKey[list[str]] = pytest.StashKey()
_PLANS: pytest.StashKey[tuple[PlanFile, ...]] = pytest.StashKey()
#: Set where --quick leaves something out.
_IS_FIRST_LOOK: pytest.StashKey[bool] = pytest.StashKey()
#: Whether pytest-benchmark would show its table otherwise.
_HIDES_TABLE: pytest.StashKey[bool] = pytest.StashKey()
_FIRST_LOOK_ALONE = (
    "--quick: what is asked first. Name others beside it with -k or by file, as"
    " bench/test_leaks.py; without it all run"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, in one group."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the storage before pytest-benchmark opens it, hide its table, and read the user's
    plans.

    Standard output is stood in for before pytest's terminal takes it.
    """
    config.stash[_OUTPUT] = StandardOutput()
    keep_writing_to_user()
    choose_board_storage(config)
    config.stash[_HIDES_TABLE] = hide_latency_table(config)
    try:
        config.stash[_PLANS] = resolve_plan_files(config.option)
    except UserError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main() -> Iterator[None]:
    """Leave pytest a standard output to flush at its end, where it puts back that there was
    none.
    """
    yield
    leave_open()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the built-in questions where plans are given, else the question of plans; not a
    file that is named.
    """
    if not _is_question(collection_path):
        return None
    is_of_plans = collection_path.name == "test_plans.py"
    return True if is_of_plans != bool(config.stash[_PLANS]) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on every selected runtime, if it measures and takes `runtime` from nobody else."""
    if "measure" in metafunc.fixturenames and _is_free(metafunc, "runtime"):
        stash = metafunc.config.stash
        if _RUNTIMES not in stash:
            stash[_RUNTIMES] = selected_runtimes(selection_of(metafunc.config.option))
        names = stash[_RUNTIMES]
        # Without a runtime, or without a plan, Session raises the reason.
        if _is_question(metafunc.definition.path) and _is_free(metafunc, "option"):
            pairs = [(name, option) for name in names for option in option_scenarios(name)]
            metafunc.parametrize(
                ("runtime", "option"), pairs or [pytest.param(None, None, id="none")]
            )
            return
        metafunc.parametrize("runtime", names or [pytest.param(None, id="none")])
        plans = [scenario for file in stash[_PLANS] for scenario in file.scenarios]
        if _is_free(metafunc, "plan") and (plans or _is_question(metafunc.definition.path)):
            metafunc.parametrize("plan", plans or [pytest.param(None, id="none")])


def _is_free(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether a test takes an argument that neither a fixture nor a mark of its own gives."""
    if (
        name not in metafunc.fixturenames
        or name in metafunc.definition._fixtureinfo.name2fixturedefs
    ):
        return False
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if name in (names.replace(" ", "").split(",") if isinstance(names, str) else names):
            return False
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out options where no runtime has any; under --quick what is not asked first, unless it
    is named.
    """
    items[:] = [item for item in items if not _is_of_no_option(item)]
    if not config.option.quick or config.option.keyword:
        return
    named = {
        (config.invocation_params.dir / argument.partition("::")[0]).resolve()
        for argument in config.args
    }
    left_out = [
        item for item in items if item.path.resolve() not in named and not _is_asked_first(item)
    ]
    if left_out:
        config.stash[_IS_FIRST_LOOK] = True
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_question(path: Path) -> bool:
    """Whether it is a file of bench/, by whichever link it was reached."""
    return path.suffix == ".py" and path.resolve().parent == QUESTIONS.resolve()


def _is_of_no_option(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("option", "") is None


def _is_asked_first(item: pytest.Item) -> bool:
    """Whether it measures a scenario of the first look; all that is no scenario of bench/ stays,
    too.
    """
    callspec = getattr(item, "callspec", None)
    parameters = callspec.params if callspec and _is_question(item.path) else {}
    return "option" not in parameters and parameters.get("scenario") in (None, *FIRST_LOOK)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin a measuring session if a test measures; before the terminal shows what was assumed."""
    measuring = [item for item in session.items if "measure" in getattr(item, "fixturenames", ())]
    benchmarks = [
        item for item in session.items if "benchmark" in getattr(item, "fixturenames", ())
    ]
    if len(benchmarks) > len(measuring) and session.config.stash[_HIDES_TABLE]:
        show_latency_table(session.config)
    if measuring and not session.config.option.collectonly:
        configurations = []
        for item in measuring:
            if _is_question(item.path):
                values = item.callspec.params  # type: ignore[attr-defined]
                name = next(values[key] for key in ("scenario", "option", "plan") if key in values)
                configurations.append((values["runtime"], name))
        config = session.config
        plans = session.config.stash[_PLANS]
        handle_signals()
        try:
            config.stash[_SESSION] = Session(config, configurations, plans)
        except UserError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Show what --quick leaves out, and what was assumed of the user's models, before they are
    measured.
    """
    remarks = config.stash[_SESSION].remarks if _SESSION in config.stash else []
    lines = [*([_FIRST_LOOK_ALONE] if _IS_FIRST_LOOK in config.stash else []), *remarks]
    return [*lines, ""] if _SESSION in config.stash else lines


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> Any:
    """Leave out the dot of a test whose result has a line, or is another's."""
    if (
        _SESSION in config.stash
        and report.when == "call"
        and config.stash[_SESSION].take_dot(report.nodeid)
    ):
        return report.outcome, "", ""
    return None


@pytest.fixture
def replay_clock(request: pytest.FixtureRequest) -> ReplayClock:
    """Make the clock of the measured process pytest-benchmark's timer; set up before `benchmark`,
    which reads it.
    """
    clock = ReplayClock()
    request.node.add_marker(
        pytest.mark.benchmark(timer=clock, group=request.path.stem.replace("test_", ""))
    )
    return clock


@pytest.fixture
def measure(request: pytest.FixtureRequest, replay_clock: ReplayClock, benchmark: Any) -> Measure:
    """Return measure(scenario, runtime=..., model=...): one configuration, stored and returned."""
    return Measure(request.config.stash[_SESSION], benchmark, replay_clock)


# pytest-benchmark's own comes first if this plug-in is loaded earlier, as `reusebench bench` and
# `-p` do.
@pytest.hookimpl(tryfirst=True)
def pytest_benchmark_generate_machine_info() -> dict[str, Any]:
    """Have pytest-benchmark import nothing from the user's folder while it looks up the
    processor.
    """
    return this_machine()


def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Say which machine is measured, and what of it bears on memory."""
    describe_machine(config.option.target, machine_info)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Store the results without latencies beside the others."""
    if _SESSION in config.stash:
        config.stash[_SESSION].add_without_speed(output_json)


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt() -> None:
    """Let nothing keep from storing what was finished."""
    ignore_signals()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Store what pytest-benchmark, which saves in a wrapper of this hook too, would not store."""
    if _SESSION in session.config.stash:
        ignore_signals()
        session.config.stash[_SESSION].save_without_speed_alone()
    yield
    stash = session.config.stash
    if _SESSION not in stash:
        return
    if stash[_SESSION].is_failed:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    if stash[_OUTPUT].error:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        stash[_OUTPUT].tell(stash[_SESSION].storage)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the comparison with the baseline, the path of the results, and the command that shows
    them.
    """
    if _SESSION in config.stash:
        session = config.stash[_SESSION]
        storage = session.storage
        if session.verdict:
            terminalreporter.section("against the baseline")
            terminalreporter.write_line(session.verdict.text)
        terminalreporter.section("reusebench")
        if session.equal:
            terminalreporter.write_line(session.equal)
        if session.problem:
            terminalreporter.write_line(session.problem, red=True)
        option = "" if storage == board_storage() else f" --storage {storage}"
        terminalreporter.write_line(
            f"Results are in {storage}. The comparison of memory: reusebench report{option}"
        )
