"""Options and what becomes of them; what only a whole pytest shows is in tests/bench."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import errors, settings
from harness.errors import (
    NoRuntime,
    PssUnreadable,
    RuntimeNotInstalled,
    RuntimeNotOnTarget,
    TargetInvalid,
    UserError,
)
from harness.model_sets import Resolution
from harness.session import choose_board_storage, storage_folder
from harness.settings import (
    add_options,
    check_kernel,
    check_runtimes,
    chosen_runtimes,
    question_of,
    resolve_model_sets,
    resolve_settings,
    resolve_target,
    what_is_lacking,
)
from runtimes import find_runtime
from samplers import process as process_module
from storage.board import board_storage
from targets.base import THIS_INTERPRETER, Target
from targets.errors import TargetError

_RK3588 = Target("vboard:rk3588", ("true",), chip="rk3588")


class Group:
    """Collects what add_options declares in an argparse parser, as pytest does."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(exit_on_error=False)

    def getgroup(self, *_: str) -> Group:
        """Return the one group."""
        return self

    def addoption(self, *names: str, **options: Any) -> None:
        """Declare one option."""
        self.parser.add_argument(*names, **options)


def _config(*arguments: object, **options: object) -> Any:
    """Return a pytest.Config as far as the settings look into it."""
    group: Any = Group()
    add_options(group)
    option = group.parser.parse_args([str(each) for each in arguments])
    for name, value in options.items():
        setattr(option, name, value)
    return SimpleNamespace(option=option, getoption=lambda name: getattr(option, name))


def test_defaults() -> None:
    """Four streams with three contexts each, in three processes, on all usable CPUs."""
    found = resolve_settings(_config(), THIS_INTERPRETER)
    assert (found.streams, found.contexts, found.repeats, found.sample_hz) == (4, 3, 3, 200)
    assert found.cpus == len(os.sched_getaffinity(0))


def test_as_many_infer_at_once_as_there_are_cores_of_what_infers() -> None:
    """On a CPU its usable CPUs, on an NPU its cores; of an NPU that is not known, one."""
    on_chip, elsewhere = (resolve_settings(_config(), target) for target in (_RK3588, THIS_INTERPRETER))
    cpus = len(os.sched_getaffinity(0))
    assert on_chip.parameters("onnxruntime", ()).cores == cpus
    assert on_chip.parameters("rknn", ()).cores == 3
    assert elsewhere.parameters("rknn", ()).cores == 1


def test_quick_gives_way_to_what_is_given_beside_it() -> None:
    """--quick means less effort, but only where no option says otherwise."""
    default, quick = (resolve_settings(_config(*options), THIS_INTERPRETER) for options in ((), ("--quick",)))
    assert quick.repeats < default.repeats
    assert quick.rounds < default.rounds
    given = resolve_settings(_config("--quick", "--repeats", 7, "--rounds", 9, "--streams", 2), THIS_INTERPRETER)
    assert (given.repeats, given.rounds, given.streams) == (7, 9, 2)


@pytest.mark.parametrize("option", ["--streams", "--contexts", "--repeats", "--rounds"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "", "inf", "1e3"])
def test_counts_are_whole_numbers_from_1(option: str, value: str) -> None:
    """The message quotes what was given and says what is valid."""
    with pytest.raises(argparse.ArgumentError) as refusal:
        _config(f"{option}={value}")
    assert f"{option}: {value!r} is not valid; valid: a whole number from 1" in str(refusal.value)


@pytest.mark.parametrize("option", ["--sample-hz", "--time-limit"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "nan", "inf", ""])
def test_rates_are_above_0(option: str, value: str) -> None:
    """The message quotes what was given and says what is valid."""
    with pytest.raises(argparse.ArgumentError) as refusal:
        _config(f"{option}={value}")
    assert f"{option}: {value!r} is not valid; valid: a number above 0" in str(refusal.value)


def test_runtimes_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name all that are here are measured; a name given twice counts once."""
    monkeypatch.setattr(settings, "available", lambda entry: entry.name == "onnxruntime")
    assert chosen_runtimes(_config()) == ["onnxruntime"]
    assert chosen_runtimes(_config("--runtime", "onnxruntime", "--runtime", "onnxruntime")) == ["onnxruntime"]
    assert chosen_runtimes(_config("--runtime", "rknn", "--runtime", "onnxruntime")) == ["rknn", "onnxruntime"]
    with pytest.raises(argparse.ArgumentError, match="unknown runtime 'onnx'; valid: onnxruntime, rknn"):
        _config("--runtime", "onnx")
    check_runtimes(_config())


def test_runtimes_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was asked for is an error that says what to install; none at all is an error too."""
    monkeypatch.setattr(settings, "available", lambda _: False)
    for name in ("onnxruntime", "rknn"):
        with pytest.raises(RuntimeNotInstalled) as refusal:
            check_runtimes(_config("--runtime", name))
        assert str(refusal.value) == f"--runtime {name} is not here: {find_runtime(name).install}"
    assert chosen_runtimes(_config()) == []
    with pytest.raises(NoRuntime, match="python -m runtimes"):
        check_runtimes(_config())


def test_a_library_that_is_given_brings_its_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --rknn-library Rockchip's runtime is here, wherever the usual places are."""
    monkeypatch.setattr(settings, "available", lambda _: False)
    config = _config("--rknn-library", "librknnrt.so")
    assert chosen_runtimes(config) == ["rknn"]
    check_runtimes(config)


def test_the_virtual_board_has_one_runtime() -> None:
    """There Rockchip's is measured without being named, and another one cannot be."""
    target = ("--target", "vboard:rk3588", "--rknn-library", "librknnrt.so")
    assert chosen_runtimes(_config(*target)) == ["rknn"]
    check_runtimes(_config(*target))
    with pytest.raises(RuntimeNotOnTarget) as refusal:
        check_runtimes(_config(*target, "--runtime", "onnxruntime"))
    words = ("--runtime onnxruntime", "vboard:rk3588 has Rockchip's runtime alone", "Leave --runtime out")
    assert [word for word in words if word not in str(refusal.value)] == []


def test_a_target_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the targets say of it is said as a mistake of the user, with the option."""

    def refuse(text: str, library: Path | None) -> Target:
        raise TargetError(f"--target {text}: not with {library}")

    monkeypatch.setattr(settings, "parse_target", refuse)
    with pytest.raises(TargetInvalid, match=r"--target vboard:rk1: not with librknnrt\.so") as refusal:
        resolve_target(_config("--target", "vboard:rk1", "--rknn-library", "librknnrt.so"))
    assert str(refusal.value).count("--target") == 1


def test_the_target_is_this_interpreter_where_nothing_is_said() -> None:
    """An ordinary run stays where it is."""
    assert resolve_target(_config()).command == THIS_INTERPRETER.command


def test_a_kernel_without_pss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither smaps_rollup nor smaps can be read nothing is measured, and the kernel's option is named."""
    check_kernel()
    monkeypatch.setattr(process_module, "_read_sizes", lambda *_: {})
    with pytest.raises(PssUnreadable, match="CONFIG_PROC_PAGE_MONITOR=y"):
        check_kernel()


def test_models_of_the_options(tmp_path: Path) -> None:
    """--model and --resolution arrive with the target's chip; --quick takes other built-in networks."""
    resolutions = ("--resolution", "a.rknn", "--resolution", f"{tmp_path}/b.rknn,{tmp_path}/b-weightless.rknn")
    found = resolve_model_sets(_config("--model", "m.rknn", *resolutions, "--streams", 2), _RK3588)
    assert (found.streams, found.chip) == (2, "rk3588")
    assert list(found.files) == [Path("m.rknn")]
    assert list(found.resolutions) == [
        Resolution(Path("a.rknn"), None),
        Resolution(tmp_path / "b.rknn", tmp_path / "b-weightless.rknn"),
    ]
    default, quick = (resolve_model_sets(_config(*options), THIS_INTERPRETER) for options in ((), ("--quick",)))
    assert default.chip is None
    assert default.built_in != quick.built_in
    for sets in (default, quick):
        assert len(sets.built_in.in_turn) > 1
        assert len({name for name, _ in sets.built_in.resolutions}) == 1


def test_questions_by_their_files() -> None:
    """A file's name without what pytest wants of it is what a runtime's row names."""
    assert question_of(Path("bench/test_internal_reuse.py")) == "internal_reuse"


def test_every_mistake_is_a_user_error() -> None:
    """conftest.py catches one class."""
    found = [getattr(errors, name) for name in errors.__all__]
    assert len(found) > 8
    assert all(issubclass(error, UserError) for error in found)


@pytest.mark.parametrize("uri", ["file:///data/store", "/data/store"])
def test_a_storage_is_a_folder(uri: str) -> None:
    """With a scheme or without, as pytest-benchmark understands both."""
    config = _config(benchmark_storage=uri)
    choose_board_storage(config)
    assert storage_folder(config) == Path("/data/store")


def test_the_common_storage_becomes_the_boards() -> None:
    """pytest-benchmark's default place is one for all boards."""
    config = _config(benchmark_storage="file://./.benchmarks")
    choose_board_storage(config)
    assert storage_folder(config) == board_storage()


def test_a_storage_that_is_no_folder() -> None:
    """It is refused before pytest-benchmark opens it."""
    with pytest.raises(pytest.UsageError, match=r"elasticsearch.*: results and traces need a folder"):
        choose_board_storage(_config(benchmark_storage="elasticsearch+http://host/index"))


def test_own_models_without_resolutions_cost_only_the_question_about_them() -> None:
    """Shared weights need resolutions of one network; every other question is asked of the user's models."""
    own, both = _config("--model", "a.rknn"), _config("--model", "a.rknn", "--resolution", "a.rknn,b.rknn")
    assert "--resolution FILE" in (what_is_lacking(own, "shared_weights") or "")
    assert [what_is_lacking(own, name) for name in ("dup", "internal_reuse", "io_copies")] == [None] * 3
    assert what_is_lacking(both, "shared_weights") is None
    assert what_is_lacking(_config(), "shared_weights") is None
