"""The video that streams play, and mistakes in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from reusebench.harness.errors import NoModels, UserError
from reusebench.harness.measuring import videos as videos_module
from reusebench.harness.measuring.videos import Videos
from reusebench.targets.target import THIS_INTERPRETER
from reusebench.video import VideoError
from reusebench.video.clip import Clip
from tests.helpers.support import known

_COMPUTES_NOTHING = dataclasses.replace(THIS_INTERPRETER, computes=False, decodes=False)
_DESCRIBED = {"codec": "h264", "width": 64, "height": 48, "fps": 30.0, "frames": 15}


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """Return the list of interpreters and files that are described; no interpreter is started."""
    calls: list[tuple[str, Path]] = []

    def describe(interpreter: str, path: Path) -> dict[str, object]:
        calls.append((interpreter, path))
        return _DESCRIBED

    monkeypatch.setattr(videos_module, "probe_with", describe)
    return calls


def test_a_video_is_described_once_for_each_interpreter(
    tmp_path: Path, described: list[tuple[str, Path]]
) -> None:
    """Runtimes of one Python share the description; it names the file by its content, too."""
    file = tmp_path / "a.mp4"
    copy = tmp_path / "b.mp4"
    for path in (file, copy):
        path.write_bytes(b"frames")
    videos = Videos({"one": THIS_INTERPRETER, "other": THIS_INTERPRETER}, file)
    video = known(videos.of("one"))
    assert videos.of("other") == video
    assert len(described) == 1
    assert (video.name, video.width, video.frames) == ("a.mp4", 64, 15)
    again = known(Videos({"one": THIS_INTERPRETER}, copy).of("one"))
    assert again.digest == video.digest


def test_nothing_is_decoded_where_nothing_computes(
    tmp_path: Path, described: list[tuple[str, Path]]
) -> None:
    """The virtual board needs no video."""
    assert Videos({"rknn": _COMPUTES_NOTHING}, tmp_path / "none.mp4").of("rknn") is None
    assert described == []


def test_a_video_of_the_user_that_cannot_be_read_stops_the_session(tmp_path: Path) -> None:
    """The error names the option and the file."""
    videos = Videos({"one": THIS_INTERPRETER}, tmp_path / "none.mp4")
    for _ in range(2):
        with pytest.raises(UserError, match=r"--video .*none\.mp4: ") as caught:
            videos.of("one")
        assert not isinstance(caught.value, NoModels)


def test_without_the_default_clip_streams_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the default clip cannot be made, the rest of the session goes on."""

    def fail(_: Clip) -> Path:
        raise VideoError("no encoder")

    monkeypatch.setattr(videos_module, "ensure_clip", fail)
    with pytest.raises(NoModels, match="no encoder"):
        Videos({"one": THIS_INTERPRETER}).of("one")
