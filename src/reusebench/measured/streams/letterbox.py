"""Scales frames into a context's input.

Runs in the measured process: standard library and PyAV, Python 3.8.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, NamedTuple

import av
from av.video.reformatter import Colorspace, Interpolation, VideoReformatter

from reusebench.measured.runtimes.base import ImageInput, NotSupported

__all__ = ["Letterbox"]

#: Grey of the borders, as YOLO has it (ultralytics, LetterBox).
_GREY = 114
#: SWS_ACCURATE_RND (libswscale/swscale.h). Without it FFmpeg takes a short cut from YUV to planar
#: RGB if nothing is scaled, which was seen to leave chance values in the last columns. It costs no
#: time. PyAV before 14 takes no flags.
_ACCURATE = 0x40000
#: Area interpolation counts each pixel of the source alike: right for scaling far down, and as fast
#: as bilinear.
_AREA: Any = Interpolation.AREA
_INTERPOLATION = int(_AREA) | _ACCURATE if isinstance(_AREA, int) else _AREA
#: Positions of red, green and blue in FFmpeg's planar RGB, which has green first.
_PLANES_OF_RGB = (2, 0, 1)


class _Type(NamedTuple):
    """FFmpeg's names for elements of a type."""

    size_bytes: int
    grey: bytes
    #: Formats with 3 planes and with 1.
    planar: str
    single: str


_TYPES = {
    "float32": _Type(4, struct.pack("=f", _GREY / 255), "gbrpf32le", "grayf32le"),
    "uint8": _Type(1, bytes((_GREY,)), "gbrp", "gray"),
}
#: Argument against threads: from version 17 on PyAV scales on all cores by default; before, it has
#: no threads.
_ONE_THREAD: Dict[str, int] = {}
if int(av.__version__.partition(".")[0]) >= 17:
    _ONE_THREAD["threads"] = 1


class _Area(NamedTuple):
    """The area of the picture in the input, in pixels."""

    left: int
    top: int
    width: int
    height: int


class Letterbox:
    """The image input of one context, which frames are scaled into: centred on grey, aspect kept.

    Values are RGB (brightness if there is one channel), 0..255, or 0..1 as floats. Not thread-safe.
    The input's memory must outlive it.
    """

    def __init__(self, image: ImageInput) -> None:
        self._image = image
        self._type = _type_of(image)
        self._in_planes = image.layout == "nchw" or image.channels == 1
        self._format = self._type.single if image.channels == 1 else self._type.planar
        if not self._in_planes and image.type == "uint8":
            self._format = "rgb24"
        #: Keeps its scaling tables for one size of frame.
        self._reformatter = VideoReformatter()
        self._source = (0, 0)
        self._area = _Area(0, 0, 0, 0)

    def fill(self, frame: Any) -> None:
        """Write the frame (av.VideoFrame) into the input; borders are painted when the size
        changes.
        """
        if (frame.width, frame.height) != self._source:
            self._fit(frame.width, frame.height)
        picture = self._scaled(frame)
        if self._format == "rgb24":
            self._put_rows(picture.planes[0], self._area.top, self._image.channels)
        elif self._image.channels == 1:
            self._put_rows(picture.planes[0], self._area.top, 1)
        else:
            for channel, index in enumerate(_PLANES_OF_RGB):
                self._put_plane(picture.planes[index], channel)

    def _fit(self, width: int, height: int) -> None:
        """Compute the area of frames of this size, and paint the input grey."""
        image = self._image
        self._area = _centred(width, height, image.width, image.height)
        self._source = (width, height)
        rows = image.height
        row = self._type.grey * image.width
        if self._in_planes:
            rows *= image.channels
        else:
            row *= image.channels
        for number in range(rows):
            start = number * image.pitch_bytes
            image.memory[start : start + len(row)] = row

    def _scaled(self, frame: Any) -> Any:
        """Return the picture in RGB, by the frame's own matrix.

        PyAV before 17 uses that matrix if another one is requested; for an RGB picture the
        requested matrix has no meaning.
        """
        return self._reformatter.reformat(
            frame,
            self._area.width,
            self._area.height,
            self._format,
            interpolation=_INTERPOLATION,
            dst_colorspace=Colorspace.ITU601,
            **_ONE_THREAD,
        )

    def _put_plane(self, plane: Any, channel: int) -> None:
        if self._in_planes:
            self._put_rows(plane, channel * self._image.height + self._area.top, 1)
        else:
            self._put_between(plane, channel)

    def _put_rows(self, plane: Any, first_row: int, channels: int) -> None:
        """Copy rows whose elements are as in the plane, `channels` of them per pixel."""
        pixel = channels * self._type.size_bytes
        memory = self._image.memory
        pitch = self._image.pitch_bytes
        source = memoryview(plane)
        source_pitch = plane.line_size
        row = self._area.width * pixel
        start = first_row * pitch + self._area.left * pixel
        height = self._area.height
        if source_pitch == pitch == row:
            row = row * height
            height = 1
        for number in range(height):
            target = start + number * pitch
            begin = number * source_pitch
            memory[target : target + row] = source[begin : begin + row]

    def _put_between(self, plane: Any, channel: int) -> None:
        """Copy floats into pixels whose channels are side by side."""
        source = memoryview(plane).cast("f")
        source_pitch = plane.line_size // self._type.size_bytes
        target = self._image.memory.cast("f")
        pitch = self._image.pitch_bytes // self._type.size_bytes
        width = self._area.width
        channels = self._image.channels
        start = self._area.top * pitch + self._area.left * channels + channel
        for number in range(self._area.height):
            first = start + number * pitch
            begin = number * source_pitch
            target[first : first + width * channels : channels] = source[begin : begin + width]


def _type_of(image: ImageInput) -> _Type:
    if image.type not in _TYPES:
        raise NotSupported("frame_input_type", type=image.type, valid=", ".join(_TYPES))
    return _TYPES[image.type]


def _centred(width: int, height: int, target_width: int, target_height: int) -> _Area:
    """Return the area for a picture of this size: as large as fits, centred."""
    scale = min(target_width / width, target_height / height)
    scaled_width = min(target_width, max(1, round(width * scale)))
    scaled_height = min(target_height, max(1, round(height * scale)))
    left = (target_width - scaled_width) // 2
    top = (target_height - scaled_height) // 2
    return _Area(left, top, scaled_width, scaled_height)
