"""The options and their settings; tests/bench has the tests that need a whole pytest."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reusebench.harness.bench_options import (
    add_options,
    resolve_plan_files,
    resolve_settings,
)
from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.harness.measuring.models.model_sets import ModelSets
from reusebench.harness.measuring.subject import ScenarioSubject
from reusebench.harness.model_request import ModelRequest, resolve_model_sets
from reusebench.harness.settings import Settings, check_kernel
from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.scenarios.catalogue import find_scenario
from reusebench.targets.target import THIS_INTERPRETER, Target


def _option(*arguments: object) -> argparse.Namespace:
    """Return the options of a session, parsed by argparse as pytest does."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    group = SimpleNamespace(addoption=parser.add_argument)
    pytest_parser: Any = SimpleNamespace(getgroup=lambda *_: group)
    add_options(pytest_parser)
    return parser.parse_args([str(argument) for argument in arguments])


_BOARD = {"rknn": replace(THIS_INTERPRETER, chip="rk3588")}


def _settings(*arguments: object, chip: str | None = None) -> Settings:
    return resolve_settings(_option(*arguments), {"rknn": replace(THIS_INTERPRETER, chip=chip)})


def _models(*arguments: object, targets: Mapping[str, Target] | None = None) -> ModelSets:
    return resolve_model_sets(ModelRequest.of(_option(*arguments)), targets or {})


def _subject(scenario: str) -> ScenarioSubject:
    return ScenarioSubject(find_scenario(scenario))


def test_defaults() -> None:
    """Four streams with three contexts each, on all usable CPUs, at 30 frames per second."""
    settings = _settings()
    assert (settings.streams, settings.contexts, settings.sample_hz) == (4, 3, 200)
    assert (settings.pace.fps, settings.pace.queue) == (30.0, 0)
    assert settings.cpus == len(os.sched_getaffinity(0))


def test_quick_gives_way_to_what_is_given_beside_it() -> None:
    """--quick means less effort, but options that are given win."""
    default = _settings()
    quick = _settings("--quick")
    streams = _subject("streams_full_dup")
    assert streams.expected_s(quick) < streams.expected_s(default)
    assert quick.rounds < default.rounds
    assert 0 < quick.pace.duration_s < default.pace.duration_s
    counts = ("--repeats", 7, "--rounds", 9, "--streams", 2)
    own = _settings("--quick", *counts, "--fps", 0, "--queue", 2, "--duration", "90s")
    assert (own.repeats, own.rounds, own.streams) == (7, 9, 2)
    assert (own.pace.fps, own.pace.queue, own.pace.duration_s, own.pace.warm_up_s) == (
        0,
        2,
        90,
        quick.pace.warm_up_s,
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5", 1.5), ("2m", 120), ("0.5h", 1800), ("24h", 86_400)],
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    """Without a unit the number means seconds."""
    assert _settings("--duration", text).pace.duration_s == seconds


def _repeats(*arguments: object, scenario: str = "full_dup") -> tuple[int, int]:
    settings = _settings(*arguments)
    subject = _subject(scenario)
    return subject.fewest_repeats(settings), subject.most_repeats(settings)


def test_repeats() -> None:
    """There are two, and more if memory differs; exactly the user's number; one if cycles are the
    repeats.
    """
    fewest, most = _repeats()
    assert (fewest, most > fewest) == (2, True)
    assert _repeats("--repeats", 3) == _repeats("--quick", "--repeats", 3) == (3, 3)
    for arguments in ((), ("--repeats", 3)):
        assert _repeats(*arguments, scenario="cycles_dups") == (1, 1)


def test_a_soak_runs_once() -> None:
    """Streams that run for long run once, unless the user wants more repeats."""
    assert _repeats("--duration", "10m") == (1, 1)
    assert _repeats("--duration", "9m") == _repeats()
    assert _repeats("--duration", "1h", "--repeats", 2) == (2, 2)


def test_streams_are_expected_to_take_their_time() -> None:
    """The time left of a session with streams is known before any has run."""
    settings = _settings("--duration", "50s", "--repeats", 2)
    with_streams_s = _subject("streams_full_dup").expected_s(settings)
    more_s = with_streams_s - _subject("full_dup").expected_s(settings)
    assert more_s == 2 * (50 + settings.pace.warm_up_s)


@pytest.mark.parametrize(
    ("options", "values", "valid"),
    [
        (
            ("--streams", "--contexts", "--repeats", "--rounds"),
            ("0", "-1", "x", "1.5", "", "inf", "1e3", "1000001", "9" * 39),
            "a whole number from 1 to ",
        ),
        (("--queue",), ("-1", "0.5", "1001"), "a whole number from 0 to 1,000"),
        (("--fps",), ("-1", "nan", "inf", "1e9"), "a number from 0 to 1,000"),
        (
            ("--sample-hz", "--time-limit"),
            ("0", "-1", "x", "nan", "inf", "", "1e10"),
            "a number from 0.001 to ",
        ),
        (
            ("--duration",),
            ("", "0", "0.5", "-3", "2d", "1 h", "1h30m", "inf", "nan", "1e9"),
            "a time from 1s to 720h, as 90, 90s, 2m, 1h",
        ),
    ],
)
def test_numbers_that_are_not_valid(
    options: tuple[str, ...], values: tuple[str, ...], valid: str
) -> None:
    """The message quotes the value and tells what is valid."""
    for option in options:
        for value in values:
            with pytest.raises(argparse.ArgumentError) as refusal:
                _option(f"{option}={value}")
            assert f"{option}: {value!r} is not valid; valid: {valid}" in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--streams=64", "--contexts=17"),
            "1,088 contexts are too many; valid: up to 1,024 in all",
        ),
        (("--rounds=1000000",), "1,000,000 rounds of 12 contexts are too many"),
        (
            ("--streams=100", "--contexts=1", "--fps=101"),
            "100 streams of 101 frames per second are too many",
        ),
    ],
)
def test_more_than_a_session_can_hold(words: tuple[str, ...], problem: str) -> None:
    """Numbers that are valid alone are refused if they are too large together."""
    with pytest.raises(UserError, match=problem):
        _settings(*words)


def test_as_many_infer_at_once_as_there_are_cores_of_what_infers() -> None:
    """The cores are the usable CPUs of a CPU and the cores of an NPU; an unknown NPU has one."""
    on_chip = _settings(chip="rk3588")
    elsewhere = _settings()
    assert on_chip.parameters("onnxruntime", ()).cores == len(os.sched_getaffinity(0))
    assert on_chip.parameters("rknn", ()).cores == 3
    assert elsewhere.parameters("rknn", ()).cores == 1


def test_a_kernel_without_pss(tmp_path: Path) -> None:
    """If neither smaps_rollup nor smaps can be read, nothing is measured, and the kernel's option
    is named.
    """
    check_kernel(LOCAL_HOST)
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/self").symlink_to("77")
    with pytest.raises(UserError, match="CONFIG_PROC_PAGE_MONITOR=y"):
        check_kernel(LocalHost(tmp_path))


def test_models_of_the_options(tmp_path: Path) -> None:
    """--model and --resolution arrive with the target's chip, and must exist; --quick takes other
    networks.
    """
    model, first, second, weightless = (
        tmp_path / f"{name}.rknn" for name in ("m", "a", "b", "b-weightless")
    )
    words = (
        "--model",
        model,
        "--resolution",
        first,
        "--resolution",
        f"{second},{weightless}",
        "--streams",
        2,
    )
    for path in (model, first, second, weightless):
        with pytest.raises(UserError, match=f"{path}: it does not exist"):
            _models(*words, targets=_BOARD)
        path.write_bytes(b"model")
    models = _models(*words, targets=_BOARD)
    assert (models.streams, models.chip, list(models.files)) == (2, "rk3588", [ModelFile(model)])
    assert list(models.resolutions) == [
        ModelFile(first, "--resolution"),
        ModelFile(second, "--resolution", weightless),
    ]
    default, quick = (_models(*options).built_in for options in ((), ("--quick",)))
    assert default != quick
    for built_in, count in ((default, 5), (quick, 3)):
        assert len(built_in.in_turn) > 1
        assert len({name for name, _ in built_in.resolutions}) == 1
        assert len(set(built_in.resolutions)) == count


def test_files_with_floating_point() -> None:
    """--float reaches the converter; if nothing is converted, it is refused with what to add."""
    assert not _models("--float", targets=_BOARD).user.quantised
    assert _models(targets=_BOARD).user.quantised
    with pytest.raises(UserError, match=r"--float is for .*add --runtime rknn"):
        _models("--float")


@pytest.mark.parametrize(
    "option",
    [
        ("--model", "m"),
        ("--resolution", "m"),
        ("--shape", "1x3"),
        ("--inputs", "f"),
        ("--streams", 2),
        ("--contexts", 2),
    ],
)
def test_a_plan_says_itself_what_options_say(tmp_path: Path, option: tuple[str, object]) -> None:
    """Both together are refused before a file is read."""
    with pytest.raises(
        UserError, match=rf"--plan says itself what {option[0]} says: leave {option[0]} out"
    ):
        resolve_plan_files(_option("--plan", tmp_path / "none.toml", *option))


def test_without_a_plan_there_are_none() -> None:
    """The options of built-in scenarios do not concern plans."""
    assert resolve_plan_files(_option("--model", "m", "--streams", 2)) == ()
