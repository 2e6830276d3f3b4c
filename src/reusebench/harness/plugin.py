"""The pytest plug-in: options, hooks and fixtures, each of which calls another module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reusebench.harness.bench_options import add_options, resolve_plan_files
from reusebench.harness.benchmark_plugin import (
    choose_board_storage,
    enable_beside_workers,
    hide_latency_table,
    show_latency_table,
)
from reusebench.harness.board_worker.link import Link, begin_worker
from reusebench.harness.clock import ReplayClock
from reusebench.harness.errors import UserError
from reusebench.harness.fleet.boards import FleetBoard
from reusebench.harness.fleet.missing import BOARD_PARAMETER
from reusebench.harness.fleet.options import prepare_fleet
from reusebench.harness.fleet.session import FleetSession
from reusebench.harness.former_names import propose_names
from reusebench.harness.gate_reports import GateReporter
from reusebench.harness.machine_info import describe_machine, this_machine
from reusebench.harness.measure import Measure
from reusebench.harness.memory_gate import refuse_workers
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.selection import (
    option_scenarios,
    selected_runtimes,
    selection_of,
    target_of,
)
from reusebench.harness.session import NamedConfiguration, Session
from reusebench.harness.standard_output import StandardOutput, leave_open
from reusebench.measured.runtimes import RUNTIMES, find_runtime
from reusebench.scenarios.catalogue import first_look, suits
from reusebench.storage.board_storage import board_storage
from reusebench.system.files import keep_writing_to_user
from reusebench.system.interrupts import handle_signals, ignore_signals
from reusebench.system.package import QUESTIONS

_SESSION: pytest.StashKey[Session | FleetSession] = pytest.StashKey()
_BOARDS: pytest.StashKey[tuple[FleetBoard, ...]] = pytest.StashKey()
#: The worker's link to the session of several boards; None elsewhere.
_LINK: pytest.StashKey[Link | None] = pytest.StashKey()
_OUTPUT: pytest.StashKey[StandardOutput] = pytest.StashKey()
_RUNTIMES: pytest.StashKey[list[str]] = pytest.StashKey()
_PLANS: pytest.StashKey[tuple[PlanFile, ...]] = pytest.StashKey()
#: Set if --quick leaves something out.
_IS_FIRST_LOOK: pytest.StashKey[bool] = pytest.StashKey()
#: Whether the table of pytest-benchmark is hidden that it would show otherwise.
_HIDES_TABLE: pytest.StashKey[bool] = pytest.StashKey()
_ENDED_EARLY = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
_NOTHING_FAILED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
_FIRST_LOOK_ALONE = (
    "--quick: the first look alone. Name other questions with -k or by file, as"
    " bench/test_leaks.py; without --quick all run"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, in groups of their own."""
    add_options(parser)
    propose_names(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the storage before pytest-benchmark opens it, hide its table, and read plan files.

    Standard output is replaced before pytest's terminal takes it.
    """
    config.stash[_OUTPUT] = StandardOutput()
    keep_writing_to_user()
    config.stash[_LINK] = begin_worker(config)
    choose_board_storage(config)
    config.stash[_HIDES_TABLE] = hide_latency_table(config)
    try:
        refuse_workers(config.option)
        config.stash[_BOARDS] = prepare_fleet(config)
        config.stash[_PLANS] = resolve_plan_files(config.option)
    except UserError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the session of several boards, before pytest-xdist starts their workers."""
    config = session.config
    boards = config.stash[_BOARDS]
    if not boards:
        return
    handle_signals()
    try:
        fleet = FleetSession(config, boards)
    except UserError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_SESSION] = fleet
    config.pluginmanager.register(fleet)
    config.pluginmanager.register(GateReporter(lambda: fleet.verdict))


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main() -> Iterator[None]:
    """Leave pytest a standard output to flush at its end, even if it restores a closed one."""
    yield
    leave_open()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the built-in questions if plans are given, otherwise the question of plans.

    pytest does not ask for files that the user names.
    """
    if not _is_question(collection_path):
        return None
    has_plans = bool(config.stash[_PLANS])
    is_of_plans = collection_path.name == "test_plans.py"
    return True if is_of_plans != has_plans else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that measures on every selected runtime, unless it gets `runtime` elsewhere.

    With several boards, its name has the board.
    """
    if "measure" not in metafunc.fixturenames:
        return
    stash = metafunc.config.stash
    link = stash[_LINK]
    if link:
        metafunc.fixturenames.append(BOARD_PARAMETER)
        metafunc.parametrize(BOARD_PARAMETER, [link.task.label], indirect=True)
    if not _is_free(metafunc, "runtime"):
        return
    if _RUNTIMES not in stash:
        stash[_RUNTIMES] = selected_runtimes(selection_of(metafunc.config.option))
    runtimes = stash[_RUNTIMES]
    is_question = _is_question(metafunc.definition.path)
    # Without a runtime or a plan there is one test with None, for which Session raises the reason.
    if is_question and _is_free(metafunc, "option"):
        pairs: list[Any] = []
        for runtime in runtimes:
            pairs += [(runtime, option) for option in option_scenarios(runtime)]
        none = [pytest.param(None, None, id="none")]
        metafunc.parametrize(("runtime", "option"), pairs or none)
        return
    none = [pytest.param(None, id="none")]
    metafunc.parametrize("runtime", runtimes or none)
    plans: list[str] = []
    for file in stash[_PLANS]:
        plans += file.scenarios
    if _is_free(metafunc, "plan") and (plans or is_question):
        metafunc.parametrize("plan", plans or none)


def _is_free(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether a test takes an argument that neither a fixture nor a mark of its own gives."""
    if name not in metafunc.fixturenames:
        return False
    if name in metafunc.definition._fixtureinfo.name2fixturedefs:
        return False
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if isinstance(names, str):
            names = names.replace(" ", "").split(",")
        if name in names:
            return False
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out options of runtimes without options, scenarios of other models than a runtime's,
    and with --quick all but the first look.
    """
    items[:] = [item for item in items if not _is_without_option(item)]
    plans = {name: file for file in config.stash[_PLANS] for name in file.scenarios}
    suitable = [item for item in items if _suits(item, plans)]
    had_items = bool(items)
    items[:] = suitable  # pytest goes on to the end of the collection after an error, too
    if had_items and not suitable:
        raise pytest.UsageError(_none_suits(config))
    if not config.option.quick or config.option.keyword:
        return
    named = set()
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        named.add(path.resolve())
    scenarios = first_look(len(config.option.model or ()))
    left_out = []
    for item in items:
        if item.path.resolve() not in named and not _is_one_of(scenarios, item):
            left_out.append(item)
    if left_out:
        config.stash[_IS_FIRST_LOOK] = True
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_question(path: Path) -> bool:
    """Whether it is a file of bench/, by whichever link it was reached."""
    return path.suffix == ".py" and path.resolve().parent == QUESTIONS.resolve()


def _is_without_option(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("option", "") is None


def _suits(item: pytest.Item, plans: Mapping[str, PlanFile]) -> bool:
    """Whether the runtime takes part in the scenario or the plan, if it is a test of bench/."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or not _is_question(item.path):
        return True
    runtime = callspec.params.get("runtime")
    if runtime is None:
        return True
    has_conversations = find_runtime(runtime).has_conversations
    plan = callspec.params.get("plan")
    if plan in plans:
        return plans[plan].has_language_models == has_conversations
    scenario = callspec.params.get("scenario")
    return scenario is None or suits(scenario, has_conversations)


def _none_suits(config: pytest.Config) -> str:
    """Return the sentence about a session in which no runtime takes part."""
    runtimes = config.stash[_RUNTIMES]
    names = [entry.name for entry in RUNTIMES if entry.has_conversations]
    if any(find_runtime(name).has_conversations for name in runtimes):
        return (
            f"{' and '.join(runtimes)} run language models, which these questions are not about:"
            " name test_sessions.py, test_options.py or test_leaks.py, or another --runtime"
        )
    return (
        "these questions are about language models: name a runtime for them"
        f" (--runtime {' or '.join(names)}); `reusebench doctor` says which are installed, and what"
        " to install"
    )


def _is_one_of(scenarios: Sequence[str], item: pytest.Item) -> bool:
    """Whether it measures one of the scenarios; tests outside of bench/ stay, too."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or not _is_question(item.path):
        return True
    if "option" in callspec.params:
        return False
    return callspec.params.get("scenario") in (None, *scenarios)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin a measuring session if a test measures, before the terminal shows its remarks."""
    config = session.config
    measuring = _items_with(session, "measure")
    if len(_items_with(session, "benchmark")) > len(measuring) and config.stash[_HIDES_TABLE]:
        show_latency_table(config)
    if not measuring or config.option.collectonly:
        return
    configurations = [_configuration(item) for item in measuring if _is_question(item.path)]
    plan_files = config.stash[_PLANS]
    handle_signals()
    link = config.stash[_LINK]
    if link:
        enable_beside_workers(config)
    try:
        measuring_session = Session(config, configurations, plan_files, link)
    except UserError as error:
        if link is None:
            raise pytest.UsageError(str(error)) from None
        link.unusable(error)
        session.items.clear()
        return
    config.stash[_SESSION] = measuring_session
    config.pluginmanager.register(GateReporter(lambda: measuring_session.verdict))


def _items_with(session: pytest.Session, fixture: str) -> list[pytest.Item]:
    return [item for item in session.items if fixture in getattr(item, "fixturenames", ())]


def _configuration(item: pytest.Item) -> NamedConfiguration:
    """Return the runtime and the subject of a test of bench/, by name."""
    values = item.callspec.params  # type: ignore[attr-defined]
    name = next(values[key] for key in ("scenario", "option", "plan") if key in values)
    return values["runtime"], name


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Show what --quick leaves out, and the session's remarks, before anything is measured."""
    lines = []
    if _IS_FIRST_LOOK in config.stash:
        lines.append(_FIRST_LOOK_ALONE)
    if _SESSION in config.stash:
        lines += [*config.stash[_SESSION].remarks, ""]
    return lines


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> Any:
    """Leave out the dot of a test whose result has a line, or is equal to another's."""
    if _SESSION not in config.stash or report.when != "call":
        return None
    if config.stash[_SESSION].take_dot(report.nodeid):
        return report.outcome, "", ""
    return None


@pytest.fixture
def reusebench_board(request: pytest.FixtureRequest) -> str:
    """Return the name of the board in names of tests, if there are several boards."""
    return str(request.param)


@pytest.fixture
def replay_clock(request: pytest.FixtureRequest) -> ReplayClock:
    """Return pytest-benchmark's timer, which replays latencies of the measured process.

    It has to be set up before `benchmark`, which reads the mark.
    """
    clock = ReplayClock()
    group = request.path.stem.replace("test_", "")
    request.node.add_marker(pytest.mark.benchmark(timer=clock, group=group))
    return clock


@pytest.fixture
def measure(request: pytest.FixtureRequest, replay_clock: ReplayClock, benchmark: Any) -> Measure:
    """Return measure(scenario, runtime=..., model=...): one configuration, stored and returned."""
    properties = request.node.user_properties
    session = request.config.stash[_SESSION]
    assert isinstance(session, Session)  # of one board
    return Measure(session, benchmark, replay_clock, properties)


# pytest-benchmark's own hook comes first if this plug-in is loaded earlier, as `reusebench bench`
# and `-p` do.
@pytest.hookimpl(tryfirst=True)
def pytest_benchmark_generate_machine_info() -> dict[str, Any]:
    """Keep pytest-benchmark from importing the user's modules while it looks up the processor."""
    return this_machine()


def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Add the facts about the measured machine that bear on memory."""
    describe_machine(target_of(config.option), machine_info)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Store the results without latencies, too."""
    if _SESSION in config.stash:
        config.stash[_SESSION].add_without_speed(output_json)


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt() -> None:
    """Ignore more signals, so that finished results are stored."""
    ignore_signals()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """Store results that pytest-benchmark would not, and fail a session that did not measure.

    pytest-benchmark saves in a wrapper of this hook, too.
    """
    stash = session.config.stash
    link = stash[_LINK]
    if _SESSION in stash:
        ignore_signals()
        stash[_SESSION].finish(exitstatus in _ENDED_EARLY)
    elif link:
        link.end("", "")
    yield
    if _SESSION not in stash:
        return
    measuring = stash[_SESSION]
    output = stash[_OUTPUT]
    is_failed = measuring.is_failed or bool(output.error)
    if is_failed and session.exitstatus in _NOTHING_FAILED:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if output.error:
        output.tell(measuring.storage)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the verdict, and the command that shows the results."""
    if _SESSION not in config.stash:
        return
    session = config.stash[_SESSION]
    storage = session.storage
    if session.verdict:
        terminalreporter.section("against the baseline")
        terminalreporter.write_line(session.verdict.text)
        terminalreporter.write_line(session.verdict.annotations)
    terminalreporter.section("reusebench")
    if session.equal:
        terminalreporter.write_line(session.equal)
    if session.problem:
        terminalreporter.write_line(session.problem, red=True)
    option = "" if storage == board_storage() else f" --storage {storage}"
    terminalreporter.write_line(
        f"Results are in {storage}. The comparison of memory: reusebench report{option}"
    )
