"""Encodes the clip: what a camera on a slowly swaying pole sees, in H.264 and MP4; runs in a
process of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
from av.error import FFmpegError

from reusebench.system.cache import CacheError, written_whole
from reusebench.video import VideoError
from reusebench.video.clip import Clip

__all__ = ["write_clip"]

#: Best first, by FFmpeg's names; threads and preset are fixed, so that the file does not depend on
#: the machine.
_ENCODERS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "superfast", "threads": "2"},
    "libopenh264": {},
    "h264_rkmpp": {},
    "h264_v4l2m2m": {},
}
#: Of a 1080p camera at 30 frames per second: 6 Mbit/s, by pixels.
_BITS_PER_PIXEL = 6_000_000 / (1920 * 1080 * 30)
#: So that tiny clips are pictures as well.
_LEAST_BIT_RATE = 100_000

#: Of the octaves of a texture: a sample covers so many pixels each way, and random values replace
#: these bits of it.
_OCTAVES = ((96, 0xFF), (16, 0x3F), (4, 0x0F))
#: What brightness and colours of a texture become: outdoors colours are weak.
_LUMA, _CHROMA = (
    bytes(low + value * (high - low) // 255 for value in range(256))
    for low, high in ((24, 224), (96, 160))
)
#: The picture is a window into a texture that is larger by this, and sways within it.
_MARGIN = 64
#: Objects that cross the picture: part of its width and height, and steps in pixels per frame,
#: right and down.
_OBJECTS = ((6, 4, 7, 2), (8, 3, -5, 3), (5, 6, 3, -4), (10, 8, -9, -1))
#: What the noise of the sensor replaces: the lowest bits of the brightness.
_NOISE_BITS = 0x07
#: Noise of so many frames is made, and used in turn.
_NOISES = 7


def write_clip(clip: Clip, output: str) -> None:
    """Write the clip, whole or not at all; raise VideoError."""
    try:
        with written_whole(Path(output)) as path:
            _write_with_any(clip, path)
    except CacheError as error:
        raise VideoError(str(error)) from None


def _write_with_any(clip: Clip, path: Path) -> None:
    """Try one encoder after another: some are compiled in and lack their hardware."""
    reasons = []
    for name, options in _ENCODERS.items():
        try:
            _encode(clip, path, name, options)
            return
        except (FFmpegError, ValueError) as error:
            reasons.append(f"{name}: {error}")
    raise VideoError(
        f"PyAV cannot encode H.264 here ({'; '.join(reasons)}): give a video of your own with"
        " --video FILE, or install PyAV's wheel, which has libx264: pip install --only-binary"
        " :all: av"
    )


def _encode(clip: Clip, path: Path, encoder: str, options: dict[str, str]) -> None:
    with av.open(str(path), "w", format="mp4") as container:
        stream: Any = container.add_stream(encoder, rate=clip.fps, options=options)
        stream.width = clip.width
        stream.height = clip.height
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = max(
            _LEAST_BIT_RATE, round(_BITS_PER_PIXEL * clip.width * clip.height * clip.fps)
        )
        # A key frame every second and no frames out of order, as cameras send them.
        stream.codec_context.gop_size = clip.fps
        stream.codec_context.max_b_frames = 0
        for frame in _frames(clip):
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _frames(clip: Clip) -> Iterator[Any]:
    """Yield the pictures: textures that move, the same on every machine."""
    scenes = [_Scene(clip, *plane) for plane in ((1, 1, _LUMA), (2, 2, _CHROMA), (2, 3, _CHROMA))]
    noises = [
        _noise(clip.width * clip.height, random.Random(seed), _NOISE_BITS)
        for seed in range(_NOISES)
    ]
    for number in range(clip.frames):
        luma, *chroma = (scene.at(number) for scene in scenes)
        frame = av.VideoFrame(clip.width, clip.height, "yuv420p")
        _put(frame.planes[0], _with_noise(luma, noises[number % _NOISES], _NOISE_BITS), clip.width)
        for plane, samples in zip(frame.planes[1:], chroma):
            _put(plane, samples, clip.width // 2)
        frame.pts = number
        yield frame


class _Scene:
    """One plane of the pictures: a window that sways over a texture, and pieces of the texture that
    cross it.
    """

    def __init__(self, clip: Clip, scale: int, seed: int, levels: bytes) -> None:
        """Take how many pixels of the picture a sample of the plane covers, each way, and a table
        of its 256 levels.
        """
        self._width = clip.width // scale
        self._height = clip.height // scale
        self._scale = scale
        self._pitch = self._width + _MARGIN
        self._texture = _texture(self._pitch, self._height + _MARGIN, seed, levels)

    def at(self, number: int) -> bytearray:
        """Return the plane of that frame, row by row."""
        right, down = (_there_and_back(number * step, _MARGIN) // self._scale for step in (2, 1))
        plane = bytearray().join(
            self._row(right, down + row, self._width) for row in range(self._height)
        )
        for part_of_width, part_of_height, step_right, step_down in _OBJECTS:
            width = self._width // part_of_width
            height = self._height // part_of_height
            left = _there_and_back(number * step_right // self._scale, self._width - width)
            top = _there_and_back(number * step_down // self._scale, self._height - height)
            for row in range(height):
                start = (top + row) * self._width + left
                plane[start : start + width] = self._row(part_of_width, part_of_height + row, width)
        return plane

    def _row(self, left: int, top: int, width: int) -> bytes:
        start = top * self._pitch + left
        return self._texture[start : start + width]


def _there_and_back(position: int, most: int) -> int:
    """Return the position, from 0 to most, of something that turns at both ends."""
    return most - abs(position % (2 * most) - most) if most else 0


def _texture(width: int, height: int, seed: int, levels: bytes) -> bytes:
    """Return blurred noise of several octaves, row by row."""
    numbers = random.Random(seed)
    picture = av.VideoFrame(1, 1, "gray")
    for grain, bits in _OCTAVES:
        picture = picture.reformat(width // grain + 1, height // grain + 1, interpolation="BICUBIC")
        samples = bytes(picture.planes[0])
        picture.planes[0].update(_with_noise(samples, _noise(len(samples), numbers, bits), bits))
    plane = picture.reformat(width, height, interpolation="BICUBIC").planes[0]
    rows = memoryview(plane)
    return b"".join(rows[row * plane.line_size :][:width] for row in range(height)).translate(
        levels
    )


def _with_noise(samples: bytes | bytearray, noise: int, bits: int) -> bytes:
    """Return the samples with these bits replaced; done on one large number, which is fast without
    numpy.
    """
    kept = int.from_bytes(bytes((0xFF - bits,)) * len(samples), "little")
    return ((int.from_bytes(samples, "little") & kept) | noise).to_bytes(len(samples), "little")


def _noise(size: int, numbers: random.Random, bits: int) -> int:
    mask = int.from_bytes(bytes((bits,)) * size, "little")
    return int.from_bytes(numbers.randbytes(size), "little") & mask


def _put(plane: Any, samples: bytes | bytearray, width: int) -> None:
    """Write rows into a plane, which may have padding behind each."""
    behind = bytes(plane.line_size - width)
    rows = memoryview(samples)
    padded = (
        part
        for start in range(0, len(samples), width)
        for part in (rows[start : start + width], behind)
    )
    plane.update(samples if not behind else b"".join(padded))
