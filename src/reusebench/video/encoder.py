"""Encodes the default clip, the view of a camera on a slowly swaying pole, in H.264 and MP4.

It runs in a separate process, since it imports PyAV.
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

#: Encoders by FFmpeg's names, best first. Threads and preset are fixed, so that the file does not
#: depend on the machine.
_ENCODERS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "superfast", "threads": "2"},
    "libopenh264": {},
    "h264_rkmpp": {},
    "h264_v4l2m2m": {},
}
#: Bits per pixel of a 1080p camera with 6 Mbit/s at 30 frames per second.
_BITS_PER_PIXEL = 6_000_000 / (1920 * 1080 * 30)
#: Least bit rate, which keeps tiny clips recognisable.
_LEAST_BIT_RATE = 100_000

#: Octaves of a texture: the pixels that a sample covers each way, and the bits that random values
#: replace.
_OCTAVES = ((96, 0xFF), (16, 0x3F), (4, 0x0F))


def _levels(low: int, high: int) -> bytes:
    """Return a table that maps the values of a texture to levels from `low` to `high`."""
    return bytes(low + value * (high - low) // 255 for value in range(256))


#: Levels of brightness and of colours, which are weak outdoors.
_LUMA = _levels(24, 224)
_CHROMA = _levels(96, 160)
#: The picture is a window into a texture that is larger by this margin, and sways within it.
_MARGIN = 64
#: Objects that cross the picture: divisors of its width and height, and steps in pixels per frame,
#: right and down.
_OBJECTS = ((6, 4, 7, 2), (8, 3, -5, 3), (5, 6, 3, -4), (10, 8, -9, -1))
#: Lowest bits of the brightness, which the noise of the sensor replaces.
_NOISE_BITS = 0x07
#: Number of noise pictures, which are used in turn.
_NOISES = 7


def write_clip(clip: Clip, output: str) -> None:
    """Write the complete clip, or nothing; raise VideoError if that fails."""
    try:
        with written_whole(Path(output)) as path:
            _write_with_any(clip, path)
    except CacheError as error:
        raise VideoError(str(error)) from None


def _write_with_any(clip: Clip, path: Path) -> None:
    """Try one encoder after another: some are compiled in but lack their hardware."""
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
        bit_rate = round(_BITS_PER_PIXEL * clip.width * clip.height * clip.fps)
        stream.bit_rate = max(_LEAST_BIT_RATE, bit_rate)
        # A key frame every second and no frames out of order, as cameras send them.
        stream.codec_context.gop_size = clip.fps
        stream.codec_context.max_b_frames = 0
        for frame in _frames(clip):
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _frames(clip: Clip) -> Iterator[Any]:
    """Yield the pictures: textures that move, the same on every machine."""
    luma = _Scene(clip, scale=1, seed=1, levels=_LUMA)
    blue = _Scene(clip, scale=2, seed=2, levels=_CHROMA)
    red = _Scene(clip, scale=2, seed=3, levels=_CHROMA)
    pixels = clip.width * clip.height
    noises = [_noise(pixels, random.Random(seed), _NOISE_BITS) for seed in range(_NOISES)]
    for number in range(clip.frames):
        frame = av.VideoFrame(clip.width, clip.height, "yuv420p")
        noise = noises[number % _NOISES]
        _put(frame.planes[0], _with_noise(luma.at(number), noise, _NOISE_BITS), clip.width)
        _put(frame.planes[1], blue.at(number), clip.width // 2)
        _put(frame.planes[2], red.at(number), clip.width // 2)
        frame.pts = number
        yield frame


class _Scene:
    """One plane of the pictures: a window that sways over a texture, crossed by pieces of it.

    A sample of the plane covers `scale` pixels each way; `levels` is a table of its 256 levels.
    """

    def __init__(self, clip: Clip, scale: int, seed: int, levels: bytes) -> None:
        self._width = clip.width // scale
        self._height = clip.height // scale
        self._scale = scale
        self._pitch = self._width + _MARGIN
        self._texture = _texture(self._pitch, self._height + _MARGIN, seed, levels)

    def at(self, number: int) -> bytearray:
        """Return the plane of the frame with this number, row by row."""
        right = _there_and_back(number * 2, _MARGIN) // self._scale
        down = _there_and_back(number, _MARGIN) // self._scale
        plane = bytearray()
        for row in range(self._height):
            plane += self._row(right, down + row, self._width)

        for width_divisor, height_divisor, step_right, step_down in _OBJECTS:
            width = self._width // width_divisor
            height = self._height // height_divisor
            left = _there_and_back(number * step_right // self._scale, self._width - width)
            top = _there_and_back(number * step_down // self._scale, self._height - height)
            for row in range(height):
                start = (top + row) * self._width + left
                plane[start : start + width] = self._row(width_divisor, height_divisor + row, width)
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
    samples = b"".join(rows[row * plane.line_size :][:width] for row in range(height))
    return samples.translate(levels)


def _with_noise(samples: bytes | bytearray, noise: int, bits: int) -> bytes:
    """Return the samples with these bits replaced, as one large number: fast without numpy."""
    kept = int.from_bytes(bytes((0xFF - bits,)) * len(samples), "little")
    return ((int.from_bytes(samples, "little") & kept) | noise).to_bytes(len(samples), "little")


def _noise(size: int, numbers: random.Random, bits: int) -> int:
    mask = int.from_bytes(bytes((bits,)) * size, "little")
    return int.from_bytes(numbers.randbytes(size), "little") & mask


def _put(plane: Any, samples: bytes | bytearray, width: int) -> None:
    """Write rows into a plane, which may have padding behind each."""
    padding = bytes(plane.line_size - width)
    if not padding:
        plane.update(samples)
        return
    padded = bytearray()
    for start in range(0, len(samples), width):
        padded += samples[start : start + width]
        padded += padding
    plane.update(padded)
