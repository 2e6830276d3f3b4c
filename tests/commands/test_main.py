"""`reusebench` itself: its help, its completion, what it needs to be installed, and how its
commands end.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
import pytest

from reusebench.commands import COMMANDS, main
from reusebench.harness.extras import EXTRAS, install_line
from tests.helpers.support import CHECKOUT, Ended, Reusebench
from tests.reports.stored import full_run

pytestmark = pytest.mark.process

#: Runs commands without the modules of the first argument; prints their exit codes at the end.
_WITHOUT = """
import json, sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
from reusebench.commands import main
exit_codes = []
for arguments in json.loads(sys.argv[2]):
    try:
        main(arguments, prog_name="reusebench")
    except SystemExit as ended:
        exit_codes.append(ended.code)
print(json.dumps(exit_codes))
"""
#: Heavy for a board, and pages that the measured process would share: only what needs them may
#: import them.
_HEAVY = ("numpy", "onnxruntime", *(name for modules in EXTRAS.values() for name in modules))


def _tree(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Yield the context of the command and of all below it."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from _tree(subcommand, click.Context(subcommand, info_name=name, parent=context))


def test_the_help_fits_a_screen(reusebench: Reusebench) -> None:
    """24 lines of 80 characters name every command."""
    lines = reusebench("--help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [
        line.split()[0] for line in lines[lines.index("Commands:") + 1 :][: len(COMMANDS)]
    ] == list(COMMANDS)
    assert "_REUSEBENCH_COMPLETE=bash_source reusebench" in lines[-1]


def test_every_option_is_explained() -> None:
    """Each command and option of the tree has a help text, and no line of one is over 100
    characters.
    """
    contexts = list(_tree(main, click.Context(main, info_name="reusebench")))
    assert len(contexts) > len(COMMANDS)
    for context in contexts:
        lines = context.get_help().splitlines()
        assert context.command.help, lines[0]
        assert max(map(len, lines)) <= 100, lines[0]
        options = [option for option in context.command.params if isinstance(option, click.Option)]
        assert [option.name for option in options if not option.help] == [], lines[0]


def test_the_base_installation_is_enough(tmp_path: Path) -> None:
    """The commands of a board import none of the extras, and neither numpy nor a runtime."""
    full_run(tmp_path)
    storage = ["--storage", str(tmp_path)]
    # One configuration of the stored run failed: the export is not whole.
    commands = {
        ("--help",): 0,
        ("runs", "list", *storage): 0,
        ("export", "--format", "csv", "--metric", "latency", *storage): 1,
        ("record", *storage, "--", "true"): 0,
        ("models", "list"): 0,
        ("board", "install", "--help"): 0,
        ("runs", "prune", "--keep", "1", *storage): 0,
        ("doctor",): 1,
    }
    words = [sys.executable, "-c", _WITHOUT, ",".join(_HEAVY), json.dumps(list(commands))]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    *exit_codes, of_doctor = json.loads(done.stdout.splitlines()[-1])
    # A runtime may be in an environment of its own.
    assert [*exit_codes, max(of_doctor, 1)] == list(commands.values()), done.stderr


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no extra installed."""
    for extra in EXTRAS:
        monkeypatch.setitem(EXTRAS, extra, ("no_such_module",))


@pytest.mark.usefixtures("without_extras")
def test_a_command_whose_libraries_are_missing(tmp_path: Path, reusebench: Reusebench) -> None:
    """It is refused with the line that installs them; its help too."""
    names = [name for name, subcommand in COMMANDS.items() if subcommand.extra == "reports"]
    assert names == ["report", "compare", "history", "metrics", "glossary"]
    for name in names:
        sentence = "Error: this command needs no_such_module: pip install no_such_module\n"
        assert reusebench(name, "--help") == Ended(2, "", sentence)
    done = reusebench("models", "clip", "--output", tmp_path / "clip.mp4")
    assert done == Ended(
        2, "", f"Error: this command needs no_such_module: {install_line('streams')}\n"
    )


def test_what_is_looked_for_is_what_is_installed() -> None:
    """pyproject.toml installs modules of reports, frames and Parquet always, those of streams
    as an extra.
    """
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 is the first that reads TOML")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    installed = {requirement.partition(">")[0] for requirement in project["dependencies"]}
    assert {*EXTRAS["reports"], *EXTRAS["frames"], *EXTRAS["parquet"]} <= installed
    assert {requirement.partition(">")[0] for requirement in extras["streams"]} == set(
        EXTRAS["streams"]
    )
    assert project["scripts"] == {"reusebench": "reusebench.commands:main"}


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("reusebench r", ["report", "record", "runs"]),
        ("reusebench runs ", ["compact", "expand", "list", "prune"]),
        ("reusebench export --format be", ["bencher"]),
        ("reusebench export --metric npu_", ["npu_memory", "npu_peak", "npu_left"]),
        # Without its extra: nothing, and no complaint between the user's words.
        ("reusebench report --s", []),
    ],
)
@pytest.mark.usefixtures("without_extras")
def test_completion(
    words: str, completed: list[str], monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """The shell passes the words in a variable."""
    monkeypatch.setenv("_REUSEBENCH_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    done = reusebench()
    assert done.err == ""
    assert [line.partition(",")[2] for line in done.out.split()] == completed


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    """A closed reader, such as `| head`, gives no message and the exit code of SIGPIPE."""
    full_run(tmp_path)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "reusebench", "runs", "list", "--storage", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_mistakes_on_the_command_line(reusebench: Reusebench) -> None:
    """They end with exit code 2, the usage and a sentence."""
    for arguments in (("fly",), ("report", "--fly"), ("runs", "list", "now")):
        done = reusebench(*arguments)
        assert (done.exit_code, done.out) == (2, "")
        assert done.err.startswith("Usage: reusebench ")
        assert done.err.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize(
    ("words", "proposal"),
    [
        (("reprot",), "there is no command 'reprot'; the nearest is report; valid: bench, "),
        (("runs", "lst"), "there is no command 'lst'; the nearest is list; valid: "),
        (("models", "install", "x"), "there is no command 'x'; valid: "),
        (("runs", "list", "--newst", "3"), "--newest"),
    ],
)
def test_a_wrong_name_gets_the_nearest(
    words: tuple[str, ...], proposal: str, reusebench: Reusebench
) -> None:
    """Commands and options alike."""
    done = reusebench(*words)
    assert (done.exit_code, done.out) == (2, "")
    assert proposal in done.err


def test_a_former_name_works_with_a_hint(tmp_path: Path, reusebench: Reusebench) -> None:
    """The output is that of the name of today."""
    full_run(tmp_path)
    today = reusebench("runs", "list", "--newest", 1, "--storage", tmp_path)
    former = reusebench("runs", "list", "--limit", 1, "--storage", tmp_path)
    hint = "Hint: --limit is now --newest; the former name is gone in 0.3\n"
    assert former == Ended(today.exit_code, today.out, f"{hint}{today.err}")


_LIST = (sys.executable, "-m", "reusebench", "runs", "list", "--storage")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
def test_an_output_that_takes_nothing(tmp_path: Path, output: str, unbuffered: str) -> None:
    """A full one and a closed one are a sentence, also of the help."""
    full_run(tmp_path)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    for command in ((*_LIST, str(tmp_path)), (*_LIST[:3], "--help")):
        shell = ["sh", "-c", f'"$@" {output}', "sh", *command]
        done = subprocess.run(
            shell, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("Error: standard output ")


def test_an_output_of_ascii(tmp_path: Path) -> None:
    """Characters outside its alphabet are escaped."""
    full_run(tmp_path)
    command = [
        *_LIST[:3],
        "report",
        "--storage",
        str(tmp_path),
        "--output",
        str(tmp_path / "out"),
        "--lang",
        "zh-CN",
    ]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(
        [*command, "--format", "csv"],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"\\u" in done.stdout


def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    """It is said in a sentence."""
    gone = tmp_path / "gone"
    gone.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    shell = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *_LIST, str(tmp_path)]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr.splitlines()[-1]
        == "Error: the working folder is gone; change to one that is there"
    )


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench) -> None:
    """A lack of memory during imports is a sentence; other faults of a module are not the
    user's. If the address space is limited, a library in C may have lost the reason.
    """

    def fail(error: Exception) -> Ended:
        def load(_: str) -> NoReturn:
            raise error

        monkeypatch.setattr(importlib, "import_module", load)
        return reusebench("report")

    lost = SystemError("error return without exception set")
    with pytest.raises(SystemError):
        fail(lost)
    no_limit = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (500 << 20, no_limit))
    for error in (
        MemoryError(),
        lost,
        ImportError("pandas/ops.so: failed to map segment from shared object"),
    ):
        ended = fail(error)
        assert (ended.exit_code, ended.out) == (2, "")
        assert ended.err.startswith("Error: too little memory for this command; ")
    with pytest.raises(ImportError, match="no name"):
        fail(ImportError("cannot import: no name"))
