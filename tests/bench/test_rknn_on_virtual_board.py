"""Rockchip's own libraries on the virtual board, from the plan to the account: real allocations,
exact to the byte.

They run if the libraries are in reusebench/rknn in the user's cache (any file name), if the virtual
board is installed for them (`reusebench board install`), and if the tiny models are in the cache or
can be built.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pytest

from reusebench.accounting.account import Account, account_of_ledger, account_of_runtime
from reusebench.accounting.ledger import Ledger, read_ledger
from reusebench.accounting.sharing import WRONG_READS
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import Model, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.models import ModelError, Recipe, ensure_all
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.system.cache import CacheError, cache_root
from reusebench.targets.barriers import BarrierReading
from reusebench.targets.chips import CHIPS, MINI_RUNTIME
from reusebench.targets.machine import Machine
from reusebench.targets.measured_process import MeasuredRun
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.rknn_library import RknnLibrary, find_libraries
from reusebench.targets.sandbox import SandboxedMachine
from reusebench.targets.target import THIS_INTERPRETER, Target
from reusebench.targets.vboard.catalogue import rknn_board
from tests.bench.bench_process import Bench, repeated
from tests.helpers.support import Reusebench, known, walk

pytestmark = pytest.mark.process

#: The user's own cache, read before any test has a cache of its own.
_CACHE = cache_root()
_PAGE = 4096
_SCENARIOS = ("full_dup", "in_turn", "internal_reuse", "shared_weights", "external_memory")
#: Before this version, librknnrt takes only models of its time, does not know the flag for internal
#: memory from outside, and keeps weights in buffers of their own.
_NEWER = "1.5"
#: The first version of librknnrt with rknn_create_mem2.
_WITH_CREATE_MEM2 = "2.1"
#: The library's debug level at which it logs each buffer that it allocates.
_LOGGING = {"RKNN_LOG_LEVEL": "4"}
_LOGGED_BUFFER = re.compile(r"allocated? memory.*?[, ]size ?[:=] ?(\d+), aligned size ?[:=] ?(\d+)")
_LOGGED_COMMANDS = re.compile(r"regcmdbuffer size: (\d+)")


#: One chip that each library knows, and some that only newer ones know.
_CHIPS = ("rk3588", "rv1106")
_LATER_CHIPS = ("rk3576", "rv1126b")


def _on_chips(chips: Sequence[str]) -> list[Any]:
    """Return every library on those of the chips that it is for; older versions are slow variants
    of the newest.
    """
    folder = _CACHE / "rknn"
    libraries = find_libraries([folder]) if folder.is_dir() else []
    newest = {library.kind: library.version for library in libraries}  # the last of a kind stays
    pairs = []
    for library in libraries:
        name = f"{library.kind}-{library.version}-{library.architecture}"
        marks = [] if library.version == newest[library.kind] else [pytest.mark.slow]
        for chip in chips:
            if chip in library.chips():
                id_ = name if chips is _CHIPS else f"{name}-{chip}"
                pairs.append(pytest.param((library, chip), id=id_, marks=marks))
    reason = f"no library for {', '.join(chips)} in {folder}: put Rockchip's there, under any name"
    return pairs or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]


@dataclass(frozen=True)
class Board:
    """A library on a chip that it is for, with two models for it."""

    library: RknnLibrary
    target: Target
    models: tuple[Model, ...]

    @property
    def is_mini(self) -> bool:
        """Whether the library is the mini runtime."""
        return self.library.kind == MINI_RUNTIME

    @property
    def is_old(self) -> bool:
        """Whether the library is a librknnrt of before _NEWER."""
        return not self.is_mini and self.library.version < _NEWER


@dataclass(frozen=True)
class Walked:
    """A walk on a board, and its ledger."""

    plan: Plan
    run: MeasuredRun
    ledger: Ledger
    #: Events of the ledger's file.
    events: tuple[dict[str, Any], ...]
    #: Output of the library at its debug level.
    log: str

    @cached_property
    def account(self) -> Account:
        """Return the account of a walk without failure."""
        assert self.run.failure is None, self.run.failure
        account = account_of_ledger(self.plan, self.run.barriers, self.ledger)
        assert account is not None
        return account

    def barrier(self, phase: str, context: int | None = None) -> BarrierReading:
        """Return one barrier."""
        return next(
            row for row in self.run.barriers if (row.phase, row.context) == (phase, context)
        )

    def component(self, name: str) -> list[int]:
        """Return one component of all contexts."""
        return [context.size_bytes(name) or 0 for context in self.account.contexts]

    def shared(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return the owner and the readers of all shared memory."""
        return [(shared.owner, shared.readers) for shared in self.account.shared]


_LIBRARIES = _on_chips(_CHIPS)


@pytest.fixture(scope="module", params=_LIBRARIES)
def board(request: pytest.FixtureRequest) -> Board:
    """Return one library after the other, on the virtual board."""
    library: RknnLibrary
    chip: str
    library, chip = request.param
    missing = rknn_board(library).missing_parts()
    if missing:
        pytest.skip(
            f"the virtual board is not ready for {library.path}: {', '.join(missing)} missing"
        )
    target = parse_target(Selection(f"vboard:{chip}", library.path), find_runtime("rknn"))
    try:
        return Board(library, target, _models(library, chip))
    except (CacheError, ModelError) as error:
        pytest.skip(str(error))


def _models(library: RknnLibrary, chip: str) -> tuple[Model, ...]:
    if Board(library, THIS_INTERPRETER, ()).is_old:
        older = sorted((_CACHE / "rknn").glob(f"*{chip}*.rknn"))
        if not older:
            pytest.skip(
                f"librknnrt {library.version} takes models of its time, and none for {chip} is"
                " beside it"
            )
        return (_model(older[0]),) * 2
    first, second = (
        _model(path)
        for path in ensure_all(".rknn", [Recipe("tiny", 64, 1), Recipe("tiny", 96, 1)], chip)
    )
    if library.kind != MINI_RUNTIME:
        (weightless,) = ensure_all(".rknn", [Recipe("tiny", 96, 1)], chip, weightless=True)
        second = replace(second, weightless=str(weightless))
    return first, second


def _model(path: Path) -> Model:
    return Model(path.stem, str(path), path.stem)


@pytest.fixture(scope="module")
def walked(board: Board) -> Callable[[str], Walked]:
    """Return a function that walks a scenario with two contexts once."""
    return lru_cache(maxsize=None)(lambda scenario: _walk(board, scenario))


def _walk(board: Board, scenario: str, contexts: int = 2, rounds: int = 2) -> Walked:
    chip = CHIPS[board.target.chip or ""]
    plan, *_ = find_scenario(scenario).plans(
        Parameters("rknn", board.models, 1, contexts, chip.npu_cores, rounds)
    )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        environment = {**board.target.environment, **_LOGGING, "LOG": str(log)}
        # Opened for reading, too: the adapter looks there for the library's errors.
        command = ("sh", "-c", 'exec "$@" 2<>"$LOG"', "sh", *board.target.command)
        target = replace(board.target, command=command, environment=environment)
        run = walk(plan, replace(target, machine=_writing(target.machine, folder)))
        ledger = known(run.ledger)
        events = [json.loads(line) for line in ledger.splitlines()]
        return Walked(
            plan,
            run,
            read_ledger(ledger),
            tuple(events),
            log.read_text(encoding="utf-8", errors="replace"),
        )


def _writing(machine: Machine, folder: str) -> Machine:
    """Return the machine with a folder that the driver writes to."""
    if not isinstance(machine, SandboxedMachine):
        return machine
    reach = machine.reach
    return replace(machine, reach=replace(reach, writable=(*reach.writable, folder)))


def _whole_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _runs(walked: Callable[[str], Walked], board: Board) -> list[Walked]:
    """Return the walks of all scenarios that the library has the mechanism for."""
    return [walked(name) for name in _SCENARIOS if not (board.is_mini and name == "full_dup")]


def test_the_ledger_is_what_was_allocated(board: Board, walked: Callable[[str], Walked]) -> None:
    """The ledger equals the library's log to the byte, in whole pages; the account covers all of
    it, and all is freed.
    """
    for run in _runs(walked, board):
        logged = [(int(size), int(aligned)) for size, aligned in _LOGGED_BUFFER.findall(run.log)]
        created = [
            (event["asked_bytes"], event["bytes"])
            for event in run.events
            if event["event"] == "create"
        ]
        assert created == logged, run.plan.scenario
        live: dict[int, int] = {}
        for event in run.events:
            if event["at_ns"] <= run.barrier("steady").at_ns:
                if event["event"] == "create":
                    live[event["buffer"]] = _whole_pages(event["asked_bytes"])
                if event["event"] == "destroy":
                    del live[event["buffer"]]
        account = run.account
        sizes: list[int] = []
        for context in account.contexts:
            sizes += [context.size_bytes(name) or 0 for name in COMPONENTS]
        assert account.total_bytes == sum(live.values()) == sum(sizes) > 0, run.plan.scenario
        assert min(sizes) >= 0
        assert account.unattributed_bytes == 0
        assert account.left_bytes == 0
        assert [finding for finding in account.findings if finding.kind in WRONG_READS] == []
        assert run.ledger.submits, "no job was seen, so nothing was verified"


def test_register_commands_are_those_that_the_library_logs(
    board: Board, walked: Callable[[str], Walked]
) -> None:
    """Each context has the size that the library logs as `regcmdbuffer size`, to the byte."""
    if board.is_mini:
        pytest.skip("librknnmrt does not log it")
    if board.is_old:
        pytest.skip(f"librknnrt {board.library.version} has weights in buffers of their own")
    for run in _runs(walked, board):
        logged = [int(size) for size in _LOGGED_COMMANDS.findall(run.log)]
        assert run.component("register_commands") == logged, run.plan.scenario


def test_the_library_and_the_ledger_agree(board: Board, walked: Callable[[str], Walked]) -> None:
    """The library's report for its first context equals the ledger at that time, to the byte."""
    run = walked("in_turn")
    made = run.barrier("context", 0)
    # The mini runtime leaves the task list out of its total.
    task_list = run.component("task_list")[0] if board.is_mini else 0
    assert made.data.account["dma_bytes"] + task_list == run.ledger.live_bytes(made.at_ns)
    reported = made.data.account["weights_bytes"]
    counted = run.component("weights")[0]
    assert counted > reported if board.is_old else counted == reported


def test_the_librarys_own_account_adds_up(board: Board, walked: Callable[[str], Walked]) -> None:
    """Without a ledger the account lacks some task lists, of a page each, and the padding of pages;
    no more.
    """
    if board.is_old:
        pytest.skip(f"librknnrt {board.library.version} counts otherwise")
    for run in _runs(walked, board):
        reported = account_of_runtime(run.plan, run.run.barriers)
        assert reported is not None
        firsts = [
            reading.data for reading in run.run.barriers if reading.phase == "first_inference"
        ]
        pages = len(run.plan.contexts) + sum(len(data.allocations) for data in firsts)
        assert 0 <= run.account.total_bytes - reported.total_bytes <= _PAGE * pages, (
            run.plan.scenario
        )


def test_weights_of_dups_count_once(board: Board, walked: Callable[[str], Walked]) -> None:
    """The dup reports the weights again, and reads its source's; everything else is its own."""
    run = walked("full_dup")
    if board.is_mini:
        failure = run.run.failure
        assert failure is not None
        assert (failure.kind, failure.phase, failure.context) == ("not_supported", "context", 1)
        assert str(failure.message).startswith(
            "rknn_dup_context returned -1 (RKNN_ERR_FAIL): E RKNN"
        )
        assert "not supported in mini runtime" in str(failure.message)
        return
    reported = [run.barrier("context", index).data.account["weights_bytes"] for index in (0, 1)]
    assert reported[0] == reported[1] > 0
    weights = run.component("weights")
    assert weights[1] == 0
    assert weights[0] >= reported[0]
    assert set(run.shared()) == {(0, (1,))}
    for component in ("internal", "register_commands", "task_list"):
        own = run.component(component)
        assert own[1] > 0
        assert abs(own[0] - own[1]) < _PAGE, component
    assert "not_shared" not in [finding.kind for finding in run.account.findings]


def test_internal_reuse_saves_the_smaller(board: Board, walked: Callable[[str], Walked]) -> None:
    """Two models that run in turn need only the larger internal memory; both were seen to use the
    same buffer.
    """
    if board.is_old:
        pytest.skip(
            f"librknnrt {board.library.version} keeps its own internal memory beside one from"
            " outside"
        )
    apart = walked("in_turn")
    together = walked("internal_reuse")
    sizes = apart.component("internal")
    assert together.component("internal") == [_whole_pages(max(sizes)), 0]
    assert together.shared() == [(0, (1,))]
    # The mini runtime keeps weights apart then, which pads more pages.
    pages = 2 * 2 * _PAGE if board.is_mini else 0
    assert (
        min(sizes) - pages <= apart.account.total_bytes - together.account.total_bytes <= min(sizes)
    )


def test_a_slave_reads_its_masters_weights(board: Board, walked: Callable[[str], Walked]) -> None:
    """Shared weights are seen if the library knows them; an ignored flag is a finding."""
    run = walked("shared_weights")
    findings = [(finding.kind, finding.context, finding.owner) for finding in run.account.findings]
    if board.is_mini:
        assert findings == [("not_shared", 1, 0)]
        return
    assert findings == []
    assert (0, (1,)) in run.shared()
    assert run.component("weights")[1] < run.component("weights")[0]


def test_memory_from_outside_has_its_kind(walked: Callable[[str], Walked]) -> None:
    """The adapter's memory is in the component of its kind, with its requested bytes, in whole
    pages.
    """
    run = walked("external_memory")
    sizes = dict.fromkeys(("weights", "internal", "input", "output"), 0)
    for allocation in run.barrier("first_inference", 0).data.allocations:
        sizes[allocation.kind] += _whole_pages(allocation.asked_bytes)
    assert all(sizes.values())
    first = run.account.contexts[0]
    assert (first.weights_bytes, first.internal_bytes) == (sizes["weights"], sizes["internal"])
    assert first.io_bytes == sizes["input"] + sizes["output"]


def test_bound_tensors_are_the_only_ones(board: Board, walked: Callable[[str], Walked]) -> None:
    """With input and output in place the library allocates none itself: all comes with the first
    inferences.
    """
    run = walked("external_memory")
    kinds = [allocation.kind for allocation in run.barrier("first_inference", 1).data.allocations]
    bound = [kind for kind in kinds if kind in ("input", "output")]
    assert set(bound) == {"input", "output"}
    begin_ns = run.barrier("context", 1).at_ns
    end_ns = run.barrier("first_inference", 1).at_ns
    made = [buffer for buffer in run.ledger.buffers.values() if begin_ns < buffer.born_ns <= end_ns]
    assert len(made) == 2 * len(bound) or board.is_old


def test_one_weight_memory_serves_several_contexts(
    board: Board, walked: Callable[[str], Walked]
) -> None:
    """Without dup, and so on the mini runtime, too: the second reads the first one's weights, and
    allocates the rest.
    """
    if board.is_old:
        pytest.skip(f"librknnrt {board.library.version} keeps weights in buffers of their own")
    run = walked("weight_memory")
    weights = run.component("weights")
    assert weights[0] > weights[1] == 0
    assert (0, (1,)) in run.shared()
    assert run.account.findings == ()
    for component in ("internal", "register_commands", "task_list"):
        assert run.component(component)[1] > 0, component


def test_a_model_in_place_is_in_memory_once(board: Board, walked: Callable[[str], Walked]) -> None:
    """Each context's weights and register commands are in a buffer as large as the file, which is
    freed, too.
    """
    run = walked("model_in_place")
    if board.is_mini or board.library.version < _WITH_CREATE_MEM2:
        failure = run.run.failure
        assert failure is not None
        assert (failure.kind, failure.phase) == ("not_supported", "context")
        return
    size = Path(board.models[0].path).stat().st_size
    assert [buffer.asked_bytes for buffer in run.ledger.buffers.values()].count(size) == 2
    assert min(run.component("weights")) > 0
    assert run.account.findings == ()
    assert run.account.left_bytes == 0


def test_native_outputs_are_written_by_the_npu(board: Board) -> None:
    """The register commands name an output in the NPU's order; librknnrt fills a plain one from its
    own buffer.
    """
    if board.is_old:
        pytest.skip(f"librknnrt {board.library.version} takes models of its time")
    (frame,) = ensure_all(".rknn", [Recipe("frame", 1080, 1)], board.target.chip)
    of_frames = replace(board, models=(_model(frame),))
    read = []
    for scenario in ("native_io_1080p", "zero_copy_io_1080p"):
        buffers = _walk(of_frames, scenario, contexts=1, rounds=1).account.application_buffers or ()
        read += [of_kind.read for of_kind in buffers if of_kind.kind == "output"]
    assert read == ([1, 1] if board.is_mini else [1, 0])


def test_contexts_of_a_core_share_tensors(board: Board, walked: Callable[[str], Walked]) -> None:
    """In the smallest plan input and output exist once for each core; every context reads those of
    its core.
    """
    if board.is_mini or board.is_old:
        pytest.skip(f"{board.library.kind} {board.library.version} has no dup that runs")
    run = walked("lean")
    cores = [context.core for context in run.plan.contexts]
    assert len(set(cores)) == sum(size > 0 for size in run.component("io"))
    assert run.account.findings == ()


@pytest.mark.parametrize("board", _on_chips(_LATER_CHIPS), indirect=True)
def test_chips_with_other_registers(walked: Callable[[str], Walked]) -> None:
    """Sharing is seen there as well, no unknown address is read, and the ledger equals the
    allocations.
    """
    for scenario in ("full_dup", "internal_reuse", "shared_weights"):
        run = walked(scenario)
        logged = [(int(size), int(aligned)) for size, aligned in _LOGGED_BUFFER.findall(run.log)]
        assert [
            (event["asked_bytes"], event["bytes"])
            for event in run.events
            if event["event"] == "create"
        ] == logged
        assert run.account.findings == ()
        assert (0, (1,)) in run.shared()


@pytest.mark.parametrize("board", _LIBRARIES[-1:], indirect=True)
def test_a_whole_bench_on_the_virtual_board(
    bench: Bench, board: Board, reusebench: Reusebench
) -> None:
    """Options alone give a result with target, chip, versions and the ledger's account, without
    speed.

    In the exported timeline the live buffers at the end of the steady phase add up to the stored
    figure.
    """
    models = repeated("--model", [model.path for model in board.models])
    options = ["--target", board.target.name, "--rknn-library", board.library.path, *models]
    done = bench.run(*options, "-k", "in_turn", cache=_CACHE.parent)
    assert done.code == 0, done.words
    (info,) = done.results().values()
    assert (info.outcome, info.runtime, info.computes) == ("ok", "rknn", False)
    assert (info.target, info.chip) == (board.target.name, board.target.chip)
    assert (info.runtime_version or "").startswith(board.library.version)
    assert info.driver_version
    assert info.repeats[0].npu is not None
    assert info.repeats[0].npu.source == "ledger"
    assert info.memory.npu_left_bytes == (0,)
    exported = reusebench("export", "--storage", bench.storage, "--format", "trace")
    assert (exported.exit_code, exported.err) == (0, "")
    events = json.loads(exported.out)["traceEvents"]
    (steady,) = (event for event in events if event["name"] == "steady")
    end_us = steady["ts"] + steady["dur"]
    buffers = [event for event in events if event.get("cat") == "NPU buffer"]
    ends_us = {event["id2"]["local"]: event["ts"] for event in buffers if event["ph"] == "e"}
    live = []
    for event in buffers:
        if event["ph"] == "b" and event["ts"] <= end_us < ends_us[event["id2"]["local"]]:
            live.append(event)
    counted = [event for event in events if event["name"] == "NPU memory" and event["ts"] <= end_us]
    assert sum(event["args"]["size_bytes"] for event in live) == info.memory.npu_memory_bytes[0]
    assert counted[-1]["args"] == {"bytes": info.memory.npu_memory_bytes[0]}
    components: set[str] = set()
    for event in live:
        components.update(event["name"].split(" + "))
    assert {"internal", "io"} <= components


@pytest.mark.slow
@pytest.mark.parametrize("board", _LIBRARIES[-1:], indirect=True)
def test_a_pipeline_on_the_virtual_board(bench: Bench, board: Board) -> None:
    """A detector and then a recogniser share internal memory without a core: the ledger sees both
    use it.
    """
    (bench.folder / "pipeline.json").write_text(
        json.dumps(
            {
                "models": {"detector": board.models[0].path, "recogniser": board.models[1].path},
                "contexts": {
                    "detect": {"model": "detector", "internal": "one"},
                    "recognise": {"model": "recogniser", "internal": "one", "after": "detect"},
                },
            }
        )
    )
    options = ["--target", board.target.name, "--rknn-library", board.library.path]
    done = bench.run(*options, "--plan", bench.folder / "pipeline.json", cache=_CACHE.parent)
    assert done.code == 0, done.words
    results = done.results()
    assert done.outcomes() == {"pipeline.no_reuse": "ok", "pipeline": "ok"}
    npu = results["pipeline"].repeats[0].npu
    assert npu is not None
    assert [(shared.owner, shared.readers) for shared in npu.shared] == [(0, (1,))]
    whole, own = (
        results[name].memory.npu_memory_bytes[0] for name in ("pipeline.no_reuse", "pipeline")
    )
    assert 0 < (own or 0) < (whole or 0)
