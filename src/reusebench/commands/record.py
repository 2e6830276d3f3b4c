"""`reusebench record`: measures any program, as `pytest bench/` measures scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from reusebench.commands.options import PATH, project, target_storage
from reusebench.commands.sites import BoardFiles, board_files, site_of
from reusebench.recorder.marker import HEADERS
from reusebench.recorder.site import LOCAL_SITE
from reusebench.recorder.task import Task, record_program

__all__ = ["record"]


def _name(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not (text.strip() and text.isprintable()):
        raise click.BadParameter(
            f"{text!r} is not valid; valid: printable characters, at least one"
        )
    return text and text.strip()


def _print_header(context: click.Context, option: click.Parameter, language: str | None) -> None:
    if language is not None:
        click.echo(HEADERS[language].read_text(encoding="utf-8"), nl=False)
        context.exit()


# Words after the command's first word belong to it, even if they look like options.
@click.command(
    options_metavar="[OPTIONS] {-- CMD... | --pid PID | --header LANGUAGE}",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--name",
    metavar="NAME",
    callback=_name,
    help="Name of the program in reports. Default: the command's base name.",
)
@click.option(
    "--phases",
    type=PATH,
    metavar="FILE",
    help="File to which the program appends names of phases; in its REUSEBENCH_PHASES.",
)
@click.option(
    "--marker",
    type=click.IntRange(3, 255),
    metavar="FD",
    help=(
        "Descriptor to which it writes them instead, and may read an answer (--header); in its"
        " REUSEBENCH_MARKER."
    ),
)
@click.option(
    "--header",
    type=click.Choice(tuple(HEADERS)),
    is_eager=True,
    expose_value=False,
    callback=_print_header,
    help='Print a file with reusebench_phase("name") for the program, and exit.',
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Runs of the program, one after another.",
)
@click.option(
    "--ok-exit",
    "ok_exits",
    type=click.IntRange(0, 255),
    metavar="N",
    multiple=True,
    help="This exit code is a success, as 0 is, and ours is 0 then; repeatable.",
)
@click.option(
    "--pid",
    type=click.IntRange(1),
    metavar="PID",
    help="Record this running process instead, until it ends or Ctrl-C.",
)
@click.option(
    "--target",
    metavar="BOARD",
    help=(
        "The board on which the program runs: vboard:CHIP, vboard:rocket, or a remote board by name"
        " or address (ssh:HOST, adb[:SERIAL], pipe:COMMAND, labgrid:PLACE)."
    ),
)
@board_files
@target_storage
@project
@click.argument("command", metavar="", nargs=-1, type=click.UNPROCESSED)
def record(
    name: str | None,
    phases: Path | None,
    marker: int | None,
    repeats: int,
    ok_exits: Sequence[int],
    pid: int | None,
    target: str | None,
    rknn_library: Path | None,
    readable: Sequence[Path],
    writable: Sequence[Path],
    storage: Path,
    project: Path,
    command: Sequence[str],
) -> int:
    """Measure a program: everything after -- is its command line.

    Its input, output and exit code are passed through. Memory of all its processes, of the system
    and of the NPU is stored by phase, as a run that reports show and compare. A phase begins when
    the program writes its name, as a line, to the file of --phases or to the descriptor of
    --marker.
    """
    if pid is None and not command:
        raise click.UsageError("there is no program: put it after --, or give --pid PID")
    if pid is not None and command:
        raise click.UsageError(
            "--pid records a program that runs already: leave out -- and what follows, or --pid"
        )
    if pid is not None and marker is not None:
        raise click.UsageError(
            "--marker needs a program that is started here; with --pid marks come by --phases FILE"
        )
    if pid is not None and repeats > 1:
        raise click.UsageError(
            "--repeats needs a program that is started here; --pid records one run"
        )
    if pid is not None and ok_exits:
        raise click.UsageError(
            "--ok-exit needs a program that is started here; with --pid the exit code is unknown"
        )
    if pid is not None and target is not None and target.startswith("vboard:"):
        raise click.UsageError(
            "--pid records a program that runs already, and the virtual board has none: put the"
            " program after --"
        )
    if phases and marker is not None:
        raise click.UsageError(
            "marks come by --phases FILE or by --marker FD: leave one of them out"
        )
    task = Task(
        site=LOCAL_SITE,
        name=name,
        command=command,
        pid=pid,
        phases=phases,
        marker=marker,
        repeats=repeats,
        ok_exits=frozenset(ok_exits),
        storage=storage,
        project=project,
    )
    files = BoardFiles(rknn_library, tuple(readable), tuple(writable))
    with site_of(target, command, files) as site:
        return record_program(replace(task, site=site))
