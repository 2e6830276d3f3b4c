"""Options that several commands of `python -m reports` have."""

from __future__ import annotations

import argparse
from pathlib import Path

from reports.base.texts import LANGUAGES

__all__ = ["add_language", "add_output", "add_storage"]

_OUTPUT = Path("out/report")


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Declare where runs are read."""
    parser.add_argument(
        "--storage",
        type=Path,
        action="append",
        metavar="DIR",
        help="storage of a board, or a folder of several; repeatable; default: this board's",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declare where pages and tables are written."""
    parser.add_argument(
        "--output", type=Path, metavar="DIR", default=_OUTPUT, help=f"folder of what is written; default: {_OUTPUT}"
    )


def add_language(parser: argparse.ArgumentParser) -> None:
    """Declare the language of the page that is shown first."""
    parser.add_argument("--lang", choices=LANGUAGES, default=LANGUAGES[0], help=f"shown first; default: {LANGUAGES[0]}")
