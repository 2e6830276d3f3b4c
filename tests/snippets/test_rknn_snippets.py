"""The programs in C: they compile without a warning, and make the calls that the harness makes of
the same plan.

They run on a double of Rockchip's library (tests/measured/runtimes/rknn_double.c), and on
Rockchip's own if the virtual board is installed: then the ledgers of NPU buffers must be equal.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reusebench.accounting.ledger import Ledger, read_ledger
from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Cycles,
    Model,
    Plan,
)
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.rknn import abi
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.models import ModelError, Recipe, ensure_all
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.snippets import snippet_of
from reusebench.system.cache import CacheError, cache_root
from reusebench.targets.chips import CHIPS
from reusebench.targets.compilers import Compiler
from reusebench.targets.errors import TargetError
from reusebench.targets.process import LEDGER_VARIABLE
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.rknn_library import RknnLibrary, architecture_of_this_python, read_library
from reusebench.targets.vboard.catalogue import rknn_board, rknn_system
from reusebench.targets.vboard.emulator import is_needed
from tests.helpers.forks import RKNN_FORKS
from tests.helpers.support import PROGRAM_LIMIT_S, known, walk
from tests.snippets.several_models import FREE, PLANS

pytestmark = pytest.mark.process

_HEADERS = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")
_FULL = "librknnrt version: 2.3.2 (double)"
_MINI = "librknnmrt version: 2.3.2 (double)"
#: A model for the double: bytes of weights and of internal memory, and the number of inputs.
_CONTENTS = ("9000 5000 1 ", "7000 12345 2 ", "8000 100 1 tokens")

_SCENARIOS = (
    "no_reuse",
    "partial_dup",
    "full_dup",
    "full_dup_internal_reuse",
    "in_turn",
    "internal_reuse",
    "internal_reuse_last_first",
    "shared_weights",
    "external_internal",
    "external_io",
    "external_memory",
    "weight_memory",
    "model_in_place",
    "zero_copy_input",
    "zero_copy_output",
    "native_io",
    "lean_internal",
    "lean",
)
#: Features that librknnmrt lacks.
_FULL_ONLY = (
    "partial_dup",
    "full_dup",
    "full_dup_internal_reuse",
    "shared_weights",
    "model_in_place",
    "lean_internal",
)

_LOADED = Context(0, 0)
_DUP = Context(0, 0, DUP, 0)
#: Plans of no scenario: contexts of several kinds, chains, names.
_MIXED: dict[str, tuple[tuple[Context, ...], int, tuple[tuple[int, ...], ...]]] = {
    "kinds": (
        (
            Context(0, 0, outside=(WEIGHTS, INTERNAL)),
            Context(0, 1, zero_copy=(INPUT, OUTPUT)),
            Context(0, 0, SHARED_WEIGHT_MEMORY, 0, outside=(INTERNAL,)),
            Context(0, 1, DUP, 1, zero_copy=(NATIVE_OUTPUT,)),
            Context(0, 2, SHARED_WEIGHTS, 1, zero_copy=(INPUT,)),
            Context(0, 2, internal=7),
        ),
        2,
        (),
    ),
    "chains": (
        (
            Context(0, 0, internal=5, name="detect-0"),
            Context(0, 1, internal=5, name="recognise-0"),
            Context(1, 0, DUP, 0, internal=2, name="detect-1"),
            Context(1, 1, DUP, 1, internal=2, name="recognise-1"),
        ),
        2,
        ((1, 0), (2, 3)),
    ),
    "in_place_and_dups": (
        (Context(0, 0, zero_copy=(MODEL,)), _DUP, Context(0, 2, zero_copy=(INPUT,)), _DUP),
        1,
        (),
    ),
    "tensors": (
        tuple(
            Context(0, i % 2, zero_copy=(INPUT, OUTPUT), io=i % 2, internal=0, core=0)
            for i in (0, 1, 1, 0)
        ),
        1,
        (),
    ),
}


# Header


@pytest.fixture(scope="session")
def native(compiler_for: Callable[[str], Compiler]) -> Compiler:
    """Return a compiler for this machine."""
    return compiler_for(architecture_of_this_python() or "")


def test_the_header_is_laid_out_as_the_adapters(native: Compiler, tmp_path: Path) -> None:
    """Sizes, offsets and numbers equal measured/runtimes/rknn/abi.py."""
    structures = {
        "rknn_tensor_attr": abi.TensorAttr,
        "rknn_mem_size": abi.MemSize,
        "rknn_tensor_mem": abi.TensorMem,
        "rknn_input_output_num": abi.InputOutputNumber,
        "rknn_input": abi.RknnInput,
        "rknn_output": abi.RknnOutput,
        "rknn_init_extend": abi.InitExtend,
    }
    names = set(re.findall(r"RKNN_\w+", (_HEADERS / "rknn_api.h").read_text(encoding="utf-8")))
    claims = []
    for name, structure in structures.items():
        claims.append(f"sizeof({name}) == {ctypes.sizeof(structure)}")
        for field, *_ in structure._fields_:
            claims.append(f"offsetof({name}, {field}) == {getattr(structure, field).offset}")
    prefixes = {
        "FLAG": "FLAG",
        "MEM_FLAG": "MEM_FLAG",
        "QUERY": "QUERY",
        "FORMAT": "TENSOR",
        "SYNC": "MEMORY_SYNC",
    }
    for constant, value in vars(abi).items():
        for prefix, words in prefixes.items():
            name = f"RKNN_{words}_{constant[len(prefix) + 1 :]}"
            if constant.startswith(f"{prefix}_") and name in names:
                claims.append(f"(int){name} == {value}")
    types = {f"RKNN_TENSOR_{name.upper()}": number for number, name in enumerate(abi.TYPES)}
    claims += [f"(int){name} == {number}" for name, number in types.items() if name in names]
    assert len(claims) > 70
    source = tmp_path / "claims.c"
    lines = [
        "#include <stddef.h>",
        '#include "rknn_api.h"',
        *(f"_Static_assert({one}, {one!r});" for one in claims),
    ]
    source.write_text("\n".join(lines).replace("'", '"'))
    _compile(native, _HEADERS, "-c", "-o", str(tmp_path / "claims.o"), str(source))


def _compile(compiler: Compiler, headers: Path, *arguments: str) -> None:
    """Compile, with every warning an error."""
    done = subprocess.run(
        [*compiler.command, *_FLAGS, "-I", str(headers), *arguments],
        env={**os.environ, **compiler.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# On the double


@dataclass(frozen=True)
class Double:
    """A compiled double, models for it, and a folder."""

    library: Path
    chip: str
    models: tuple[Model, ...]
    folder: Path
    compiler: Compiler

    def plan(
        self, contexts: Sequence[Context], cores: int = 1, chains: Sequence[tuple[int, ...]] = ()
    ) -> Plan:
        """Return a plan of these contexts."""
        return Plan(
            "mine",
            None,
            "rknn",
            self.models,
            tuple(contexts),
            cores,
            rounds=2,
            chains=tuple(chains),
        )

    def scenario(self, name: str, cores: int) -> Plan:
        """Return a scenario's first plan that the library supports."""
        for plan in find_scenario(name).plans(
            Parameters("rknn", self.models, 2, 2, cores, rounds=2)
        ):
            with contextlib.suppress(NotSupported):
                snippet_of(plan, self.chip)
                return plan
        raise AssertionError(f"no plan of {name}")

    def program(self, plan: Plan) -> Path:
        """Return the program, compiled without a warning."""
        source = self.folder / "program.c"
        source.write_text(snippet_of(plan, self.chip).text)
        program = source.with_suffix("")
        link = [str(self.library), f"-Wl,-rpath,{self.library.parent}", "-lpthread"]
        _compile(self.compiler, _HEADERS, "-o", str(program), str(source), *link)
        return program

    def run(
        self, plan: Plan, *files: str, **environment: str
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """Run the program; return its end and the calls that the double saw."""
        log = self.folder / "calls"
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [self.program(plan), *(files or _paths(plan))],
            env={**os.environ, "DOUBLE_LOG": str(log), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_LIMIT_S,
        )
        return done, log.read_text().splitlines() if log.exists() else []

    def harness_calls(self, plan: Plan) -> list[str]:
        """Return the calls that the harness makes of the plan."""
        log = self.folder / "harness-calls"
        log.unlink(missing_ok=True)
        variables = {LIBRARY_VARIABLE: str(self.library), "DOUBLE_LOG": str(log)}
        run = walk(plan, dataclasses.replace(RKNN_FORKS, environment=variables))
        assert run.failure is None, run.failure
        return log.read_text().splitlines()


def _paths(plan: Plan) -> list[str]:
    """Return the files of the command line in the order of its usage: as contexts need them
    first.
    """
    paths = []
    for context in plan.contexts:
        model = plan.models[context.model]
        if context.mechanism != DUP:
            paths.append((context.mechanism == SHARED_WEIGHTS and model.weightless) or model.path)
    return list(dict.fromkeys(paths))


def _double(
    compile_double: Callable[..., Path], version: str, chip: str, folder: Path, compiler: Compiler
) -> Double:
    models = []
    for number, content in enumerate(_CONTENTS):
        path = folder / f"model-{number}.rknn"
        path.write_text(content)
        models.append(Model(path.stem, str(path), str(number)))
    return Double(compile_double(version), chip, tuple(models), folder, compiler)


@pytest.fixture
def full(rknn_double: Callable[..., Path], tmp_path: Path, native: Compiler) -> Double:
    """Return a double of librknnrt."""
    return _double(rknn_double, _FULL, "rk3588", tmp_path, native)


@pytest.fixture
def mini(rknn_double: Callable[..., Path], tmp_path: Path, native: Compiler) -> Double:
    """Return a double of librknnmrt."""
    return _double(rknn_double, _MINI, "rv1106", tmp_path, native)


def _in_order(calls: Sequence[str]) -> list[str]:
    """Return the calls that make and give back, in their order; "left" of a double is what the
    order follows from.
    """
    running = ("rknn_query", "rknn_run", "rknn_inputs_set", "rknn_outputs_get", "rknn_mem_sync")
    return [call for call in calls if not call.startswith(running)]


def _running(calls: Sequence[str]) -> set[str]:
    """Return the distinct calls that run, without the content of inputs."""
    running = ("rknn_run", "rknn_inputs_set", "rknn_outputs_get", "rknn_mem_sync")
    return {re.sub(r" begins=\w+", "", call) for call in calls if call.startswith(running)}


def _assert_same_calls(double: Double, plan: Plan) -> list[str]:
    """Return the calls of the program, after comparing them with the harness's."""
    done, calls = double.run(plan)
    assert done.returncode == 0, done.stderr
    expected = double.harness_calls(plan)
    assert _in_order(calls) == _in_order(expected)
    assert _running(calls) == _running(expected)
    runs = [call for call in calls if call.startswith("rknn_run")]
    assert len(runs) == len(plan.contexts) * (1 + plan.rounds)
    assert calls[-1].endswith("left: 0 contexts, 0 memories")
    return calls


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_calls_are_those_of_the_harness(full: Double, scenario: str, cores: int) -> None:
    """Functions, flags, sizes and their order are the same, and nothing is left allocated."""
    _assert_same_calls(full, full.scenario(scenario, cores))


@pytest.mark.parametrize("scenario", [name for name in _SCENARIOS if name not in _FULL_ONLY])
def test_calls_on_the_mini_runtime(mini: Double, scenario: str) -> None:
    """The mini runtime has weights outside with internal tensors, native tensors, fewer calls."""
    _assert_same_calls(mini, mini.scenario(scenario, 1))


@pytest.mark.parametrize("name", _MIXED)
def test_contexts_of_several_kinds(full: Double, name: str) -> None:
    """Properties that differ between contexts are decided for each."""
    contexts, cores, chains = _MIXED[name]
    _assert_same_calls(full, full.plan(contexts, cores, chains))


@pytest.mark.parametrize("name", [name for name, plan in PLANS.items() if FREE not in plan.files()])
def test_plans_of_several_models(full: Double, name: str) -> None:
    """The harness makes the same calls, and each context made from a file has its model's file."""
    several = PLANS[name]
    plan = several.plan(name, "rknn", dict(zip(several.models, full.models)))
    try:
        snippet_of(plan, full.chip)
    except NotSupported as refused:
        pytest.skip(str(refused))
    calls = _assert_same_calls(full, plan)
    of_files = [context.model for context in plan.contexts if context.mechanism != DUP]
    sizes = [Path(plan.models[model].path).stat().st_size for model in of_files]
    assert len(set(sizes)) == len(set(of_files))
    assert [int(size) for size in re.findall(r"rknn_init size=(\d+)", "\n".join(calls))] == sizes


def test_contexts_that_share_memory_never_run_at_once(full: Double) -> None:
    """They are one thread's, in the order of their chain."""
    contexts, cores, chains = _MIXED["chains"]
    text = snippet_of(full.plan(contexts, cores, chains)).text
    assert re.search(r"turns\[THREADS\]\[3\] = \{\s+\{1, 0, -1\},\s+\{2, 3, -1\},", text)
    assert "0 detect-0, 1 recognise-0, 2 detect-1, 3 recognise-1" in text
    one_core = snippet_of(
        full.plan([dataclasses.replace(_LOADED, internal=0), dataclasses.replace(_DUP, internal=0)])
    )
    assert "pthread" not in one_core.text


def test_a_chain_over_several_cores(full: Double) -> None:
    """Without shared memory it is a thread; with memory that other chains share there is no such
    program.
    """
    contexts = [dataclasses.replace(_LOADED, core=core) for core in (0, 1, 0)]
    _assert_same_calls(full, full.plan(contexts, 2, [(0, 1)]))
    shared = [dataclasses.replace(context, internal=context.core) for context in contexts]
    with pytest.raises(NotSupported, match="chain"):
        snippet_of(full.plan(shared, 2, [(0, 1)]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("rknn_run", "rknn_run(context->handle, NULL): it returned -1"),
        ("rknn_create_mem", "rknn_create_mem: it returned NULL"),
        ("rknn_set_internal_mem", "it returned -1"),
        ("rknn_init", "it returned -1"),
    ],
)
def test_a_call_that_fails_ends_the_program(full: Double, call: str, words: str) -> None:
    """The message has the call and its code; the exit code is 1."""
    done, calls = full.run(full.scenario("internal_reuse", 1), DOUBLE_FAIL=f"{call}=-1")
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert not any(other.startswith("rknn_outputs_get") for other in calls)


def test_mistakes_on_the_command_line(full: Double, tmp_path: Path) -> None:
    """The messages are the usage and the file that cannot be read."""
    plan = full.scenario("full_dup", 1)
    done, calls = full.run(plan, "one", "two")
    assert (done.returncode, calls) == (2, [])
    assert re.fullmatch(r"usage: \S+/program model-0.rknn\n", done.stderr)
    done, _ = full.run(plan, str(tmp_path / "nowhere.rknn"))
    assert done.returncode == 1
    assert done.stderr.endswith("nowhere.rknn: it cannot be read, or is empty\n")


@pytest.mark.parametrize(
    ("context", "chip", "code"),
    [
        (Context(0, 0, SHARED_CONTEXT, 0), None, "rknn_one_thread"),
        (Context(0, 0, device="cuda"), None, "rknn_npu_only"),
        (Context(0, 0, device_io=True), None, "rknn_already_on_device"),
        (Context(0, 0, outside=(WEIGHTS,)), None, "rknn_weights_alone_outside"),
        (
            Context(0, 0, outside=(WEIGHTS, INTERNAL), zero_copy=(MODEL,)),
            None,
            "rknn_weights_twice",
        ),
        (Context(0, 0, outside=(INTERNAL,), zero_copy=(MODEL,)), None, "no_code_of_model_in_place"),
        (Context(0, 0, outside=(INTERNAL,), allocator="mmz"), None, "no_code_of_allocator"),
        (_DUP, "rv1106", "no_code_of_mini_runtime"),
        (Context(0, 0, SHARED_WEIGHTS, 0), "rv1103", "no_code_of_mini_runtime"),
        (Context(0, 0, zero_copy=(MODEL,)), "rv1106", "no_code_of_mini_runtime"),
    ],
)
def test_what_there_is_no_code_for(
    full: Double, context: Context, chip: str | None, code: str
) -> None:
    """Features that the adapter refuses, or that were never tried, are an error message."""
    with pytest.raises(NotSupported) as refused:
        snippet_of(full.plan([_LOADED, context]), chip)
    assert refused.value.message.code == code
    assert "{" not in str(refused.value)


def test_a_dup_without_internal_memory(full: Double) -> None:
    """The library gives no internal memory to a dup of such a source, which would run silently."""
    source = dataclasses.replace(_LOADED, outside=(INTERNAL,))
    with pytest.raises(NotSupported) as refused:
        snippet_of(full.plan([source, _DUP]))
    assert refused.value.message.code == "rknn_dup_without_internal"
    snippet_of(full.plan([source, dataclasses.replace(_DUP, outside=(INTERNAL,))]))


def test_plans_of_the_harness_alone(full: Double) -> None:
    """Cycles, counting, and decoding alone are no application's."""
    plan = full.plan([_LOADED])
    for other, code in (
        (dataclasses.replace(plan, cycles=Cycles("inferences", 3)), "no_code_of_cycles"),
        (dataclasses.replace(plan, fills=True), "no_code_of_limit"),
        (dataclasses.replace(plan, contexts=()), "no_code_without_contexts"),
    ):
        with pytest.raises(NotSupported) as refused:
            snippet_of(other)
        assert refused.value.message.code == code


# On the virtual board

#: The user's libraries, read before a test has its own cache.
_CACHE = cache_root()
#: Older versions of librknnrt read only older models; since the second one there is
#: rknn_create_mem2.
_NEWER = "1.5"
_WITH_CREATE_MEM2 = "2.1"
_BOARD_SCENARIOS = (
    "full_dup",
    "full_dup_internal_reuse",
    "internal_reuse",
    "shared_weights",
    "external_memory",
    "weight_memory",
    "model_in_place",
    "zero_copy_input",
    "native_io",
    "lean",
)


def _libraries() -> list[Any]:
    libraries = []
    for path in sorted((_CACHE / "rknn").glob("*.so*")):
        with contextlib.suppress(TargetError):
            library = read_library(path)
            if library.version >= _NEWER:
                name = f"{library.kind}-{library.version}-{library.architecture}"
                libraries.append(pytest.param(library, id=name))
    reason = f"no library of Rockchip's in {_CACHE / 'rknn'}: put it there, under any name"
    return libraries or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]


@dataclass(frozen=True)
class Board:
    """One of Rockchip's libraries on the virtual board, with models and a compiler."""

    library: RknnLibrary
    chip: str
    models: tuple[Model, ...]
    compiler: Compiler


@pytest.fixture(scope="module", params=_libraries())
def board(request: pytest.FixtureRequest, compiler_for: Callable[[str], Compiler]) -> Board:
    """Return one library after the other."""
    library: RknnLibrary = request.param
    chip = next(name for name in ("rk3588", "rv1106") if name in library.chips())
    missing = rknn_board(library).missing_parts()
    if missing:
        pytest.skip(
            f"the virtual board is not ready for {library.path}: {', '.join(missing)} missing"
        )
    compiler = compiler_for(library.architecture)
    recipes = [Recipe("tiny", 64, 1), Recipe("tiny", 96, 1)]
    try:
        paths = ensure_all(".rknn", recipes, chip)
        slaves = ensure_all(".rknn", recipes[1:], chip, weightless=True) if chip == "rk3588" else []
    except (CacheError, ModelError) as error:
        pytest.skip(str(error))
    models = [Model(path.stem, str(path), path.stem) for path in paths]
    models[1] = dataclasses.replace(models[1], weightless=str(slaves[0]) if slaves else None)
    return Board(library, chip, tuple(models), compiler)


@pytest.mark.parametrize("scenario", _BOARD_SCENARIOS)
def test_the_ledger_is_the_harnesss(board: Board, scenario: str, tmp_path: Path) -> None:
    """Every NPU buffer has the same size and comes and goes in the same order; runs read the same
    buffers.
    """
    is_mini = board.chip == "rv1106"
    if is_mini and scenario in _FULL_ONLY:
        pytest.skip("librknnmrt has not this mechanism")
    if scenario == "model_in_place" and board.library.version < _WITH_CREATE_MEM2:
        pytest.skip(f"librknnrt {board.library.version} has no rknn_create_mem2")
    parameters = Parameters("rknn", board.models, 2, 2, CHIPS[board.chip].npu_cores, rounds=2)
    plan = next(
        plan for plan in find_scenario(scenario).plans(parameters) if _is_written(plan, board.chip)
    )
    expected = _ledger_of_harness(board, plan)
    measured = _ledger_of_program(board, plan, tmp_path)
    assert measured.peak_bytes() == expected.peak_bytes() > 0
    assert _buffers(measured) == _buffers(expected)
    assert _reads(measured) == _reads(expected)
    assert {read.state for submit in measured.submits for read in submit.reads} == {"live"}
    assert [buffer for buffer in measured.buffers.values() if buffer.died_ns is None] == []


def _is_written(plan: Plan, chip: str) -> bool:
    try:
        snippet_of(plan, chip)
    except NotSupported:
        return False
    return True


def _ledger_of_harness(board: Board, plan: Plan) -> Ledger:
    run = walk(
        plan,
        parse_target(Selection(f"vboard:{board.chip}", board.library.path), find_runtime("rknn")),
    )
    assert run.failure is None, run.failure
    return read_ledger(known(run.ledger))


def _ledger_of_program(board: Board, plan: Plan, folder: Path) -> Ledger:
    """Compile the program against the library, run it as the driver, and return its ledger."""
    path = folder / "program.jsonl"
    source = folder / "program.c"
    source.write_text(snippet_of(plan, board.chip).text)
    named = folder / f"{board.library.kind}.so"
    named.symlink_to(board.library.path)
    own = _CACHE / "rknn" / "rknn_api.h"
    headers = own.parent if own.is_file() else _HEADERS
    link = [str(named), "-Wl,--allow-shlib-undefined", "-lpthread"]
    _compile(board.compiler, headers, "-o", str(folder / "program"), str(source), *link)
    on_board = rknn_board(board.library, board.chip).guest()
    done = subprocess.run(
        [
            *_command(on_board.command, board.library.architecture, folder),
            folder / "program",
            *_paths(plan),
        ],
        env={**os.environ, **on_board.environment, LEDGER_VARIABLE: str(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "E RKNN" not in done.stderr
    return read_ledger(path.read_bytes())


def _command(python: tuple[str, ...], architecture: str, libraries: Path) -> list[str]:
    """Return a command that runs programs as the guest's Python, with the library's folder in the
    path.
    """
    emulator = list(python)
    if is_needed(architecture):
        emulator = emulator[: emulator.index(str(rknn_system(architecture).python()))]
    folders = next((word for word in emulator if word.startswith("LD_LIBRARY_PATH=")), "")
    if folders:
        emulator[emulator.index(folders)] = f"{folders}:{libraries}"
    return emulator


def _buffers(ledger: Ledger) -> list[tuple[str, int, int, str]]:
    """Return births and deaths in their order: the number of the buffer, its size and its
    source.
    """
    events = []
    for number, buffer in enumerate(
        sorted(ledger.buffers.values(), key=lambda buffer: buffer.born_ns)
    ):
        events.append((buffer.born_ns, ("made", number, buffer.asked_bytes, buffer.source)))
        if buffer.died_ns is not None:
            events.append((buffer.died_ns, ("gone", number, buffer.asked_bytes, buffer.source)))
    return [event for _, event in sorted(events)]


def _reads(ledger: Ledger) -> set[tuple[Any, ...]]:
    """Return the numbers of the buffers that the NPU reads for each task list."""
    tasks = set()
    for submit in ledger.submits:
        reads = sorted((read.register, read.buffer, read.state) for read in submit.reads)
        tasks.add((submit.task_buffer, submit.registers, tuple(reads)))
    return tasks
