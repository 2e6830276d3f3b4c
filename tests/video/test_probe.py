"""The description of a video, by the interpreter that measures."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from reusebench.measured.streams.describe import main
from reusebench.video import VideoError
from reusebench.video.probe import probe_with
from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process

_CLIP = {"codec": "h264", "width": 160, "height": 96, "fps": 10.0, "frames": 20}


def test_a_description_is_one_line_of_json(
    clip: Path, sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake is one line on standard error, with exit code 2 and without a traceback."""
    assert main(str(clip)) == 0
    assert json.loads(capsys.readouterr().out) == _CLIP
    assert main(str(sound)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        printed.err
        == f"{sound} has no video stream, only sound or the like. Give a file with pictures\n"
    )


def test_the_interpreter_that_measures_describes(
    clip: Path, sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness gets the description, or the message, from any working folder."""
    monkeypatch.chdir(clip.parent)
    assert probe_with(sys.executable, Path(clip.name)) == _CLIP
    with pytest.raises(VideoError, match=r"^/.*sound.mp4 has no video stream, only sound"):
        probe_with(sys.executable, sound)
    with pytest.raises(VideoError, match="cannot be read with /absent/python"):
        probe_with("/absent/python", clip)


def test_a_python_without_pyav_is_named(clip: Path, tmp_path: Path) -> None:
    """The message has advice, for the own environment and for MegEngine's."""
    venv.create(tmp_path / "bare", with_pip=False)
    with pytest.raises(
        VideoError,
        match=r"bare/bin/python cannot import PyAV.* pip install av; .*models install megengine$",
    ):
        probe_with(str(tmp_path / "bare" / "bin" / "python"), clip)


@pytest.mark.parametrize(
    ("modules", "foreign"),
    [
        ("reusebench.video.probe, reusebench.video.clip", {"av", "numpy"}),
        (
            "reusebench.measured.streams.decoder, reusebench.measured.streams.letterbox",
            {"numpy", "ctypes", "hashlib", "reusebench.models", "subprocess"},
        ),
    ],
    ids=["harness", "measured"],
)
def test_modules_bring_little_with_them(modules: str, foreign: set[str]) -> None:
    """The harness maps no library of the measured process; that process gets PyAV alone."""
    code = f"import {modules}, sys; print(*({foreign} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []
