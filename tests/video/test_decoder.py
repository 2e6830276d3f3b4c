"""The decoder, on real clips: order, loops, damage, threads and the interpreter's lock."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import pytest

from reusebench.measured.runtimes.base import AdapterError, ImageInput
from reusebench.measured.streams.decoder import Decoder, describe
from reusebench.measured.streams.letterbox import Letterbox
from reusebench.video.clip import Clip
from reusebench.video.encoder import write_clip
from tests.video.conftest import brightness

_FRAMES = 20


def _pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _value(frame: Any) -> int:
    """Return the pixel in the middle."""
    plane = frame.planes[0]
    return int(memoryview(plane)[plane.line_size * 24 + 32])


@contextmanager
def _spinner() -> Iterator[list[int]]:
    """Count in another thread, which runs only while the interpreter's lock is released by a
    call.
    """
    count = [0]
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            count[0] += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    thread = threading.Thread(target=spin)
    thread.start()
    sys.setswitchinterval(100)
    try:
        yield count
    finally:
        sys.setswitchinterval(before)
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("name", "container_format", "b_frames"),
    [
        ("plain.mp4", "mp4", 0),
        ("reordered.mp4", "mp4", 2),
        ("stream.ts", "mpegts", 2),
        ("film.mkv", "matroska", 0),
        ("bare.h264", "h264", 0),
    ],
)
def test_frames_come_in_order_and_over_again(
    name: str, container_format: str, b_frames: int, encoded: Callable[..., Path]
) -> None:
    """Each loop gives every frame of the clip once, in the order of display, with its index from 0;
    so does restart.
    """
    decoder = Decoder(str(encoded(name, container_format, b_frames)))
    for _ in range(3):
        for expected in range(_FRAMES):
            index, frame = decoder.next_frame()
            assert index == expected
            assert abs(_value(frame) - brightness(expected)) < 5
    for played in (3, _FRAMES):
        for _ in range(played):
            decoder.next_frame()
        decoder.restart()
        index, frame = decoder.next_frame()
        assert (index, abs(_value(frame) - brightness(0)) < 5) == (0, True)
    decoder.close()


def test_a_seek_that_ends_elsewhere_is_noticed(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the container does not seek to the first frame, the file is reopened for the next loop."""
    decoder = Decoder(str(clip))
    first = [bytes(decoder.next_frame()[1].planes[0]) for _ in range(_FRAMES)]
    container = decoder._container
    stream = decoder._stream

    class SeeksToTheMiddle:
        def seek(self, _offset: int, stream: Any) -> None:
            container.seek(int(1 / stream.time_base), stream=stream)

        def demux(self, stream: Any) -> Any:
            return container.demux(stream)

        def close(self) -> None:
            container.close()

    monkeypatch.setattr(decoder, "_container", SeeksToTheMiddle())
    again = [decoder.next_frame() for _ in range(_FRAMES)]
    assert [index for index, _ in again] == list(range(_FRAMES))
    assert [bytes(frame.planes[0]) for _, frame in again] == first
    assert stream is not decoder._stream
    decoder.close()


def test_frames_outlive_the_next_ones_and_the_decoder(clip: Path) -> None:
    """A frame that waits in a queue stays as it was when the decoder goes on, and when it is
    closed.
    """
    decoder = Decoder(str(clip))
    _, frame = decoder.next_frame()
    before = bytes(frame.planes[0])
    for _ in range(3 * _FRAMES):
        decoder.next_frame()
    decoder.close()
    assert bytes(frame.planes[0]) == before


def test_loops_do_not_grow_memory(encoded: Callable[..., Path]) -> None:
    """A thousand loops take no more memory than two hundred."""
    for path in (encoded("level.mp4", "mp4"), encoded("level.h264", "h264")):
        decoder = Decoder(str(path))
        levels = []
        for loops in (200, 800) if path.suffix == ".mp4" else (50, 150):
            for _ in range(loops * _FRAMES):
                decoder.next_frame()
            levels.append(_pages())
        # A leak per loop would be at least the frames or the index of the file.
        assert levels[1] - levels[0] < 100, path
        decoder.close()


def test_decoding_and_scaling_take_the_thread_that_calls(tmp_path: Path) -> None:
    """They start none of their own; other threads run meanwhile, or four streams would be one."""
    path = tmp_path / "large.mp4"
    write_clip(Clip(1280, 720, fps=10, seconds=0.5), str(path))
    threads = _threads()
    decoder = Decoder(str(path))
    letterbox = Letterbox(
        ImageInput(memoryview(bytearray(640 * 640 * 3)), 640, 640, 3, "nchw", "uint8", 640)
    )
    _, frame = decoder.next_frame()
    for work in (lambda: letterbox.fill(frame), lambda: decoder.next_frame()):
        with _spinner() as count:
            before = count[0]
            for _ in range(40):
                work()
            assert count[0] - before > 20
    assert _threads() == threads
    decoder.close()


def test_damaged_packets_are_passed_over(clip: Path, tmp_path: Path) -> None:
    """The rest is played, with indices without a gap, and the loop goes on."""
    content = bytearray(clip.read_bytes())
    with av.open(str(clip)) as container:
        offsets = [packet.pos for packet in container.demux(video=0) if packet.size]
    for offset in offsets[5:8]:
        # A length field that is longer than the packet.
        content[offset : offset + 4] = b"\x7f\xff\xff\xff"
    path = tmp_path / "damaged.mp4"
    path.write_bytes(content)
    decoder = Decoder(str(path))
    whole = _FRAMES - 3
    assert [decoder.next_frame()[0] for _ in range(3 * whole)] == [*range(whole)] * 3
    decoder.close()


def test_a_clip_that_is_cut_off_is_played_as_far_as_it_goes(
    encoded: Callable[..., Path], tmp_path: Path
) -> None:
    """With the index in front, as cameras stream it, the existing frames are played in a loop."""
    content = encoded("front.mp4", "mp4", movflags="faststart").read_bytes()
    path = tmp_path / "cut.mp4"
    # The encoder's settings, as text, come before the first frame.
    path.write_bytes(content[: len(content) - (len(content) - content.index(b"mdat")) // 4])
    decoder = Decoder(str(path))
    indices = [decoder.next_frame()[0] for _ in range(3 * _FRAMES)]
    assert 0 < max(indices) < _FRAMES - 1
    assert indices.count(0) > 3


def _without_pictures(content: bytes) -> bytes:
    start = content.index(b"mdat") + 4
    end = content.index(b"moov", start) - 4
    return content[:start] + bytes(end - start) + content[end:]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"", "cannot be read as a video.*whole file"),
        (lambda _: b"no video, but words\n" * 99, "cannot be read as a video"),
        (lambda content: content[: len(content) // 2], "cannot be read as a video"),
        (lambda content: content.replace(b"avc1", b"zzzz"), "no decoder for the codec.*ffmpeg -i"),
        (_without_pictures, "no frame of .* can be decoded"),
    ],
)
def test_bad_files(
    damage: Callable[[bytes], bytes], words: str, clip: Path, tmp_path: Path
) -> None:
    """Files without a playable video: empty, another kind, cut short, unknown codec, no frames."""
    path = tmp_path / "bad.mp4"
    path.write_bytes(damage(clip.read_bytes()))
    with pytest.raises(AdapterError, match=words):
        describe(str(path))


def test_paths_without_a_video(sound: Path, tmp_path: Path) -> None:
    """Nothing there, a folder, sound alone."""
    reasons = {
        tmp_path / "absent.mp4": "No such file",
        tmp_path: "Is a directory",
        sound: "only sound",
    }
    for path, reason in reasons.items():
        with pytest.raises(AdapterError, match=reason):
            describe(str(path))


def test_a_path_is_no_url(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colon in a name is a colon, and no protocol."""
    monkeypatch.chdir(tmp_path)
    name = "camera:1 100%.mp4"
    Path(name).symlink_to(clip)
    assert describe(name)["frames"] == _FRAMES


def test_a_description_has_what_a_plan_needs(clip: Path, encoded: Callable[..., Path]) -> None:
    """Codec, size, frames per second and frames; what a container does not say is 0."""
    whole = {"codec": "h264", "width": 160, "height": 96, "fps": 10.0, "frames": 20}
    assert describe(str(clip)) == whole
    assert describe(str(encoded("film.mkv", "matroska")))["frames"] == 0
    assert describe(str(encoded("old.avi", "avi", codec="mpeg4")))["codec"] == "mpeg4"
