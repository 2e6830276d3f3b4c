"""Every RKNN plan of the catalogue with both drivers on the virtual board.

The tests need Rockchip's libraries in reusebench/rknn in the user's cache, models in
reusebench/models, the virtual board installed for the libraries and the C driver compiled. The C
driver for uClibc also needs reusebench/uclibc-armhf with ld-uClibc.so.0 and libc.so.0.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import Context, Model, Plan
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.system.cache import cache_root
from reusebench.system.package import START
from reusebench.targets.chips import MINI_RUNTIME
from reusebench.targets.errors import TargetError
from reusebench.targets.measured_process import MeasuredRun, interface_of
from reusebench.targets.programs import DRIVER, UCLIBC, uclibc_preload
from reusebench.targets.rknn_library import RknnLibrary, read_library
from reusebench.targets.target import Target
from reusebench.targets.vboard.catalogue import rknn_board
from reusebench.targets.vboard.emulator import find_emulator
from reusebench.targets.vboard.loading import Guest
from tests.helpers.support import TIME_LIMIT_S, walk
from tests.targets.native.drift import (
    SCHEDULE,
    STAND_INS,
    distinct_plans,
    events,
    in_c,
    plans_of,
    told,
    with_models,
    with_something_new,
    without_leaving,
)

pytestmark = pytest.mark.process

# Read when the tests are collected, before any test has a cache of its own.
_CACHE = cache_root()
#: The folder that tests/helpers/board.py expects.
_UCLIBC = _CACHE / "uclibc-armhf"
#: Earlier versions of librknnrt only take models of their time.
_OLDEST = "1.5"
#: Limit for plans that add contexts until one fails: some contexts fit, but not all.
_MEMORY_BYTES = 700_000


def _libraries() -> list[RknnLibrary]:
    libraries = []
    for path in sorted((_CACHE / "rknn").glob("*.so*")):
        with suppress(TargetError):
            libraries.append(read_library(path))
    return [library for library in libraries if library.version >= _OLDEST]


def _boards(libraries: Sequence[RknnLibrary]) -> Iterator[Any]:
    """Yield each library with each form of the driver; None if there are no libraries."""
    for library in libraries:
        for form in (library.architecture, *([UCLIBC] if library.kind == MINI_RUNTIME else [])):
            yield pytest.param((library, form), id=f"{library.kind}-{library.version}-{form}")
    if not libraries:
        yield None


def _boards_with_plans(libraries: Sequence[RknnLibrary]) -> Iterator[Any]:
    """Yield each board with each plan; older versions of a library only with plans that have
    something new.
    """
    forms = (plans_of(scenario.name, STAND_INS, cores=1) for scenario in SCENARIOS)
    plans = distinct_plans(plan for plans in forms for plan in plans[:1])
    new = with_something_new(plans)
    for library in libraries:
        versions = [other.version for other in libraries if other.kind == library.kind]
        for board in _boards([library]):
            for name, plan in (plans if library.version == max(versions) else new).items():
                yield pytest.param(*board.values, plan, id=f"{board.id}-{name}")


_LIBRARIES = _libraries()


#: Runs of the Python driver by library and plan; the C driver for uClibc is compared with them,
#: too.
_PYTHON_RUNS: dict[Any, MeasuredRun] = {}


class Board:
    """Both drivers with one library, on one of its chips; the C driver in one of its forms."""

    def __init__(self, library: RknnLibrary, form: str, folder: Path) -> None:
        missing = [
            *rknn_board(library).missing_parts(),
            *([] if DRIVER.is_built(form) else [f"the driver in C for {form}"]),
        ]
        if missing:
            pytest.skip(f"the virtual board lacks {', '.join(missing)} for {library.path.name}")
        if form == UCLIBC and not (_UCLIBC / "ld-uClibc.so.0").exists():
            pytest.skip(f"no uClibc in {_UCLIBC}")
        self._library = library
        self._form = form
        self._folder = folder
        self._chip = "rv1106" if library.kind == MINI_RUNTIME else "rk3588"
        paths = [self._model(f"tiny-{size}-*-{self._chip}-toolkit*.rknn") for size in (64, 96, 128)]
        self.models = tuple(
            Model(path.stem, str(path), str(number))
            for number, path in enumerate(filter(None, paths))
        )
        if not self.models:
            pytest.skip(
                f"no model for {self._chip} in {_CACHE / 'models'}"
                f" (tiny-64-*-{self._chip}-toolkit*.rknn)"
            )

    @staticmethod
    def _model(pattern: str) -> Path | None:
        return next(iter(sorted((_CACHE / "models").glob(pattern))), None)

    def model_of_another_chip(self) -> Path | None:
        """Return a model that the library must refuse."""
        other = "rk3588" if self._chip == "rv1106" else "rv1106"
        return self._model(f"tiny-64-*-{other}-toolkit*.rknn")

    def targets(
        self, npu_memory_bytes: int | None = None, **environment: str
    ) -> tuple[Target, Target]:
        """Return the targets of the Python driver and of the C driver."""
        board = rknn_board(self._library, self._chip)
        python = board.guest(npu_memory_bytes)
        native = board.guest_program(DRIVER.path(self._form), npu_memory_bytes)
        if self._form == UCLIBC:
            native = self._on_uclibc(native)
        variables = {**python.environment, **environment}
        command = (*python.command, str(START))
        target = Target(
            "vboard", command, environment=variables, chip=self._chip, keeps_ledger=True
        )
        return target, replace(
            in_c(target, *native.command), environment={**native.environment, **environment}
        )

    def _on_uclibc(self, native: Guest) -> Guest:
        """Return the program in a root file system that only has uClibc.

        The loader of uClibc does not read the same variables.
        """
        system = self._folder / "lib"
        if not system.exists():
            system.symlink_to(_UCLIBC)
        command = (
            str(find_emulator("armhf")),
            "-L",
            str(self._folder),
            "-E",
            f"LD_PRELOAD={uclibc_preload()}",
        )
        return replace(native, command=(*command, str(DRIVER.path(UCLIBC))))

    def walk(
        self, plan: Plan, npu_memory_bytes: int | None = None, **environment: str
    ) -> MeasuredRun:
        """Walk the plan with both drivers, and return the run of the Python driver.

        Both must report and do the same.
        """
        of_python, of_native = self.targets(npu_memory_bytes, **environment)
        key = (self._library, plan, npu_memory_bytes, *environment.items())
        if key not in _PYTHON_RUNS:
            _PYTHON_RUNS[key] = walk(plan, of_python)
        python = _PYTHON_RUNS[key]
        native = walk(plan, of_native)
        assert told(native) == told(python)
        ours, theirs = (events(run.ledger) for run in (native, python))
        assert theirs
        if python.failure:
            assert without_leaving(ours) == without_leaving(theirs)
        elif plan.schedule is None:
            assert ours == theirs
        else:  # time decides which context takes a frame first
            assert sorted(map(str, ours)) == sorted(map(str, theirs))
        return python


@pytest.fixture(scope="module", params=[*_boards(_LIBRARIES)])
def board(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Board:
    """Return each library on its board with each form of the driver."""
    if request.param is None:
        pytest.skip(f"no library of Rockchip's in {_CACHE / 'rknn'}")
    library, form = request.param
    return Board(library, form, tmp_path_factory.mktemp("board"))


@pytest.mark.parametrize(
    ("board", "plan"), [*_boards_with_plans(_LIBRARIES)], indirect=["board"], scope="module"
)
def test_every_plan_of_the_catalogue(board: Board, plan: Plan) -> None:
    """All ledger events, digests, accounts, allocations, copies and failures are the same."""
    if len(board.models) < len(plan.models):
        pytest.skip(f"{len(plan.models)} models are needed, and there are {len(board.models)}")
    board.walk(with_models(plan, board.models), _MEMORY_BYTES if plan.fills else None)


def _plan(path: Path) -> Plan:
    return Plan(
        "mine", None, "rknn", (Model("model", str(path), "0"),), (Context(0, 0),), 1, rounds=1
    )


def test_a_model_that_is_cut_short(board: Board, tmp_path: Path) -> None:
    """Both drivers report the same error, or crash alike."""
    path = tmp_path / "half.rknn"
    content = Path(board.models[0].path).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert board.walk(_plan(path)).failure


def test_a_model_of_another_chip(board: Board, tmp_path: Path) -> None:
    """The cause is in the message."""
    path = board.model_of_another_chip()
    if path is None:
        pytest.skip(f"no model of another chip in {_CACHE / 'models'}")
    failure = board.walk(_plan(Path(shutil.copy(path, tmp_path)))).failure
    assert failure


@pytest.mark.parametrize(
    "faults", ["no-device", "no-permission", "driver=0.1.0", "submit-error=ETIMEDOUT@2"]
)
def test_faults_of_the_board(board: Board, faults: str) -> None:
    """The reason why the NPU cannot be used is the same: the C driver sees the same nodes."""
    assert board.walk(_plan(Path(board.models[0].path)), REUSEBENCH_FAULTS=faults).failure


def test_streams_that_fail(board: Board) -> None:
    """A job that fails while streams run ends all streams; the failure is in the steady phase."""
    submits = 40
    contexts = (Context(None, 0), Context(None, 0))
    schedule = replace(SCHEDULE, fps=0.0, duration_s=30.0)
    plan = replace(_plan(Path(board.models[0].path)), contexts=contexts, cores=2, schedule=schedule)
    failures = []
    for target in board.targets(REUSEBENCH_FAULTS=f"submit-error=ETIMEDOUT@{submits}"):
        failure = walk(plan, target).failure
        assert failure
        assert isinstance(failure.message, Message)
        # It is a race whose job is the 40th, and which of two streams reads the library's complaint
        # first.
        failures.append(
            (failure.kind, failure.phase, failure.message.code, failure.message.values["cause"])
        )
    assert failures[1] == failures[0]
    assert failures[0][1] == "steady"


def test_too_little_npu_memory(board: Board) -> None:
    """The first context does not fit."""
    failure = board.walk(_plan(Path(board.models[0].path)), npu_memory_bytes=8192).failure
    assert failure


def test_the_interface_of_a_model(board: Board) -> None:
    """Both drivers read the same from the library."""
    python, native = (
        interface_of(target, "rknn", board.models[0].path, TIME_LIMIT_S)
        for target in board.targets()
    )
    assert repr(native) == repr(python)
