"""docs/tutorial.md as a reader follows it: its files, its commands, and the shape of its output.

Blocks of `bash` are run as they stand, in order; blocks with a title are files that the reader
writes; a block of `text` is a part of the output of the commands before it. Blocks of `sh` install
reusebench, and are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.support import CHECKOUT, user_environment

_ENGLISH = CHECKOUT / "docs" / "tutorial.md"
_CHINESE = CHECKOUT / "docs" / "tutorial.zh-CN.md"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d[\d,.]*")
_CHECKSUM = re.compile(r"\b[0-9a-f]{8}\b")


class Block(NamedTuple):
    """A fenced block of the page."""

    language: str
    #: Name of the file that it is; "" if it is none.
    title: str
    text: str


def _blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def _pattern(line: str) -> re.Pattern[str]:
    """Return a pattern for the beginning of a line, with other figures and spaces."""
    words = _NUMBER.sub("0", _CHECKSUM.sub("0", line.replace("...", ""))).split()
    return re.compile(r"\s*" + r"\s+".join(re.escape(word) for word in words))


def _missing(shown: str, output: str) -> list[str]:
    """Return the shown lines that the output lacks, in this order; "..." is any text."""
    lines = [_NUMBER.sub("0", _CHECKSUM.sub("0", line)) for line in output.splitlines()]
    missing = []
    for line in shown.splitlines():
        if line == "...":
            continue
        pattern = _pattern(line)
        found = [number for number, other in enumerate(lines) if pattern.match(other)]
        if found:
            lines = lines[found[0] + 1 :]
        else:
            missing.append(line)
    return missing


def test_both_languages_have_the_same_blocks() -> None:
    """The commands, files and output of the Chinese page are those of the English one."""
    assert _blocks(_CHINESE) == _blocks(_ENGLISH)


def test_output_of_another_shape_is_noticed() -> None:
    """Figures may differ; words and the order of lines may not."""
    output = "collected 2\nfull_dup   95.8 ±0.0 MiB, 27 % less, NOTE\nsum 817308e9\n"
    assert _missing("full_dup  101.25 ±1.5 MiB, 3 % less\n...\nsum 0a0b0c0d", output) == []
    assert _missing("full_dup 95.8 ±0.0 KiB", output) == ["full_dup 95.8 ±0.0 KiB"]
    assert _missing("sum 817308e9\nfull_dup 95.8", output) == ["full_dup 95.8"]


@pytest.mark.slow
@pytest.mark.process
def test_the_tutorial_runs(tmp_path: Path) -> None:
    """Each command of the page works as written, and prints what the page shows."""
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**user_environment(), "PATH": os.pathsep.join(folders)}
    blocks = _blocks(_ENGLISH)
    assert {block.language for block in blocks} == {"sh", "bash", "text", "toml"}
    output = ""
    for block in blocks:
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "bash":
            command = ["bash", "-euo", "pipefail", "-c", block.text]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            output = done.stdout + done.stderr
            assert done.returncode == 0, f"{block.text}\n{output}"
        elif block.language == "text":
            assert _missing(block.text, output) == [], output
    assert (tmp_path / "out" / "report" / "index.html").is_file()
