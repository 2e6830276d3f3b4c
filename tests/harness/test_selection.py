"""The runtimes that are measured, and the target of each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from reusebench.harness import selection
from reusebench.harness.errors import UserError
from reusebench.harness.selection import (
    add_selection_options,
    chip_of,
    resolve_targets,
    selected_runtimes,
    selection_of,
)
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.targets import interpreters
from reusebench.targets.errors import TargetError
from reusebench.targets.resolve import Selection
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.support import own_environment


def _selection(*arguments: object) -> Selection:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_selection_options(parser.add_argument)
    parser.add_argument("--model", action="append", type=Path)
    return selection_of(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the runtimes of this Python, which a test fills; none has an environment
    of its own.
    """
    names: set[str] = set()
    monkeypatch.setattr(interpreters, "available", lambda entry: entry.name in names)
    monkeypatch.setattr(interpreters, "_own_environment", lambda _: None)
    return names


def test_runtimes_by_name(here: set[str]) -> None:
    """Without a name all runtimes here are measured; a name given twice counts once, and the order
    is the user's.
    """
    here.add("onnxruntime")
    assert selected_runtimes(_selection()) == ["onnxruntime"]
    assert selected_runtimes(
        _selection("--runtime", "onnxruntime", "--runtime", "onnxruntime")
    ) == ["onnxruntime"]
    assert selected_runtimes(_selection("--runtime", "rknn", "--runtime", "onnxruntime")) == [
        "rknn",
        "onnxruntime",
    ]
    with pytest.raises(
        argparse.ArgumentError, match=r"unknown runtime 'onnx'; valid: onnxruntime, .*, rknn"
    ):
        _selection("--runtime", "onnx")


def test_a_runtime_that_is_not_installed(here: set[str]) -> None:
    """A named runtime that is missing is an error with the command that installs it, whatever else
    there is.
    """
    here.add("onnxruntime")
    for name, words in (
        ("megengine_lite", "make bench-megengine"),
        ("rknn", "--rknn-library FILE"),
    ):
        with pytest.raises(UserError, match=rf"^--runtime {name} is not here: .*{words}"):
            resolve_targets(_selection("--runtime", "onnxruntime", "--runtime", name))


@pytest.mark.usefixtures("here")
@pytest.mark.process
def test_no_runtime_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is selected; the error of the targets names the Python, another one in the user's
    words.
    """
    monkeypatch.setattr(
        selection,
        "RUNTIMES",
        (RuntimeEntry("none", "None", "none", "no_such_module", "", "cpu", (".none",)),),
    )
    target = f"python:{sys.executable}"
    for options, python in (
        ((), r"this Python\."),
        (("--target", target), f"the Python of --target {target}"),
    ):
        assert selected_runtimes(_selection(*options)) == []
        with pytest.raises(UserError, match=f"no runtime is installed for {python}"):
            resolve_targets(_selection(*options))


def test_each_runtime_has_its_interpreter(
    here: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A runtime of this Python runs here; one with an environment of its own runs there, under the
    same target name.
    """
    here.add("onnxruntime")
    python = tmp_path / "python"
    monkeypatch.setattr(interpreters, "_own_environment", own_environment("megengine_lite", python))
    targets = resolve_targets(_selection())
    assert {name: target.command[0] for name, target in targets.items()} == {
        "onnxruntime": sys.executable,
        "megengine_lite": str(python),
    }
    assert targets["onnxruntime"].command == THIS_INTERPRETER.command
    assert {target.name for target in targets.values()} == {"python"}


def test_a_target_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the targets is a mistake of the user, with the option; runtimes may be named or
    not.
    """

    def refuse(wanted: Selection, _: RuntimeEntry) -> Target:
        raise TargetError(f"--target {wanted.target}: not with {wanted.rknn_library}")

    monkeypatch.setattr(selection, "parse_target", refuse)
    for named in ((), ("--runtime", "rknn")):
        option = _selection("--target", "vboard:rk1", "--rknn-library", "librknnrt.so", *named)
        with pytest.raises(UserError, match=r"^--target vboard:rk1: not with librknnrt\.so$"):
            resolve_targets(option)
    assert selected_runtimes(_selection("--target", "vboard:rk1")) == []


def test_the_chip_of_a_session() -> None:
    """The chip is that of the target that has one."""
    assert chip_of({"one": THIS_INTERPRETER}) is None
    assert (
        chip_of({"one": THIS_INTERPRETER, "other": Target("board", ("true",), chip="rk3588")})
        == "rk3588"
    )
