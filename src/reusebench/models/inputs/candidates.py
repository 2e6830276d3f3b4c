"""What inputs are fed with where the model's file leaves sizes free, and the user does not say: the
likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

from reusebench.measured.runtimes.base import TEXT, DeclaredTensor, InputData, Interface
from reusebench.models.errors import ModelError

__all__ = ["Given", "candidates", "fits", "shape_text"]

#: Pictures to try where both sides are free, as height and width, the most usual first: those that
#: detectors and segmentation networks are trained on, classifiers, readers of a line of text.
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
_OF_CLASSIFIERS = (224, 224)
_OF_READERS = (48, 320)
#: A reader of text gives probabilities of so many characters, or more, for each place.
_FEWEST_CHARACTERS = 30
#: What another free size may count, and the sizes to try: the width of a line of text, speech of 1
#: s or 32 ms.
_SIZES = {
    "batch": (1,),
    "channels": (3, 1),
    "line": (320, 640, 160),
    "tokens": (128, 64, 512, 16, 1),
    "samples": (16000, 512, 32000, 1536, 576),
    # With recurrent state networks take a short piece at a time.
    "piece": (512, 576, 1536, 16000, 160),
    "frames": (100, 64, 200, 16),
    "past": (0, 1),
    "other": (1, 16, 128),
}
#: Those that a sequence has, whose length an input may tell.
_LENGTHS = ("tokens", "samples", "piece", "frames")
#: What the name of a free size says that it counts; the first that fits.
_COUNTS_PAST = re.compile("past|cache")
_NAMES = (
    ("past", _COUNTS_PAST),
    ("batch", re.compile(r"batch|^n$|^bs?$")),
    ("samples", re.compile("sample|audio|wav")),
    ("frames", re.compile("time|frame|^t$")),
    ("tokens", re.compile("seq|token|len|words")),
    ("side", re.compile("height|width|^h$|^w$")),
)
#: What exporters write for a size that has no name: two of them need not be equal.
_NAMELESS = re.compile(r"|\?|-1|None")
_CHANNELS = (1, 3, 4)
#: A picture that is no higher is a line of text.
_LINE_HEIGHT = 64
#: Where exporters write the sides of pictures: Ultralytics (imgsz) and others.
_SIDES_KEYS = ("imgsz", "image_size", "img_size", "input_size", "input_shape")

#: Inputs whose names ask for other values than noise: a recurrent state at its beginning, a mask
#: that hides nothing, samples per second, the length of a sequence.
_STATE = re.compile(r"state|hidden|cache|past|memory|^[hc](0|_?in|_?n|_?t|_?prev)?$", re.IGNORECASE)
_FIRST_STATE = re.compile(r"^[hc]_?0$", re.IGNORECASE)
_MASK = re.compile("mask", re.IGNORECASE)
_RATE = re.compile(r"^sr$|sampl\w*_?rate", re.IGNORECASE)
_LENGTH = re.compile(r"len(gth)?s?$", re.IGNORECASE)
_SAMPLES_PER_SECOND = 16000


@dataclass(frozen=True)
class Given:
    """What the user says of an input."""

    shape: tuple[int, ...]
    #: A .npy file of its elements, and their type; None: the shape alone is given.
    file: Optional[str] = None
    type: Optional[str] = None


def candidates(interface: Interface, given: Mapping[str, Given]) -> list[tuple[InputData, ...]]:
    """Return what the inputs may be fed with, the likeliest first; one alone where no more than
    noise is assumed.

    Raises ModelError if what is given contradicts the file.
    """
    for tensor in interface.inputs:
        if tensor.name in given:
            _check(tensor, given[tensor.name])
    allowed = _allowed(interface, given)
    attempts: list[tuple[InputData, ...]] = []
    for number in range(len(_PICTURES)):
        attempt = _Attempt(interface, given, number, allowed).inputs()
        # A table that integers index may have one row.
        attempts += (
            [attempt, tuple(_with_zeros(tensor) for tensor in attempt)]
            if number == 0
            else [attempt]
        )
    return list(dict.fromkeys(attempts))


def shape_text(shape: Sequence[Union[int, str]]) -> str:
    """Return a shape as --shape takes it: 1x3x640x640; a free size is "?"."""
    return "x".join("?" if isinstance(size, str) else str(size) for size in shape) or "a scalar"


def fits(tensor: DeclaredTensor, shape: Sequence[int]) -> bool:
    """Whether the input may have the shape, by the sizes that the file gives."""
    pairs = zip(tensor.dimensions, shape)
    is_equal = all(isinstance(declared, str) or declared == size for declared, size in pairs)
    # A tensor of unknown rank looks like a scalar.
    return is_equal and len(shape) == len(tensor.dimensions or shape)


def _allowed(interface: Interface, given: Mapping[str, Given]) -> Mapping[str, tuple[int, ...]]:
    """Return the first shapes of those that the file allows which are what the user says; nothing
    if it allows any.
    """
    names = [tensor.name for tensor in interface.inputs]
    for shapes in interface.shapes:
        if all(given[name].shape == shape for name, shape in zip(names, shapes) if name in given):
            return dict(zip(names, shapes))
    if interface.shapes:
        lines = [
            " ".join(map("=".join, zip(names, map(shape_text, shapes))))
            for shapes in interface.shapes
        ]
        raise ModelError(f"the file allows these shapes alone: {', '.join(lines)}")
    return {}


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
    """One attempt at the free sizes of a model; the first has the most usual ones."""

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
        #: The shapes that are taken where the file allows some alone.
        self._allowed = allowed
        self._sides = _sides(interface.metadata)
        self._pictures = _pictures(interface.outputs)
        self._states = {
            tensor.name for tensor in interface.inputs if _is_state(tensor, interface.outputs)
        }
        #: What the names of free sizes stand for: one size in all inputs.
        self._named: dict[str, int] = {}
        #: The length of the longest sequence.
        self._longest = 1

    def inputs(self) -> tuple[InputData, ...]:
        """Return the inputs, in the file's order."""
        fed: dict[str, InputData] = {}
        # What is given first, and sums last: both have the sizes of other inputs.
        order = sorted(
            self._interface.inputs,
            key=lambda tensor: (tensor.name not in self._given, _has_sum(tensor)),
        )
        for tensor in order:
            fed[tensor.name] = self._fed(tensor)
        return tuple(self._with_value(fed[tensor.name]) for tensor in self._interface.inputs)

    def _fed(self, tensor: DeclaredTensor) -> InputData:
        data = self._given.get(tensor.name)
        shape: list[int] = []
        free = []
        for index, declared in enumerate(tensor.dimensions):
            if isinstance(declared, int):
                shape.append(declared)
                continue
            free.append(index)
            shape.append(data.shape[index] if data else self._size(tensor, index, declared))
            self._named.setdefault(declared, shape[-1])
            if self._counted(tensor, index) in _LENGTHS:
                self._longest = max(self._longest, shape[-1])
        if data:
            return InputData(tensor.name, data.type or tensor.type, data.shape, file=data.file)
        return InputData(tensor.name, tensor.type, tuple(shape), assumed=tuple(free))

    def _size(self, tensor: DeclaredTensor, index: int, name: str) -> int:
        if tensor.name in self._allowed:
            return self._allowed[tensor.name][index]
        if name in self._named and not _NAMELESS.fullmatch(name):
            return self._named[name]
        terms = [str(self._named.get(term.strip(), term.strip())) for term in name.split("+")]
        if len(terms) > 1 and all(map(str.isdigit, terms)):
            return sum(map(int, terms))
        counted = self._counted(tensor, index)
        return self._usual(counted) if counted != "side" else self._side(tensor, index)

    def _counted(self, tensor: DeclaredTensor, index: int) -> str:
        if tensor.name in self._states and not _COUNTS_PAST.search(
            str(tensor.dimensions[index]).lower()
        ):
            return "batch"
        counted = _counted(tensor, index)
        return "piece" if counted == "samples" and self._states else counted

    def _usual(self, counted: str) -> int:
        sizes = _SIZES[counted]
        return sizes[min(self._number, len(sizes) - 1)]

    def _side(self, tensor: DeclaredTensor, index: int) -> int:
        """Return the side of a picture: what the metadata say, else as the other side is, else a
        usual one.
        """
        axes = _picture_axes(tensor)
        is_width = axes[-1:] == (index,)
        if self._sides and self._number == 0:
            return self._sides[-1 if is_width else 0]
        others = [tensor.dimensions[axis] for axis in axes if axis != index]
        known = [size for size in others if isinstance(size, int)]
        if known and known[0] <= _LINE_HEIGHT:
            return self._usual("line")
        return known[0] if known and self._number == 0 else self._pictures[self._number][is_width]

    def _with_value(self, tensor: InputData) -> InputData:
        """Return the input with the value that its name asks for; where it asks for none it is fed
        with noise.
        """
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
            # Nearly every table has a second row, whose place means no padding.
            value = 1
        return replace(tensor, value=value)


def _has_sum(tensor: DeclaredTensor) -> bool:
    """Whether a size is a sum of others, as in "past_length + length"."""
    return any(isinstance(size, str) and "+" in size for size in tensor.dimensions)


def _counted(tensor: DeclaredTensor, index: int) -> str:
    """Return what a free size counts, "side" or a key of _SIZES: by its name, else by where it
    stands.
    """
    name = str(tensor.dimensions[index]).lower()
    rank = len(tensor.dimensions)
    for counted, pattern in _NAMES:
        if pattern.search(name):
            is_sound = counted == "tokens" and "float" in tensor.type and index == 1 and rank == 2
            return "samples" if is_sound else counted
    if (index == 0 and rank > 1) or tensor.type == TEXT:
        return "batch"
    axes = _picture_axes(tensor)
    if axes:
        return "side" if index in axes else "channels" if index == 1 else "other"
    if "int" in tensor.type:
        return "tokens"
    return {1: "samples", 2: "samples", 3: "frames"}.get(rank, "other")


def _picture_axes(tensor: DeclaredTensor) -> tuple[int, ...]:
    """Return where the height and the width of a picture stand; nothing if the input is none."""
    sizes = tensor.dimensions
    if len(sizes) == 3 and sizes[0] in _CHANNELS:
        return (1, 2)
    if len(sizes) < 4:
        return ()
    if len(sizes) == 4 and sizes[3] in _CHANNELS:
        return (1, 2)
    is_picture = sizes[1] in _CHANNELS or (
        len(sizes) == 4 and all(isinstance(size, str) for size in sizes[1:])
    )
    return (len(sizes) - 2, len(sizes) - 1) if is_picture else ()


def _sides(metadata: Mapping[str, str]) -> tuple[int, ...]:
    """Return height and width as the file's maker wrote them; nothing if they are not there."""
    for key in _SIDES_KEYS:
        numbers = tuple(map(int, re.findall(r"\d+", metadata.get(key, ""))))
        if numbers:
            return numbers[-2:]
    return ()


def _pictures(outputs: Sequence[DeclaredTensor]) -> list[tuple[int, int]]:
    """Return the pictures to try: first what networks with such outputs take."""
    first = _PICTURES[0]
    if outputs and all(len(tensor.dimensions) == 2 for tensor in outputs):
        first = _OF_CLASSIFIERS
    for tensor in outputs:
        *_, places, characters = (None, None, *tensor.dimensions)
        is_text = (
            isinstance(places, str)
            and isinstance(characters, int)
            and characters >= _FEWEST_CHARACTERS
        )
        if len(tensor.dimensions) == 3 and is_text:
            first = _OF_READERS
    return [first, *(picture for picture in _PICTURES if picture != first)]


def _is_state(tensor: DeclaredTensor, outputs: Sequence[DeclaredTensor]) -> bool:
    """Whether the input is recurrent state: by its name, and an output is its next value, unless it
    is the first.
    """
    if "float" not in tensor.type or not _STATE.search(tensor.name):
        return False
    if _FIRST_STATE.search(tensor.name):
        return True
    for output in outputs:
        pairs = list(zip(tensor.dimensions, output.dimensions))
        differ = any(
            isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs
        )
        if len(tensor.dimensions) == len(output.dimensions) and not differ:
            return True
    return False


def _with_zeros(tensor: InputData) -> InputData:
    return (
        replace(tensor, value=0)
        if tensor.value == 1 and tensor.type in ("int32", "int64")
        else tensor
    )
