"""Every RKNN plan of the catalogue with both drivers on the double of Rockchip's library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Cycles,
    Model,
    Plan,
    Video,
)
from reusebench.measured.runtimes.base import InputData
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.targets.machine import Reach
from reusebench.targets.measured_process import MeasuredRun, interface_of
from reusebench.targets.target import Target
from tests.helpers.forks import RKNN_FORKS
from tests.helpers.support import TIME_LIMIT_S, walk
from tests.targets.native.drift import (
    SCHEDULE,
    STAND_INS,
    by_context,
    distinct_plans,
    in_c,
    plans_of,
    told,
    with_models,
)

pytestmark = pytest.mark.process

_FULL = "librknnrt version: 1.6.0 (double)"
_MINI = "librknnmrt version: 2.3.2 (double)"
#: Content of a model for the double: bytes of weights and of internal memory, and number of inputs.
_MODELS = ("9000 5000 1 ", "7000 12345 1 ", "8000 100 1 ")
_PLAIN = Context(0, 0)
_DUP = Context(0, 0, DUP, 0)
#: Limit for plans that add contexts until one fails: some contexts fit, but not all.
_MEMORY = "40000"
#: The double infers in no time: as many frames as on a board in a shorter time.
_SCHEDULE = replace(SCHEDULE, fps=50.0, warm_up_s=0.04, duration_s=0.12)

Compile = Callable[..., Path]


class Pair:
    """Both drivers with one double."""

    def __init__(self, library: Path, driver: Path, folder: Path) -> None:
        self._library = library
        self._driver = driver
        self._folder = folder

    def targets(self, **environment: str) -> list[tuple[Target, Path]]:
        """Return a target for each driver, and the file in which the double records its calls."""
        targets = []
        for name in ("python", "c"):
            log = self._folder / f"calls-{name}"
            log.unlink(missing_ok=True)
            variables = {
                LIBRARY_VARIABLE: str(self._library),
                "DOUBLE_LOG": str(log),
                **environment,
            }
            target = replace(RKNN_FORKS, environment=variables)
            targets.append((in_c(target, str(self._driver)) if name == "c" else target, log))
        return targets

    def walk(self, plan: Plan, **environment: str) -> MeasuredRun:
        """Walk the plan with both drivers, and return the run of the Python driver.

        Both must report the same and make the same calls.
        """
        runs = []
        logs = []
        for target, log in self.targets(**environment):
            runs.append(walk(plan, target))
            logs.append(by_context(log))
        assert told(runs[1]) == told(runs[0]), runs[1].failure
        if plan.schedule is None:
            assert logs[1] == logs[0]
        else:  # time decides which context takes a frame
            distinct = [
                {number: set(map(_without_content, calls)) for number, calls in log.items()}
                for log in logs
            ]
            assert distinct[1] == distinct[0]
        return runs[0]


def _without_content(call: str) -> str:
    return re.sub(r"begins=\w+", "", call)


@pytest.fixture
def pair(rknn_double: Compile, native_driver: Path, tmp_path: Path) -> Pair:
    """Return both drivers with the full runtime."""
    return Pair(rknn_double(_FULL), native_driver, tmp_path)


@pytest.fixture
def mini(rknn_double: Compile, native_driver: Path, tmp_path: Path) -> Pair:
    """Return both drivers with the mini runtime."""
    return Pair(rknn_double(_MINI), native_driver, tmp_path)


@pytest.fixture
def models(tmp_path: Path) -> tuple[Model, ...]:
    """Return models for the double."""
    return _models(tmp_path, *_MODELS)


def _models(folder: Path, *contents: str, inputs: tuple[InputData, ...] = ()) -> tuple[Model, ...]:
    models = []
    for number, content in enumerate(contents):
        path = folder / f"model\t{number}.rknn"  # a name that needs escapes
        path.write_text(content)
        models.append(
            Model(f"model-{number}", str(path), str(number), weightless=str(path), inputs=inputs)
        )
    return tuple(models)


def _plan(models: tuple[Model, ...], *contexts: Context, cores: int = 1, **fields: Any) -> Plan:
    return Plan("mine", None, "rknn", models, contexts, cores, rounds=2, **fields)


def _plans(cores: int) -> list[Any]:
    """Return the distinct plans of the catalogue.

    The lean scenarios have many forms: the first and the last have most and fewest mechanisms.
    """
    plans = []
    for scenario in SCENARIOS:
        forms = plans_of(scenario.name, STAND_INS, cores, _SCHEDULE)
        plans += forms if len(forms) < 3 else [forms[0], forms[-1]]
    return [pytest.param(plan, id=name) for name, plan in distinct_plans(plans).items()]


def _walk_with(pair: Pair, plan: Plan, models: tuple[Model, ...]) -> MeasuredRun:
    return pair.walk(
        with_models(plan, models), **({"DOUBLE_MEMORY": _MEMORY} if plan.fills else {})
    )


@pytest.mark.parametrize("plan", _plans(cores=2))
def test_every_plan_of_the_catalogue(pair: Pair, models: tuple[Model, ...], plan: Plan) -> None:
    """Barriers, accounts, allocations, digests, failures and all library calls are the same."""
    _walk_with(pair, plan, models)


@pytest.mark.parametrize("plan", _plans(cores=1))
def test_every_plan_of_the_catalogue_on_the_mini_runtime(
    mini: Pair, models: tuple[Model, ...], plan: Plan
) -> None:
    """They are also the same there."""
    _walk_with(mini, plan, models)


@pytest.mark.parametrize(
    "contexts",
    [
        (Context(0, 0, zero_copy=(MODEL,)), _DUP),
        (Context(0, 0, outside=(INTERNAL,)), _DUP),
        (Context(0, 0, options=("level=3",)),),
        (_PLAIN, Context(0, 1, SHARED_WEIGHTS, 0, zero_copy=(INPUT,)), _DUP),
        (
            Context(0, 0, outside=(WEIGHTS, INTERNAL)),
            Context(0, 0, SHARED_WEIGHT_MEMORY, 0, outside=(INTERNAL,), zero_copy=(OUTPUT,)),
        ),
        tuple(
            Context(0, 0, zero_copy=(INPUT, NATIVE_OUTPUT), io=0, internal=0, core=0)
            for _ in range(3)
        ),
    ],
)
def test_other_plans(pair: Pair, models: tuple[Model, ...], contexts: tuple[Context, ...]) -> None:
    """Combinations that no scenario has are done, or refused, alike."""
    pair.walk(_plan(models, *contexts))


def test_chains(pair: Pair, models: tuple[Model, ...]) -> None:
    """One thread runs the contexts of a chain, in rounds and for frames."""
    contexts = [Context(None, number % 3, internal=number // 2) for number in range(4)]
    chains = ((1, 0), (2, 3))
    pair.walk(_plan(models, *contexts, cores=2, chains=chains))
    pair.walk(_plan(models, *contexts, cores=2, chains=chains, schedule=_SCHEDULE))


_CALLS = (
    *("rknn_init", "rknn_dup_context", "rknn_destroy", "rknn_query", "rknn_inputs_set", "rknn_run"),
    *(
        "rknn_outputs_get",
        "rknn_create_mem",
        "rknn_create_mem_from_fd",
        "rknn_destroy_mem",
        "rknn_set_weight_mem",
    ),
    *("rknn_set_internal_mem", "rknn_set_io_mem", "rknn_mem_sync", "rknn_set_core_mask"),
)
#: Contexts that make all of these calls.
_ALL = (
    Context(0, 0, outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT,), core=0),
    Context(0, 0, core=1),
    Context(0, 0, DUP, 1, core=1),
    Context(0, 1, internal=0, zero_copy=(OUTPUT,), core=1),
)


@pytest.mark.parametrize("call", _CALLS)
def test_a_call_that_fails(pair: Pair, models: tuple[Model, ...], call: str) -> None:
    """Both drivers fail and clean up alike, if the code or only a line shows the failure."""
    assert pair.walk(_plan(models, *_ALL, cores=2), DOUBLE_FAIL=f"{call}=-7").failure
    says = f"{call}=\x1b[31mE RKNN: [10:01:02.345] words\twith a \\ that no cause explains\x1b[0m"
    assert pair.walk(_plan(models, *_ALL, cores=2), DOUBLE_SAY=says).failure


_WORDS = (
    "failed to allocate handle, ret: -1, errno: 12, errstr: Cannot allocate memory, size: 4096",
    "failed to allocate handle, ret: -1, errno: 14, errstr: Bad address, size: 4096",
    "failed to allocate handle, ret: -1, errno: 22, errstr: Invalid argument, size: 4096",
    "failed to convert handle(1020) to fd, ret: -1, errno: 24, errstr: Too many open files",
    "failed to map memory; failed to allocate fd",
    "failed to open rknpu module, need to insmod rknpu dirver!",
    "Failed to open DMA heap: /dev/dma_heap/no such\nE RKNN: DMA Heap allocation failed",
    "failed to submit!, op id: 1",
    "This rknn model is for RK3588, but current platform is RK3566/RK3568",
)


@pytest.mark.parametrize("words", _WORDS)
def test_what_the_library_says(pair: Pair, models: tuple[Model, ...], words: str) -> None:
    """The driver's facts of its machine give the cause; a context left behind is treated alike."""
    failing = {
        "DOUBLE_FAIL": "rknn_init=-1",
        "DOUBLE_SAY": f"rknn_init=E RKNN: {words}",
        "DOUBLE_LEAVES": "1",
    }
    assert pair.walk(_plan(models, _PLAIN), **failing).failure


def test_weights_that_are_overwritten(pair: Pair, models: tuple[Model, ...]) -> None:
    """Both drivers notice."""
    sharing = Context(0, 0, SHARED_WEIGHT_MEMORY, 0, outside=(INTERNAL,))
    run = pair.walk(
        _plan(models, Context(0, 0, outside=(WEIGHTS, INTERNAL)), sharing), DOUBLE_REWRITES="1"
    )
    assert run.failure


def test_a_crash(pair: Pair, models: tuple[Model, ...]) -> None:
    """The signal is the same, and the last words are the library's."""
    plan = _plan(models, *(_PLAIN,) * 3, fills=True)
    run = pair.walk(plan, DOUBLE_MEMORY=str(2 * 14000), DOUBLE_DIES="1")
    assert run.failure
    assert run.failure.kind == "crashed"


#: The ways by which tensors get in and out of a context.
_WAYS = ((), (INPUT,), (INPUT, OUTPUT), (INPUT, NATIVE_OUTPUT))
_ONE_VALUE = (InputData("input", "uint8", (1, 5, 10, 3), value=3),)


def _every_way(models: tuple[Model, ...], ways: Iterable[tuple[str, ...]] = _WAYS) -> Plan:
    """Return a plan with a context for each model and way."""
    return _plan(
        models,
        *(Context(None, model, zero_copy=way) for model, way in product(range(len(models)), ways)),
    )


def _fed(
    folder: Path, kinds: Iterable[str], inputs: tuple[InputData, ...] = ()
) -> tuple[Model, ...]:
    """Return models with two inputs of these kinds, filled with `inputs` or, if empty, noise."""
    folder.mkdir()
    return _models(folder, *(f"9000 5000 2 {kind} " for kind in kinds), inputs=inputs)


def test_kinds_of_inputs(pair: Pair, mini: Pair, tmp_path: Path) -> None:
    """Noise and one value are the same bytes in every type."""
    kinds = ("picture", "numbers", "halves", "features", "tokens", "mask")
    noise = _fed(tmp_path / "noise", kinds)
    value = _fed(tmp_path / "value", kinds, _ONE_VALUE)
    dynamic = _fed(tmp_path / "dynamic", ["dynamic"], _ONE_VALUE)
    for drivers, models in (
        (pair, noise),
        (pair, (*value, *dynamic)),
        (mini, noise),
        (mini, value),
    ):
        assert drivers.walk(_every_way(models)).failure is None


@pytest.mark.parametrize("way", [(), (INPUT,)])
@pytest.mark.parametrize("kind", ["dynamic", "nibbles", "garbage"])
def test_kinds_of_inputs_that_are_refused(
    pair: Pair, mini: Pair, tmp_path: Path, kind: str, way: tuple[str, ...]
) -> None:
    """A type that cannot be written, no model, and a library that aborts have the same effect."""
    noise = _fed(tmp_path / "noise", [kind])
    value = _fed(tmp_path / "value", [kind], _ONE_VALUE)
    assert pair.walk(_every_way(noise, [way])).failure
    assert mini.walk(_every_way(value, [way])).failure


_BYTES = np.arange(300).reshape(1, 10, 10, 3).astype(np.uint8)
#: Kinds of inputs, with data for them, that both runtimes take in every way.
_DATA: tuple[tuple[str, Any], ...] = (
    ("picture", _BYTES),
    ("numbers", np.array([[0.0, 0.49999, 2.5e-3, 1e30, -7.0, np.nan]], np.float32)),
    ("halves", np.array([[1 / 3, 6e-8, 5.97e-8, 65520.0, -2049.0, 1e-9]], np.float32)),
    ("tokens", np.array([[3, 1, 4, 1, 5, 2**62 + 1]])),
)
#: Pixels that are not bytes, and an order of the NPU's own, which some ways refuse.
_ODD_DATA: tuple[tuple[str, Any], ...] = (
    ("picture", np.linspace(0, 1, 300, dtype=np.float32).reshape(1, 10, 10, 3)),
    ("features", np.linspace(-1, 2, 96, dtype=np.float32).reshape(1, 2, 3, 16)),
)


def _with_data(folder: Path, kind: str, values: Any) -> Model:
    """Return a model whose input has these values, from a file."""
    folder.mkdir()
    path = folder / "data.npy"
    np.save(path, values)
    (model,) = _models(
        folder,
        f"9000 5000 1 {kind} ",
        inputs=(InputData("input", values.dtype.name, values.shape, file=str(path)),),
    )
    return model


def test_data_of_a_file(pair: Pair, mini: Pair, tmp_path: Path) -> None:
    """They are converted to the type of the input, bit by bit the same."""
    models = tuple(_with_data(tmp_path / str(number), *data) for number, data in enumerate(_DATA))
    for drivers in (pair, mini):
        assert drivers.walk(_every_way(models, [(), (INPUT,)])).failure is None


@pytest.mark.parametrize(("kind", "values"), _ODD_DATA, ids=[kind for kind, _ in _ODD_DATA])
def test_data_of_a_file_that_not_every_way_takes(
    pair: Pair, mini: Pair, tmp_path: Path, kind: str, values: Any
) -> None:
    """Both drivers refuse the same ones."""
    models = (_with_data(tmp_path / "model", kind, values),)
    plans = [_every_way(models, [way]) for way in ((), (INPUT,))]
    failures = [drivers.walk(plan).failure for drivers, plan in product((pair, mini), plans)]
    assert any(failures)
    assert not all(failures)


@pytest.mark.parametrize("way", [(), (INPUT,)])
def test_data_of_a_file_that_is_missing(
    pair: Pair, mini: Pair, tmp_path: Path, way: tuple[str, ...]
) -> None:
    """Both drivers say so."""
    plan = _every_way((_with_data(tmp_path / "model", "picture", _BYTES),), [way])
    (tmp_path / "model" / "data.npy").unlink()
    for drivers in (pair, mini):
        assert drivers.walk(plan).failure


@pytest.mark.parametrize("without", ["DUP", "CORE_MASK", "MEM_SYNC", "CREATE_MEM2"])
def test_a_function_that_is_missing(
    rknn_double: Compile,
    native_driver: Path,
    tmp_path: Path,
    models: tuple[Model, ...],
    without: str,
) -> None:
    """It is named in the failure, or not needed."""
    pair = Pair(rknn_double(_FULL, without), native_driver, tmp_path)
    pair.walk(_plan(models, *_ALL, Context(0, 2, zero_copy=(MODEL,), core=1), cores=2))


@pytest.mark.parametrize(
    "content", [None, b"text", b"\x7fELF" + bytes(14) + b"\x28\x00" + b"librknnrt version: 1.6.0"]
)
def test_a_library_that_cannot_be_used(
    native_driver: Path, tmp_path: Path, models: tuple[Model, ...], content: bytes | None
) -> None:
    """The library is missing, something else, or for another machine."""
    library = tmp_path / "library.so"
    if content is not None:
        library.write_bytes(content)
    run = Pair(library, native_driver, tmp_path).walk(_plan(models, _PLAIN))
    assert run.failure
    assert run.failure.phase == "imported"


def test_no_preload_library(pair: Pair, models: tuple[Model, ...]) -> None:
    """Without it Rockchip's library is not even loaded if a ledger or a board was asked for."""
    for variable in ("REUSEBENCH_BOARD", "REUSEBENCH_LEDGER"):
        run = pair.walk(_plan(models, _PLAIN), **{variable: "rk3588"})
        assert run.failure
        assert run.failure.message.code == "rknn_preload_missing"


@pytest.mark.parametrize("kind", ["picture", "dynamic", "tokens", "features", "garbage"])
def test_the_interface_of_a_model(pair: Pair, mini: Pair, tmp_path: Path, kind: str) -> None:
    """Names, types, sizes, layouts, and the shapes that the model allows."""
    (model,) = _models(tmp_path, f"9000 5000 2 {kind} ")
    for drivers in (pair, mini):
        answers = [
            interface_of(target, "rknn", model.path, TIME_LIMIT_S)
            for target, _ in drivers.targets()
        ]
        assert repr(answers[1]) == repr(answers[0])
    assert "No such file" in str(
        interface_of(pair.targets()[1][0], "rknn", "/no/model", TIME_LIMIT_S)
    )


@pytest.mark.parametrize(
    ("leak", "field"), [("heap", "heap_bytes"), ("fd", "fds"), ("mapping", "mappings")]
)
def test_leaks(pair: Pair, models: tuple[Model, ...], leak: str, field: str) -> None:
    """The driver's report includes what the library leaks; the driver itself leaks nothing."""
    grown = []
    for environment in ({}, {"DOUBLE_LEAK": f"rknn_run={leak}"}):
        _, (target, _) = pair.targets(**environment)
        run = walk(_plan(models, _PLAIN, cycles=Cycles("inferences", 4)), target)
        usages = [barrier.data.usage for barrier in run.barriers if barrier.phase == "cycle"]
        values = [getattr(usage, field) for usage in usages]
        if None in values:
            pytest.skip("this C library does not report its heap")
        grown.append(values[-1] - values[1])
    # The C library counts memory that it keeps for later calls of each size as in use.
    assert grown[1] > 10 * (grown[0] + 1)


def test_a_plan_with_a_video_is_refused(pair: Pair, models: tuple[Model, ...]) -> None:
    """This driver decodes nothing; the message says what to use."""
    video = Video("clip", "/no/clip.mp4", "0", "h264", 64, 64, 30.0, 1)
    plan = _plan(models, Context(None, 0), schedule=replace(_SCHEDULE, video=video))
    failure = walk(plan, pair.targets()[1][0]).failure
    assert failure
    assert (failure.kind, failure.phase) == ("not_supported", "decoders")
    assert "--driver python" in str(failure.message)


def test_the_harness_ends_streams(pair: Pair, models: tuple[Model, ...]) -> None:
    """`stop` ends them before their time; frames until then are reported."""
    target = pair.targets()[1][0]
    protocol = target.protocol
    process = target.start(Reach())
    plan = _plan(models, Context(None, 0), schedule=replace(_SCHEDULE, duration_s=3600.0))
    received = b""
    try:
        for step in plan.steps():
            process.send(protocol.step(plan, step))
            if step.phase == "steady":
                process.send(b"stop\n")
            while f"barrier\tphase={step.phase}".encode() not in received:
                chunk = process.receive(TIME_LIMIT_S)
                assert chunk, process.last_words()
                received += chunk
            process.send(b"go\n")
    finally:
        process.close()
    assert b"frames\t" in received
