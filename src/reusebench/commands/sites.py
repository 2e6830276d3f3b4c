"""The machine on which a command runs the user's program, by its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from reusebench.recorder.site import Site
    from reusebench.targets.machine import Reach

__all__ = ["BoardFiles", "board_files", "site_of"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
#: That of commands/options.py, whose imports would delay the start of an applied program.
_PATH = click.Path(path_type=Path)


@dataclass(frozen=True)
class BoardFiles:
    """The files for a program on the virtual board."""

    rknn_library: Path | None = None
    #: Files and folders besides those that its command line names.
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    #: Files of ours.
    own: Reach | None = None

    @property
    def are_given(self) -> bool:
        """Whether the user has named any."""
        return bool(self.rknn_library or self.readable or self.writable)


def board_files(command: _Command) -> _Command:
    """Add the options for the files of a program on the virtual board."""
    options = (
        click.option(
            "--rknn-library",
            type=_PATH,
            metavar="FILE",
            help="Rockchip's library for the virtual board. Default: the newest one that is here.",
        ),
        click.option(
            "--read",
            "readable",
            type=_PATH,
            metavar="PATH",
            multiple=True,
            help=(
                "File or folder that the program on the virtual board reads, besides its own"
                " folder, the working folder and what its command line names; repeatable."
            ),
        ),
        click.option(
            "--write",
            "writable",
            type=_PATH,
            metavar="PATH",
            multiple=True,
            help="Likewise, to which it writes; /tmp is its own. Repeatable.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def site_of(target: str | None, command: Sequence[str], files: BoardFiles) -> Iterator[Site]:
    """Yield this machine, or the board of --target."""
    is_virtual = target is not None and target.startswith("vboard:")
    if files.are_given and not is_virtual:
        raise click.UsageError(
            "--rknn-library, --read and --write are for the virtual board: add --target"
            " vboard:CHIP, or leave them out"
        )
    if target is None:
        from reusebench.recorder.site import LOCAL_SITE

        yield LOCAL_SITE
    elif is_virtual:
        yield _virtual_site(target, command, files)
    else:
        with _far_site(target) as site:
            yield site


# The imports are not at the top: they would add to the memory that is measured on this machine,
# and delay the start of an applied program.


def _virtual_site(target: str, command: Sequence[str], files: BoardFiles) -> Site:
    from reusebench.harness.machine_info import describe_machine
    from reusebench.recorder.virtual_site import VirtualSite
    from reusebench.targets.machine import Reach
    from reusebench.targets.resolve import user_board
    from reusebench.targets.rknn_library import read_library

    library = None if files.rknn_library is None else read_library(files.rknn_library)
    own = files.own or Reach()
    reach = Reach(
        (*_existing(files.readable, "--read"), *own.readable),
        (*_existing(files.writable, "--write"), *own.writable),
    )
    board = user_board(target, library, command, reach)
    facts: dict[str, Any] = {}
    describe_machine(target, facts)
    return VirtualSite(board, facts)


def _existing(paths: Sequence[Path], option: str) -> tuple[str, ...]:
    for path in paths:
        if not path.exists():
            raise click.UsageError(f"{option} {path}: there is no such file or folder")
    return tuple(str(path.resolve()) for path in paths)


@contextmanager
def _far_site(target: str) -> Iterator[Site]:
    from reusebench.harness.machine_info import describe_machine
    from reusebench.recorder.far_site import FarSite
    from reusebench.targets.resolve import far_machine

    with closing(far_machine(target)) as board:
        facts: dict[str, Any] = {}
        describe_machine(target, facts)
        yield FarSite(board, facts)
