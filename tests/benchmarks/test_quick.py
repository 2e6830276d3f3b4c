"""The quick form of the scripts in benchmarks/."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.__main__ import Ended, scripts
from benchmarks.quick import SKIPPED, own_folder, parse, skip
from tests.helpers.support import CHECKOUT

_FOLDER = CHECKOUT / "benchmarks"
#: Modules that are no scripts, or run the others.
_OTHERS = {"quick", "texts", "__main__"}


def _options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--storage", type=Path, required=True)
    parser.add_argument("files", nargs="+")
    return parse(parser, words, lambda: ["--count=1", "--storage=made", "tiny.onnx"])


def test_every_script_is_found() -> None:
    """Each module and package with a main is run; others are imported only."""
    modules = {path.stem for path in _FOLDER.glob("*.py")}
    packages = {path.parent.name for path in _FOLDER.glob("*/__main__.py")}
    assert set(scripts()) == (modules | packages) - _OTHERS


@pytest.mark.parametrize("name", scripts())
def test_every_script_has_a_quick_form(name: str) -> None:
    """Each takes its options by the helper that adds --quick."""
    path = _FOLDER / name / "__main__.py" if (_FOLDER / name).is_dir() else _FOLDER / f"{name}.py"
    assert " = parse(" in path.read_text(encoding="utf-8")


def test_each_program_in_c_is_run_by_its_script() -> None:
    """A program in C has the name of the script that compiles it."""
    programs = {path.stem for path in _FOLDER.glob("*.c")}
    assert programs <= set(scripts())


def test_quick_stands_for_a_scripts_cheap_options() -> None:
    """--quick needs no other options, not even required ones."""
    options = _options("--quick")
    assert (options.count, options.storage, options.files) == (1, Path("made"), ["tiny.onnx"])
    assert options.quick


def test_options_overrule_those_of_quick() -> None:
    """Other options override those of --quick."""
    assert _options("--quick", "--count=5").count == 5


def test_without_quick_nothing_is_made() -> None:
    """The quick options, which may make files, are computed only with --quick."""
    options = _options("--storage=mine", "my.onnx")
    assert (options.count, options.files, options.quick) == (100, ["my.onnx"], False)


def test_what_is_missing_ends_a_script_as_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code shows that it was skipped, and the last line has the reason."""
    with pytest.raises(SystemExit) as ended:
        skip("no C compiler")
    assert ended.value.code == SKIPPED
    assert capsys.readouterr().out == "no C compiler\n"


def test_a_folder_of_ones_own_is_new() -> None:
    """Two calls of a script share no results."""
    assert own_folder() != own_folder()


def test_a_script_that_worked_is_a_line_with_its_time() -> None:
    """The output means nothing and is not shown."""
    ended = Ended("far_speed", 0, 2.53, "a table\n")
    assert str(ended).split() == ["far_speed", "2.5", "s"]
    assert not ended.has_failed


def test_a_skipped_script_says_why() -> None:
    """The last line of the output is the reason; a skipped script is no failure."""
    ended = Ended("recorder_overhead", SKIPPED, 0.1, "something\nno C compiler\n")
    assert str(ended).split(maxsplit=1) == ["recorder_overhead", "skipped: no C compiler"]
    assert not ended.has_failed


@pytest.mark.parametrize(
    ("code", "words"), [(1, "exit code 1"), (-9, "exit code -9"), (None, "no end within 600 s")]
)
def test_a_failed_script_shows_the_end_of_its_output(code: int | None, words: str) -> None:
    """An exit code other than 0 and SKIPPED, or the time limit, is a failure."""
    lines = [f"line {number}" for number in range(1000)]
    ended = Ended("fit_accuracy", code, 1.0, "\n".join([*lines, "ValueError: an error"]))
    first, *rest = str(ended).splitlines()
    assert words in first
    assert rest[-1] == "    ValueError: an error"
    assert len(rest) < 100
    assert ended.has_failed
