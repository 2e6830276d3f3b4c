"""The clip that is made from code: the same every time, alive, in the cache whole or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import reusebench.video.encoder
from reusebench.system.cache import run_in_another_process
from reusebench.video import VideoError
from reusebench.video.clip import Clip, ensure_clip
from reusebench.video.encoder import write_clip

_SMALL = Clip(64, 48, fps=10, seconds=0.5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of clips in a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "reusebench" / "videos"


def test_the_clip_is_the_same_every_time(clip: Path, tmp_path: Path) -> None:
    """The file depends neither on time nor on chance."""
    again = tmp_path / "again.mp4"
    write_clip(Clip(160, 96, fps=10, seconds=2.0), str(again))
    assert again.read_bytes() == clip.read_bytes()


def test_pictures_move_and_have_texture(clip: Path) -> None:
    """Every frame differs from the one before and within itself, so decoding has work to do."""
    with av.open(str(clip)) as container:
        pictures = [
            frame.to_ndarray(format="gray").astype(int) for frame in container.decode(video=0)
        ]
    assert len(pictures) == 20
    assert min(picture.std() for picture in pictures) > 15
    assert min(np.abs(one - other).mean() for one, other in zip(pictures, pictures[1:])) > 2


def test_there_is_a_key_frame_every_second(clip: Path) -> None:
    """The clip is H.264 as from a camera, without reordered frames."""
    with av.open(str(clip)) as container:
        assert container.streams.video[0].codec_context.name == "h264"
        packets: list[Any] = [packet for packet in container.demux(video=0) if packet.size]
    assert [number for number, packet in enumerate(packets) if packet.is_keyframe] == [0, 10]
    assert [packet.pts for packet in packets] == sorted(packet.pts for packet in packets)


@pytest.mark.parametrize("size", [(16, 16), (64, 18), (130, 98)])
def test_small_and_odd_forms_work(size: tuple[int, int], tmp_path: Path) -> None:
    """Small clips for tests can be made too."""
    path = tmp_path / "clip.mp4"
    write_clip(Clip(*size, fps=5, seconds=0.4), str(path))
    with av.open(str(path)) as container:
        assert [(frame.width, frame.height) for frame in container.decode(video=0)] == [size] * 2


@pytest.mark.process
def test_the_cache_has_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers at the same time get one file, made once, also for later ones; leftovers of killed
    ones are removed.
    """
    commands = []

    def run(*command: str) -> None:
        commands.append(command)
        run_in_another_process(*command)

    monkeypatch.setattr("reusebench.video.clip.run_in_another_process", run)
    cache.mkdir(parents=True)
    (cache / ".clip.mp4.1.unfinished").touch()
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(ensure_clip, [_SMALL, _SMALL])
    assert first == second == ensure_clip(_SMALL) == cache / "clip-64x48-10fps-0.5s-v1.mp4"
    assert len(commands) == 1
    assert Clip().file_name == "clip-1920x1080-30fps-10s-v1.mp4"
    assert {path.name for path in cache.iterdir()} == {first.name, ".lock"}


def test_a_cache_that_cannot_be_written_to(cache: Path) -> None:
    """The message has the alternative: a video of the user."""
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    with pytest.raises(
        VideoError, match=r"could not be made: cannot write .* Or give a video .* --video FILE"
    ):
        ensure_clip(_SMALL)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"width": 63}, "the size 63x48; valid: even numbers"),
        ({"height": 8192}, "the size 64x8192; valid: .* from 16 to 4096"),
        ({"fps": 0}, "0 frames per second; valid: 1 to 240"),
        ({"seconds": 0.0}, "a length of 0 s; valid: from one frame"),
        ({"seconds": float("nan")}, "a length of nan s"),
        ({"seconds": float("inf")}, "a length of inf s"),
    ],
)
def test_impossible_clips_are_refused(form: dict[str, Any], words: str) -> None:
    """The message has the given and the valid values."""
    with pytest.raises(VideoError, match=words):
        Clip(**{"width": 64, "height": 48, "fps": 10, "seconds": 0.5, **form})


def test_the_next_encoder_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that is missing or does not start is skipped; if none works, all are named."""
    path = tmp_path / "clip.mp4"
    known = reusebench.video.encoder._ENCODERS
    monkeypatch.setattr(
        reusebench.video.encoder, "_ENCODERS", {"h264_absent": {}, "h264_v4l2m2m": {}, **known}
    )
    write_clip(_SMALL, str(path))
    assert path.exists()
    path.unlink()
    monkeypatch.setattr(
        reusebench.video.encoder, "_ENCODERS", {"h264_absent": {}, "absent_too": {}}
    )
    with pytest.raises(VideoError, match=r"h264_absent: .*; absent_too: .*--video FILE"):
        write_clip(_SMALL, str(path))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    """The clip is refused before anything is encoded."""
    with pytest.raises(VideoError, match=r"cannot write .*absent"):
        write_clip(Clip(), str(tmp_path / "absent" / "clip.mp4"))
