"""Candidate inputs for models whose files leave sizes free that the user does not give.

Free sizes get usual values, the likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

from reusebench.measured.runtimes.base import TEXT, DeclaredTensor, InputData, Interface
from reusebench.models.errors import ModelError

__all__ = ["Given", "candidates", "fits", "shape_text"]

#: Picture sizes (height, width) to try if both sides are free, the most usual first: those of
#: detectors and segmentation networks, of classifiers, and of networks that read a line of text.
_PICTURES = (
    (640, 640),
    (320, 320),
    (224, 224),
    (48, 320),
    (512, 512),
    (256, 256),
    (32, 100),
    (128, 128),
)
_CLASSIFIER_PICTURE = (224, 224)
_TEXT_LINE_PICTURE = (48, 320)
#: Fewest characters that a network reading text has probabilities for.
_FEWEST_CHARACTERS = 30
#: Sizes to try, by what the dimension counts: for example the width of a line of text, or the
#: samples of 1 s or 32 ms of speech.
_SIZES = {
    "batch": (1,),
    "channels": (3, 1),
    "line": (320, 640, 160),
    "tokens": (128, 64, 512, 16, 1),
    "samples": (16000, 512, 32000, 1536, 576),
    # Samples of networks with recurrent state, which take a short piece at a time.
    "piece": (512, 576, 1536, 16000, 160),
    "frames": (100, 64, 200, 16),
    "past": (0, 1),
    "other": (1, 16, 128),
}
#: Dimensions that are lengths of sequences, which another input may give as a number.
_LENGTHS = ("tokens", "samples", "piece", "frames")
#: Counted things by a pattern for the name of a free size; the first match wins.
_COUNTS_PAST = re.compile("past|cache")
_NAMES = (
    ("past", _COUNTS_PAST),
    ("batch", re.compile(r"batch|^n$|^bs?$")),
    ("samples", re.compile("sample|audio|wav")),
    ("frames", re.compile("time|frame|^t$")),
    ("tokens", re.compile("seq|token|len|words")),
    ("side", re.compile("height|width|^h$|^w$")),
)
#: Names that exporters write for a size without a name; two such sizes need not be equal.
_NAMELESS = re.compile(r"|\?|-1|None")
_CHANNELS = (1, 3, 4)
#: Largest height of a picture that is a line of text.
_LINE_HEIGHT = 64
#: Keys of metadata with the sides of pictures, as written by Ultralytics (imgsz) and others.
_SIDES_KEYS = ("imgsz", "image_size", "img_size", "input_size", "input_shape")

#: Names of inputs that need other values than noise: a recurrent state at its beginning, a mask
#: that hides nothing, samples per second, the length of a sequence.
_STATE = re.compile(r"state|hidden|cache|past|memory|^[hc](0|_?in|_?n|_?t|_?prev)?$", re.IGNORECASE)
_FIRST_STATE = re.compile(r"^[hc]_?0$", re.IGNORECASE)
_MASK = re.compile("mask", re.IGNORECASE)
_RATE = re.compile(r"^sr$|sampl\w*_?rate", re.IGNORECASE)
_LENGTH = re.compile(r"len(gth)?s?$", re.IGNORECASE)
_SAMPLES_PER_SECOND = 16000


@dataclass(frozen=True)
class Given:
    """An input as the user gives it."""

    shape: tuple[int, ...]
    #: The .npy file of the elements, and their type; None if only the shape is given.
    file: Optional[str] = None
    type: Optional[str] = None


def candidates(interface: Interface, given: Mapping[str, Given]) -> list[tuple[InputData, ...]]:
    """Return candidates for the inputs, the likeliest first; only one if no size is assumed.

    Raises ModelError if the user's inputs contradict the file.
    """
    for tensor in interface.inputs:
        if tensor.name in given:
            _check(tensor, given[tensor.name])
    allowed = _allowed_shapes(interface, given)
    attempts: list[tuple[InputData, ...]] = []
    for number in range(len(_PICTURES)):
        attempt = _Attempt(interface, given, number, allowed).inputs()
        attempts.append(attempt)
        if number == 0:
            # A table that integers index may have one row.
            attempts.append(tuple(_with_zeros(tensor) for tensor in attempt))
    return list(dict.fromkeys(attempts))


def shape_text(shape: Sequence[Union[int, str]]) -> str:
    """Return a shape in the form of --shape: 1x3x640x640; a free size is "?"."""
    return "x".join("?" if isinstance(size, str) else str(size) for size in shape) or "a scalar"


def fits(tensor: DeclaredTensor, shape: Sequence[int]) -> bool:
    """Whether the input may have the shape, given the sizes in the file."""
    if not tensor.dimensions:
        return True  # a tensor of unknown rank looks like a scalar
    if len(shape) != len(tensor.dimensions):
        return False
    pairs = zip(tensor.dimensions, shape)
    return all(isinstance(declared, str) or declared == size for declared, size in pairs)


def _allowed_shapes(
    interface: Interface, given: Mapping[str, Given]
) -> Mapping[str, tuple[int, ...]]:
    """Return the first of the file's shapes that match the user's; empty if it allows any shape."""
    names = [tensor.name for tensor in interface.inputs]
    choices = [dict(zip(names, shapes)) for shapes in interface.shapes]
    for shapes in choices:
        if all(name not in given or given[name].shape == shape for name, shape in shapes.items()):
            return shapes
    if not choices:
        return {}

    lines = []
    for shapes in choices:
        lines.append(" ".join(f"{name}={shape_text(shape)}" for name, shape in shapes.items()))
    raise ModelError(f"the file allows these shapes alone: {', '.join(lines)}")


def _check(tensor: DeclaredTensor, given: Given) -> None:
    if not fits(tensor, given.shape):
        raise ModelError(
            f"input {tensor.name!r} is {shape_text(tensor.dimensions)}, not"
            f" {shape_text(given.shape)}"
        )
    if given.type not in (None, tensor.type, *tensor.also):
        types = " or ".join((tensor.type, *tensor.also))
        raise ModelError(f"input {tensor.name!r} takes {types}, and its data are {given.type}")


class _Attempt:
    """One attempt at the free sizes of a model; the first one has the most usual sizes."""

    def __init__(
        self,
        interface: Interface,
        given: Mapping[str, Given],
        number: int,
        allowed: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._interface = interface
        self._given = given
        self._number = number
        #: Shapes to use if the file allows only some; otherwise empty.
        self._allowed = allowed
        self._sides = _sides(interface.metadata)
        self._pictures = _pictures(interface.outputs)
        self._states = {
            tensor.name for tensor in interface.inputs if _is_state(tensor, interface.outputs)
        }
        #: Chosen sizes by name; a name stands for one size in all inputs.
        self._named: dict[str, int] = {}
        #: The length of the longest sequence.
        self._longest = 1

    def inputs(self) -> tuple[InputData, ...]:
        """Return the inputs, in the file's order."""
        # The user's inputs come first: they give sizes of others. Sums come last: they need them.
        order = sorted(
            self._interface.inputs,
            key=lambda tensor: (tensor.name not in self._given, _has_sum(tensor)),
        )
        inputs = {tensor.name: self._input(tensor) for tensor in order}
        return tuple(self._with_value(inputs[tensor.name]) for tensor in self._interface.inputs)

    def _input(self, tensor: DeclaredTensor) -> InputData:
        """Return the input with all sizes chosen, and remember these sizes."""
        data = self._given.get(tensor.name)
        shape: list[int] = []
        free = []
        for index, declared in enumerate(tensor.dimensions):
            if isinstance(declared, int):
                shape.append(declared)
                continue
            size = data.shape[index] if data else self._size(tensor, index, declared)
            free.append(index)
            shape.append(size)
            self._named.setdefault(declared, size)
            if self._counted(tensor, index) in _LENGTHS:
                self._longest = max(self._longest, size)
        if data:
            return InputData(tensor.name, data.type or tensor.type, data.shape, file=data.file)
        return InputData(tensor.name, tensor.type, tuple(shape), assumed=tuple(free))

    def _size(self, tensor: DeclaredTensor, index: int, name: str) -> int:
        """Return the size for a free dimension with this name."""
        if tensor.name in self._allowed:
            return self._allowed[tensor.name][index]
        if name in self._named and not _NAMELESS.fullmatch(name):
            return self._named[name]

        # A sum as in "past_length + length", if the sizes of all terms are chosen.
        names = [term.strip() for term in name.split("+")]
        terms = [str(self._named.get(term, term)) for term in names]
        if len(terms) > 1 and all(term.isdigit() for term in terms):
            return sum(int(term) for term in terms)

        counted = self._counted(tensor, index)
        if counted == "side":
            return self._side(tensor, index)
        return self._usual(counted)

    def _counted(self, tensor: DeclaredTensor, index: int) -> str:
        """Return the thing that a free size counts in this model, "side" or a key of _SIZES."""
        name = str(tensor.dimensions[index]).lower()
        if tensor.name in self._states and not _COUNTS_PAST.search(name):
            return "batch"
        counted = _counted(tensor, index)
        if counted == "samples" and self._states:
            return "piece"
        return counted

    def _usual(self, counted: str) -> int:
        sizes = _SIZES[counted]
        return sizes[min(self._number, len(sizes) - 1)]

    def _side(self, tensor: DeclaredTensor, index: int) -> int:
        """Return the side of a picture: from the metadata, from the other side, or a usual one."""
        axes = _picture_axes(tensor)
        is_width = axes[-1:] == (index,)
        if self._sides and self._number == 0:
            return self._sides[-1] if is_width else self._sides[0]

        for axis in axes:
            other_side = tensor.dimensions[axis]
            if axis == index or not isinstance(other_side, int):
                continue
            if other_side <= _LINE_HEIGHT:
                return self._usual("line")
            if self._number == 0:
                return other_side
        return self._pictures[self._number][is_width]

    def _with_value(self, tensor: InputData) -> InputData:
        """Return the input with the value that its name suggests; None means noise."""
        if tensor.file is not None or tensor.type == TEXT:
            return tensor
        is_integer = tensor.type in ("int32", "int64", "bool")
        value = None
        if _RATE.search(tensor.name):
            value = _SAMPLES_PER_SECOND
        elif tensor.name in self._states:
            value = 0
        elif _LENGTH.search(tensor.name) and is_integer:
            value = self._longest
        elif is_integer or _MASK.search(tensor.name):
            # Nearly every table has a second row, and index 1 does not mean padding.
            value = 1
        return replace(tensor, value=value)


def _has_sum(tensor: DeclaredTensor) -> bool:
    """Whether a size is a sum of others, as in "past_length + length"."""
    return any(isinstance(size, str) and "+" in size for size in tensor.dimensions)


def _counted(tensor: DeclaredTensor, index: int) -> str:
    """Return the thing that a free size counts, by its name, otherwise by its position."""
    name = str(tensor.dimensions[index]).lower()
    rank = len(tensor.dimensions)
    for counted, pattern in _NAMES:
        if pattern.search(name):
            is_sound = counted == "tokens" and "float" in tensor.type and index == 1 and rank == 2
            return "samples" if is_sound else counted

    if (index == 0 and rank > 1) or tensor.type == TEXT:
        return "batch"
    axes = _picture_axes(tensor)
    if index in axes:
        return "side"
    if axes:
        return "channels" if index == 1 else "other"
    if "int" in tensor.type:
        return "tokens"
    return {1: "samples", 2: "samples", 3: "frames"}.get(rank, "other")


def _picture_axes(tensor: DeclaredTensor) -> tuple[int, ...]:
    """Return the axes of height and width; empty if the input is no picture."""
    sizes = tensor.dimensions
    rank = len(sizes)
    if rank == 3 and sizes[0] in _CHANNELS:
        return (1, 2)
    if rank < 4:
        return ()
    if rank == 4 and sizes[3] in _CHANNELS:
        return (1, 2)
    if sizes[1] in _CHANNELS:
        return (rank - 2, rank - 1)
    if rank == 4 and all(isinstance(size, str) for size in sizes[1:]):
        return (2, 3)
    return ()


def _sides(metadata: Mapping[str, str]) -> tuple[int, ...]:
    """Return height and width from the file's metadata; empty if they are not there."""
    for key in _SIDES_KEYS:
        numbers = tuple(int(digits) for digits in re.findall(r"\d+", metadata.get(key, "")))
        if numbers:
            return numbers[-2:]
    return ()


def _pictures(outputs: Sequence[DeclaredTensor]) -> list[tuple[int, int]]:
    """Return the picture sizes to try, those of networks with such outputs first."""
    first = _PICTURES[0]
    if outputs and all(len(tensor.dimensions) == 2 for tensor in outputs):
        first = _CLASSIFIER_PICTURE
    if any(_is_read_text(tensor) for tensor in outputs):
        first = _TEXT_LINE_PICTURE
    return [first, *(picture for picture in _PICTURES if picture != first)]


def _is_read_text(tensor: DeclaredTensor) -> bool:
    """Whether an output has probabilities of characters, for a free number of positions."""
    if len(tensor.dimensions) != 3:
        return False
    _, positions, characters = tensor.dimensions
    if not isinstance(positions, str) or not isinstance(characters, int):
        return False
    return characters >= _FEWEST_CHARACTERS


def _is_state(tensor: DeclaredTensor, outputs: Sequence[DeclaredTensor]) -> bool:
    """Whether the input is recurrent state: its name says so, and an output has its next value.

    An initial state needs no such output.
    """
    if "float" not in tensor.type or not _STATE.search(tensor.name):
        return False
    if _FIRST_STATE.search(tensor.name):
        return True
    return any(_can_be_equal(tensor.dimensions, output.dimensions) for output in outputs)


def _can_be_equal(shape: Sequence[Union[int, str]], other: Sequence[Union[int, str]]) -> bool:
    """Whether two shapes are equal, if free sizes are chosen so."""
    if len(shape) != len(other):
        return False
    for size, other_size in zip(shape, other):
        if isinstance(size, int) and isinstance(other_size, int) and size != other_size:
            return False
    return True


def _with_zeros(tensor: InputData) -> InputData:
    """Return the input with 0 in place of 1 if it is an index into a table."""
    if tensor.value == 1 and tensor.type in ("int32", "int64"):
        return replace(tensor, value=0)
    return tensor
