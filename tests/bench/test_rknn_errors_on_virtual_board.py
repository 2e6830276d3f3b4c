"""Errors of Rockchip's own libraries and their diagnosis, on the virtual board.

They run if the libraries are in reusebench/rknn in the user's cache (any file name), if the virtual
board is installed for them (`reusebench board install`), and if the tiny models are in the cache or
can be built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import Context, Model, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.models import ModelError, Recipe, ensure_all
from reusebench.system.cache import CacheError
from reusebench.targets.chips import MINI_RUNTIME, RUNTIME
from reusebench.targets.measured_process import try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.rknn_library import RknnLibrary
from reusebench.targets.vboard.catalogue import rknn_board
from tests.bench.test_rknn_on_virtual_board import _LIBRARIES, _NEWER
from tests.helpers.support import TIME_LIMIT_S

pytestmark = pytest.mark.process

_CHIPS = {RUNTIME: "rk3588", MINI_RUNTIME: "rv1106"}
_OTHER_CHIPS = {RUNTIME: "rk3566", MINI_RUNTIME: "rk3588"}

#: A function of the model file's bytes, which damages them.
Damage = Callable[[bytes], bytes]


@pytest.fixture(scope="module", params=_LIBRARIES)
def library(request: pytest.FixtureRequest) -> RknnLibrary:
    """Return one library after the other that takes models of today's toolkit."""
    library: RknnLibrary = request.param[0]
    missing = rknn_board(library).missing_parts()
    if missing:
        pytest.skip(
            f"the virtual board is not ready for {library.path}: {', '.join(missing)} missing"
        )
    if library.version < _NEWER:
        pytest.skip(f"{library.kind} {library.version} takes models of its time")
    return library


def _model(chip: str) -> Path:
    try:
        return ensure_all(".rknn", [Recipe("tiny", 64, 1)], chip)[0]
    except (CacheError, ModelError) as error:
        pytest.skip(str(error))


def _failure(
    library: RknnLibrary,
    model: Path,
    variables: Mapping[str, str] | None = None,
    contexts: int = 1,
    descriptors: int | None = None,
) -> Failure:
    """Return the failure of `contexts` contexts of the model, with one inference each, on the
    library's chip.
    """
    target = parse_target(
        Selection(f"vboard:{_CHIPS[library.kind]}", library.path), find_runtime("rknn")
    )
    target = replace(target, environment={**target.environment, **(variables or {})})
    if descriptors is not None:
        limited = ("sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *target.command)
        target = replace(target, command=limited)
    models = (Model("tiny", str(model), "0"),)
    failure = try_plan(
        target,
        Plan("trial", None, "rknn", models, (Context(None, 0),) * contexts, 1, 1),
        TIME_LIMIT_S,
    )
    assert isinstance(failure, Failure)
    return failure


def _cause(failure: Failure) -> Message:
    assert failure.message.code in ("rknn_call_explained", "process_end_explained"), failure
    cause = failure.message.values["cause"]
    assert isinstance(cause, Message)
    return cause


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("FAULTS", "no-device", "rknn_no_driver"),
        ("FAULTS", "no-permission", "rknn_no_permission"),
        ("NPU_MEMORY", "4096", "rknn_out_of_memory"),
        ("FAULTS", "submit-error=EIO", "rknn_job_failed"),
    ],
)
def test_a_fault_of_the_board(library: RknnLibrary, variable: str, value: str, code: str) -> None:
    """Each damage is recognised by each library's own messages."""
    failure = _failure(library, _model(_CHIPS[library.kind]), {f"REUSEBENCH_{variable}": value})
    assert _cause(failure).code == code
    assert failure.kind == ("out_of_memory" if code == "rknn_out_of_memory" else "failed")


def test_the_driver_that_a_library_wants(library: RknnLibrary) -> None:
    """The library itself names the oldest version."""
    cause = _cause(
        _failure(library, _model(_CHIPS[library.kind]), {"REUSEBENCH_FAULTS": "driver=0.2.0"})
    )
    oldest = "0.2.1" if library.kind == MINI_RUNTIME else "0.7.0"
    assert cause.values == {"driver": "0.2.0", "needed": oldest}


def test_a_model_for_another_chip(library: RknnLibrary) -> None:
    """librknnrt names both chips; librknnmrt only says that it does not know the form."""
    cause = _cause(_failure(library, _model(_OTHER_CHIPS[library.kind])))
    if library.kind == MINI_RUNTIME:
        assert cause == Message("rknn_mini_model_version", {"version": "6"})
    else:
        assert cause == Message("rknn_wrong_platform", {"model": "RK3566", "chip": "RK3588"})


def test_a_model_for_the_mini_runtime(library: RknnLibrary) -> None:
    """To librknnrt the file is no model at all."""
    if library.kind == RUNTIME:
        assert _cause(_failure(library, _model("rv1106"))).code == "rknn_model_damaged"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[: len(content) // 2], id="half"),
        pytest.param(lambda content: b"<!DOCTYPE html>".ljust(len(content)), id="another file"),
    ],
)
def test_a_damaged_model(library: RknnLibrary, tmp_path: Path, damage: Damage) -> None:
    """Each library has messages of its own for each error."""
    path = tmp_path / "model.rknn"
    path.write_bytes(damage(_model(_CHIPS[library.kind]).read_bytes()))
    assert _cause(_failure(library, path)).code == "rknn_model_damaged"


def test_a_model_whose_end_is_missing(library: RknnLibrary, tmp_path: Path) -> None:
    """librknnrt aborts without a message of its own: its exception is recognised. (librknnmrt runs
    such a file.)
    """
    if library.kind == RUNTIME:
        path = tmp_path / "model.rknn"
        path.write_bytes(_model("rk3588").read_bytes()[:-100])
        failure = _failure(library, path)
        assert (failure.kind, _cause(failure).code) == ("crashed", "rknn_model_damaged")


def test_file_descriptors_are_used_up(library: RknnLibrary) -> None:
    """The error is recognised even if the library swallows it (2.3.2) or crashes then (1.6.0)."""
    if library.kind == RUNTIME:
        failure = _failure(library, _model("rk3588"), contexts=20, descriptors=28)
        assert _cause(failure).code == "rknn_descriptors_used_up"
        assert failure.kind in ("failed", "crashed")
