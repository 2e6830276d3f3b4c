"""Options and what becomes of them; what only a whole pytest shows is in tests/bench."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import UserError
from harness.measuring.model_sets import Resolution
from harness.options import add_options, resolve_model_sets, resolve_settings
from harness.session import _storage_folder, choose_board_storage
from harness.settings import check_kernel
from samplers import process as process_module
from storage.board import board_storage


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


def _option(*arguments: object) -> argparse.Namespace:
    """Return the options that a session has."""
    group: Any = Group()
    add_options(group)
    return group.parser.parse_args([str(each) for each in arguments])  # type: ignore[no-any-return]


def test_defaults() -> None:
    """Four streams with three contexts each, in three processes, on all usable CPUs."""
    found = resolve_settings(_option(), chip=None)
    assert (found.streams, found.contexts, found.repeats, found.sample_hz) == (4, 3, 3, 200)
    assert found.cpus == len(os.sched_getaffinity(0))


def test_streams_have_a_pace() -> None:
    """30 frames per second for some seconds, shorter in a first look; options beside it win."""
    default, quick, own = (
        resolve_settings(_option(*arguments), chip=None).pace
        for arguments in ((), ("--quick",), ("--quick", "--fps", 0, "--queue", 2, "--duration", "90s"))
    )
    assert (default.fps, default.queue) == (quick.fps, quick.queue) == (30.0, 0)
    assert 0 < quick.duration_s < default.duration_s
    assert (own.fps, own.queue, own.duration_s, own.warm_up_s) == (0.0, 2, 90.0, quick.warm_up_s)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5", 1.5), ("2m", 120), ("0.5h", 1800), ("24h", 86_400)]
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    """Seconds where none is given."""
    assert resolve_settings(_option("--duration", text), chip=None).pace.duration_s == seconds


@pytest.mark.parametrize("text", ["", "0", "0.5", "-3", "2d", "1 h", "1h30m", "inf", "nan", "1e9"])
def test_a_duration_that_is_none(text: str) -> None:
    """The error says what is valid."""
    with pytest.raises(argparse.ArgumentError, match=r"a time from 1s, as 90, 90s, 2m, 1h"):
        _option(f"--duration={text}")


def test_a_soak_runs_once() -> None:
    """Unless the user wants it more often."""
    assert resolve_settings(_option("--duration", "10m"), chip=None).repeats == 1
    assert resolve_settings(_option("--duration", "9m"), chip=None).repeats > 1
    assert resolve_settings(_option("--duration", "1h", "--repeats", 2), chip=None).repeats == 2


def test_as_many_infer_at_once_as_there_are_cores_of_what_infers() -> None:
    """On a CPU its usable CPUs, on an NPU its cores; of an NPU that is not known, one."""
    on_chip, elsewhere = (resolve_settings(_option(), chip) for chip in ("rk3588", None))
    cpus = len(os.sched_getaffinity(0))
    assert on_chip.parameters("onnxruntime", ()).cores == cpus
    assert on_chip.parameters("rknn", ()).cores == 3
    assert elsewhere.parameters("rknn", ()).cores == 1


def test_quick_gives_way_to_what_is_given_beside_it() -> None:
    """--quick means less effort, but only where no option says otherwise."""
    default, quick = (resolve_settings(_option(*options), chip=None) for options in ((), ("--quick",)))
    assert quick.repeats < default.repeats
    assert quick.rounds < default.rounds
    given = resolve_settings(_option("--quick", "--repeats", 7, "--rounds", 9, "--streams", 2), chip=None)
    assert (given.repeats, given.rounds, given.streams) == (7, 9, 2)


@pytest.mark.parametrize("option", ["--streams", "--contexts", "--repeats", "--rounds"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "", "inf", "1e3"])
def test_counts_are_whole_numbers_from_1(option: str, value: str) -> None:
    """The message quotes what was given and says what is valid."""
    with pytest.raises(argparse.ArgumentError) as refusal:
        _option(f"{option}={value}")
    assert f"{option}: {value!r} is not valid; valid: a whole number from 1" in str(refusal.value)


@pytest.mark.parametrize("option", ["--sample-hz", "--time-limit"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "nan", "inf", ""])
def test_rates_are_above_0(option: str, value: str) -> None:
    """The message quotes what was given and says what is valid."""
    with pytest.raises(argparse.ArgumentError) as refusal:
        _option(f"{option}={value}")
    assert f"{option}: {value!r} is not valid; valid: a number above 0" in str(refusal.value)


def test_a_kernel_without_pss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither smaps_rollup nor smaps can be read nothing is measured, and the kernel's option is named."""
    check_kernel()
    monkeypatch.setattr(process_module, "_read_sizes", lambda *_: {})
    with pytest.raises(UserError, match="CONFIG_PROC_PAGE_MONITOR=y"):
        check_kernel()


def test_models_of_the_options(tmp_path: Path) -> None:
    """--model and --resolution arrive with the target's chip; --quick takes other built-in networks."""
    resolutions = ("--resolution", "a.rknn", "--resolution", f"{tmp_path}/b.rknn,{tmp_path}/b-weightless.rknn")
    found = resolve_model_sets(_option("--model", "m.rknn", *resolutions, "--streams", 2), "rk3588")
    assert (found.streams, found.chip) == (2, "rk3588")
    assert list(found.files) == [Path("m.rknn")]
    assert list(found.resolutions) == [
        Resolution(Path("a.rknn"), None),
        Resolution(tmp_path / "b.rknn", tmp_path / "b-weightless.rknn"),
    ]
    default, quick = (resolve_model_sets(_option(*options), chip=None) for options in ((), ("--quick",)))
    assert default.chip is None
    assert default.built_in != quick.built_in
    for sets, resolutions_wanted in ((default, 5), (quick, 3)):
        assert len(sets.built_in.in_turn) > 1
        assert len({name for name, _ in sets.built_in.resolutions}) == 1
        assert len(set(sets.built_in.resolutions)) == resolutions_wanted


def _config(storage: str) -> Any:
    """Return a pytest.Config as far as the storage looks into it."""
    return SimpleNamespace(option=argparse.Namespace(benchmark_storage=storage, benchmark_compare=None))


@pytest.mark.parametrize("uri", ["file:///data/store", "/data/store"])
def test_a_storage_is_a_folder(uri: str) -> None:
    """With a scheme or without, as pytest-benchmark understands both."""
    config = _config(uri)
    choose_board_storage(config)
    assert _storage_folder(config) == Path("/data/store")


def test_the_common_storage_becomes_the_boards() -> None:
    """pytest-benchmark's default place is one for all boards."""
    config = _config("file://./.benchmarks")
    choose_board_storage(config)
    assert _storage_folder(config) == board_storage()


def test_a_storage_that_is_no_folder() -> None:
    """It is refused before pytest-benchmark opens it."""
    with pytest.raises(pytest.UsageError, match=r"elasticsearch.*: results and traces need a folder"):
        choose_board_storage(_config("elasticsearch+http://host/index"))
