"""The letterbox against plain references: pixels, borders, layouts, types and padding."""

from __future__ import annotations

import itertools
from typing import Any

import av
import numpy as np
import pytest

from reusebench.measured.runtimes.base import ImageInput, NotSupported
from reusebench.measured.streams.letterbox import Letterbox

#: Initial value of the memory, which must stay in the padding.
_UNTOUCHED = 0xA5
#: SWS_AREA | SWS_ACCURATE_RND of FFmpeg's libswscale/swscale.h.
_AREA_ACCURATE = 0x40020
_LAYOUTS = list(itertools.product(("nchw", "nhwc"), ("float32", "uint8"), (3, 1)))
#: Frames that are as large as the input one way, smaller, larger, flat, upright and odd.
_SIZES = [(64, 40), (40, 64), (31, 17), (200, 113), (333, 7), (20, 90), (64, 64), (16, 16)]


def _frame(width: int, height: int, form: str = "rgb24") -> Any:
    """Return a frame of noise."""
    noise = np.random.default_rng(width * height).integers(
        0, 256, (height, width, 3), dtype=np.uint8
    )
    return av.VideoFrame.from_ndarray(noise, format="rgb24").reformat(format=form)


def _input(layout: str, element: str, channels: int, size: int = 64, behind: int = 0) -> ImageInput:
    item = np.dtype(element).itemsize
    row = size * item * (channels if layout == "nhwc" else 1)
    rows = size * (channels if layout == "nchw" else 1)
    memory = bytearray(bytes((_UNTOUCHED,)) * (rows * (row + behind) - behind))
    return ImageInput(memoryview(memory), size, size, channels, layout, element, row + behind)


def _pixels(image: ImageInput) -> Any:
    """Return the written picture, as height x width x channels; padding must be untouched."""
    channels_in_row = image.channels if image.layout == "nhwc" else 1
    row = image.width * channels_in_row * np.dtype(image.type).itemsize
    whole = bytes(image.memory) + bytes((_UNTOUCHED,)) * (image.pitch_bytes - row)
    rows = np.frombuffer(whole, np.uint8).reshape(-1, image.pitch_bytes)
    assert (rows[:, row:] == _UNTOUCHED).all()
    values = np.ascontiguousarray(rows[:, :row]).view(image.type)
    if image.layout == "nhwc":
        return values.reshape(image.height, image.width, image.channels)
    return values.reshape(image.channels, image.height, image.width).transpose(1, 2, 0)


def _plane(plane: Any, element: str, channels: int = 1) -> Any:
    """Return the rows of FFmpeg's plane without padding."""
    rows = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size)[: plane.height]
    used = np.ascontiguousarray(rows[:, : plane.width * channels * np.dtype(element).itemsize])
    return used.view(element).reshape(plane.height, plane.width, channels)


def _reference(
    frame: Any, width: int, height: int, layout: str, element: str, channels: int
) -> Any:
    """Return the scaled picture as height x width x channels, in the same form of FFmpeg's."""
    form = {
        ("float32", 3): "gbrpf32le",
        ("uint8", 3): "gbrp",
        ("float32", 1): "grayf32le",
        ("uint8", 1): "gray",
    }
    name = (
        "rgb24" if (layout, element, channels) == ("nhwc", "uint8", 3) else form[element, channels]
    )
    scaled = frame.reformat(
        width, height, name, interpolation=_AREA_ACCURATE, dst_colorspace="ITU601"
    )
    if len(scaled.planes) == 1:
        return _plane(scaled.planes[0], element, channels)
    green, blue, red = (_plane(each, element) for each in scaled.planes)
    return np.concatenate([red, green, blue], axis=2)


@pytest.mark.parametrize("size", _SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("behind", [0, 12])
@pytest.mark.parametrize(("layout", "element", "channels"), _LAYOUTS)
def test_the_input_is_the_scaled_frame_on_grey(
    layout: str, element: str, channels: int, behind: int, size: tuple[int, int]
) -> None:
    """Equal bit for bit at every position, layout and type; padding is not written."""
    image = _input(layout, element, channels, behind=behind)
    frame = _frame(*size, form="yuv420p")
    Letterbox(image).fill(frame)
    scale = min(64 / size[0], 64 / size[1])
    width, height = (max(1, round(side * scale)) for side in size)
    expected = np.full(
        (64, 64, channels), 114 if element == "uint8" else np.float32(114 / 255), element
    )
    top = (64 - height) // 2
    left = (64 - width) // 2
    expected[top : top + height, left : left + width] = _reference(
        frame, width, height, layout, element, channels
    )
    assert np.array_equal(_pixels(image), expected)


@pytest.mark.parametrize(("layout", "element", "channels"), _LAYOUTS)
@pytest.mark.parametrize("size", [(40, 64), (44, 64), (200, 113)])
def test_equal_frames_give_equal_pixels(
    layout: str, element: str, channels: int, size: tuple[int, int]
) -> None:
    """Whatever the memory held before: outputs of contexts are compared by their digests."""
    frame = _frame(*size, form="yuv420p")
    pictures = set()
    for value in range(0, 256, 51):
        dirty = [np.full((96, 64, 64), value, np.uint8) for _ in range(2)]
        del dirty
        image = _input(layout, element, channels)
        Letterbox(image).fill(frame)
        pictures.add(bytes(image.memory))
    assert len(pictures) == 1


@pytest.mark.parametrize(
    ("layout", "element"), [("nchw", "float32"), ("nchw", "uint8"), ("nhwc", "uint8")]
)
def test_red_is_first_and_values_are_those_of_the_pixels(layout: str, element: str) -> None:
    """A frame of one colour comes out as it is: 0..255, or the same in 0..1."""
    colour = np.array([250, 130, 10], np.uint8)
    image = _input(layout, element, 3)
    Letterbox(image).fill(av.VideoFrame.from_ndarray(np.tile(colour, (64, 64, 1)), format="rgb24"))
    pixels = _pixels(image) * (255 if element == "float32" else 1.0)
    assert np.abs(pixels - colour).max() <= 1.5


def test_scaling_down_takes_the_mean_of_an_area() -> None:
    """Each pixel of the source counts alike, so that fine noise does not flicker from frame to
    frame.
    """
    noise = np.random.default_rng(1).integers(0, 256, (256, 256), dtype=np.uint8)
    image = _input("nchw", "uint8", 1)
    Letterbox(image).fill(av.VideoFrame.from_ndarray(noise, format="gray"))
    means = noise.reshape(64, 4, 64, 4).mean(axis=(1, 3))
    assert np.abs(_pixels(image)[:, :, 0] - means).max() <= 1.0


def test_the_colours_are_by_the_matrix_of_the_video() -> None:
    """A frame of BT.709, as high definition is, is not taken for BT.601, whatever PyAV's
    version.
    """
    colours = []
    for matrix in (1, 5):
        frame = av.VideoFrame(64, 64, "yuv420p")
        for plane, value in zip(frame.planes, (100, 90, 200)):
            plane.update(bytes((value,)) * plane.buffer_size)
        frame.colorspace = matrix
        image = _input("nhwc", "uint8", 3)
        Letterbox(image).fill(frame)
        colours.append(_pixels(image)[32, 32].tolist())
    # The matrices of ITU-R BT.709 and BT.601 apply, for the limited range.
    assert np.abs(np.array(colours) - [[227, 67, 17], [213, 54, 21]]).max() <= 4


def test_a_frame_of_another_size_gets_new_borders() -> None:
    """Nothing of the frame before is left in them."""
    image = _input("nchw", "uint8", 3)
    letterbox = Letterbox(image)
    for size in ((64, 64), (64, 20), (20, 64)):
        letterbox.fill(_frame(*size))
    assert (_pixels(image)[:, :22] == 114).all()
    assert (_pixels(image)[:, 42:] == 114).all()


def test_borders_are_written_once() -> None:
    """A frame of the same size writes its own pixels alone."""
    image = _input("nhwc", "uint8", 3)
    letterbox = Letterbox(image)
    letterbox.fill(_frame(64, 32))
    image.memory[:3] = b"abc"
    letterbox.fill(_frame(64, 32))
    assert bytes(image.memory[:3]) == b"abc"


@pytest.mark.parametrize("element", ["float16", "int8", "float64"])
def test_other_types_are_refused(element: str) -> None:
    """The message has the valid values."""
    with pytest.raises(NotSupported, match=rf"an input of {element}; valid: float32, uint8"):
        Letterbox(_input("nchw", element, 3))
