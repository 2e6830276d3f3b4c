"""What an interpreter says of a video, and what the harness asks of another one through it."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from video.describe import main
from video.errors import VideoError
from video.probe import describe_with

_CLIP = {"codec": "h264", "width": 160, "height": 96, "fps": 10.0, "frames": 20}


def test_a_file_is_described(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As one line of JSON."""
    assert main(str(clip)) == 0
    assert json.loads(capsys.readouterr().out) == _CLIP


def test_a_mistake_is_one_sentence(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, with exit code 2 and without a traceback."""
    assert main(str(sound)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"{sound} has no video stream, only sound or the like. Give a file with pictures\n"


def test_the_harness_asks_the_interpreter_that_measures(
    clip: Path, sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the description, or the sentence, wherever the harness was started."""
    monkeypatch.chdir(clip.parent)
    assert describe_with(sys.executable, Path(clip.name)) == _CLIP
    with pytest.raises(VideoError, match=r"^/.*sound.mp4 has no video stream, only sound"):
        describe_with(sys.executable, sound)
    with pytest.raises(VideoError, match="cannot be read with /absent/python"):
        describe_with("/absent/python", clip)


def test_a_python_without_pyav_is_said(clip: Path, tmp_path: Path) -> None:
    """With what to do about it, for an own environment and for MegEngine's."""
    venv.create(tmp_path / "bare", with_pip=False)
    with pytest.raises(
        VideoError, match=r"bare/bin/python cannot import PyAV.* pip install av; .*models install megengine$"
    ):
        describe_with(str(tmp_path / "bare" / "bin" / "python"), clip)


def test_the_harness_maps_no_libraries_of_the_measured_process() -> None:
    """What it imports brings neither av nor numpy."""
    code = "import video.probe, video.clip, sys; sys.exit(bool({'av', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode == 0


def test_the_measured_process_imports_little_with_it() -> None:
    """Decoder and letterbox bring PyAV and no numpy, hashlib or ctypes, and nothing of the harness."""
    code = (
        "import video.decoder, video.letterbox, sys; "
        "print(*({'numpy', 'ctypes', 'hashlib', 'models', 'subprocess'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
