"""Short clips that the tests of videos share, made once per session."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import pytest

from reusebench.video.clip import Clip
from reusebench.video.encoder import write_clip


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clip of 20 frames of 160x96 pixels."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    write_clip(Clip(160, 96, fps=10, seconds=2.0), str(path))
    return path


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with nothing but sound."""
    path = tmp_path_factory.mktemp("clips") / "sound.mp4"
    with av.open(str(path), "w", format="mp4") as container:
        stream: Any = container.add_stream("aac", rate=48000)
        for number in range(4):
            frame = av.AudioFrame(format="fltp", layout="mono", samples=1024)
            frame.sample_rate = 48000
            frame.pts = 1024 * number
            frame.planes[0].update(bytes(frame.planes[0].buffer_size))
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="session")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that writes 20 frames, each of a brightness of its own, into a container of
    a format.
    """

    def encode(
        name: str, container_format: str, b_frames: int = 0, codec: str = "libx264", **options: str
    ) -> Path:
        path = tmp_path_factory.mktemp("clips") / name
        with av.open(str(path), "w", format=container_format, options=options) as container:
            stream: Any = container.add_stream(codec, rate=10)
            stream.width = 64
            stream.height = 48
            stream.pix_fmt = "yuv420p"
            stream.codec_context.max_b_frames = b_frames
            stream.codec_context.gop_size = 5
            for number in range(20):
                frame = av.VideoFrame(64, 48, "yuv420p")
                for plane, value in zip(frame.planes, (brightness(number), 128, 128)):
                    plane.update(bytes((value,)) * plane.buffer_size)
                frame.pts = number
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path

    return encode


def brightness(number: int) -> int:
    """Return the value of all pixels of that frame."""
    return 20 + 10 * number


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """Leave what the tests before have made out of garbage collections, of which a decoder makes
    one for each loop.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
