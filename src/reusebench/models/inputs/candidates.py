"""Candidate inputs for models whose files leave sizes free that the user does not give.

Free sizes get usual values, the likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union

from reusebench.measured.runtimes.base import TEXT, DeclaredTensor, InputData, Interface
from reusebench.models.errors import ModelError
from reusebench.models.inputs.expressions import SizeExpression

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
    # Microphones, electrodes.
    "tracks": (1, 2),
    "line": (320, 640, 160),
    "tokens": (128, 64, 512, 16, 1),
    "samples": (16000, 512, 32000, 1536, 576),
    # Samples of networks with recurrent state, which take a short piece at a time.
    "piece": (512, 576, 1536, 16000, 160),
    "frames": (100, 64, 200, 16),
    "mels": (80, 64, 128, 40),
    "past": (0, 16, 1),
    # Nodes of a graph, points of a cloud: nobody knows how many.
    "items": (16, 128, 1),
    "other": (1, 16, 128),
}
#: Counted things whose number is a guess, whatever their name.
_DOUBTFUL = ("items", "tracks", "other")
#: Dimensions that are lengths of sequences, which another input may give as a number.
_LENGTHS = ("tokens", "samples", "piece", "frames")
#: Counted things by a pattern for the name of a free size; the first match wins.
_COUNTS_PAST = re.compile("past|cache")
_BATCH = re.compile(r"batch|^bs?$")
#: A name that counts the batch if it is of the first size, and no other size is named batch.
_OFTEN_BATCH = "n"
_NAMES = (
    ("past", _COUNTS_PAST),
    ("batch", _BATCH),
    ("samples", re.compile("sample|audio|wav")),
    ("frames", re.compile("time|frame|^t$")),
    ("tokens", re.compile("seq|token|len|words")),
    ("side", re.compile("height|width|^h$|^w$")),
    ("channels", re.compile("channel|^c$")),
    ("mels", re.compile(r"mel|n_?bins|^num_bins")),
    ("items", re.compile(r"^num|^n_|count|nodes|edges|points|graphs|boxes|rois")),
)
#: Names of inputs that are sound.
_SOUND = re.compile(r"audio|wav|sound|signal|speech|pcm|sample|voice", re.IGNORECASE)
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
#: Names of inputs that another network made, and that are not returned.
_OF_ANOTHER = re.compile(r"encoder|(^|[_.])enc([_.]|$)", re.IGNORECASE)
_MEMORY = re.compile("mem", re.IGNORECASE)
_FIRST_STATE = re.compile(r"^[hc]_?0$", re.IGNORECASE)
_MASK = re.compile("mask", re.IGNORECASE)
_RATE = re.compile(r"^sr$|sampl\w*_?rate", re.IGNORECASE)
_LENGTH = re.compile(r"len(gth)?s?$", re.IGNORECASE)
_SAMPLES_PER_SECOND = 16000

#: Sides of pictures in the name of a file, height before width: "net_480x640", "net-416".
_SIDES_IN_NAME = re.compile(r"(?<![\d.])(\d{2,4})[xX](\d{2,4})(?!\d)")
_SIDE_IN_NAME = re.compile(r"(?<![\dA-Za-z.])(\d{2,4})(?=(?:px?|[nsmlx])?(?:[_\- .]|$))")
#: A number in a name is a side of a picture if it is a multiple of this, and no year.
_SIDE_STEP = 16
_SMALLEST_SIDE = 64
_YEARS = range(1990, 2100)
#: Length of a sequence in the name of a file: "bert_seq384".
_LENGTH_IN_NAME = re.compile(r"(?:seq|len|tokens?)[_-]?(\d{1,5})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Given:
    """An input as the user gives it."""

    shape: tuple[int, ...]
    #: The .npy file of the elements, and their type; None if only the shape is given.
    file: Optional[str] = None
    type: Optional[str] = None


def candidates(
    interface: Interface,
    given: Mapping[str, Given],
    file_name: str = "",
    without_empty: bool = False,
) -> list[tuple[InputData, ...]]:
    """Return candidates for the inputs, the likeliest first; only one if no size is assumed.

    The file's name may have sizes in it. `without_empty` leaves out inputs without elements, which
    converters do not take. Raises ModelError if the user's inputs contradict the file.
    """
    for tensor in interface.inputs:
        if tensor.name in given:
            _check(tensor, given[tensor.name])
    allowed = _allowed_shapes(interface, given)
    hints = _Hints.of(interface, Path(file_name).stem, without_empty)
    attempts: list[tuple[InputData, ...]] = []
    for number in range(len(hints.pictures)):
        attempt = _Attempt(interface, given, number, allowed, hints).inputs()
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


@dataclass(frozen=True)
class _Hints:
    """What a file tells about its free sizes, apart from their own names."""

    #: Height and width of pictures to try, the likeliest first.
    pictures: Sequence[tuple[int, int]]
    #: Whether the first of them is in the file's metadata or name.
    is_picture_known: bool
    #: Length of a sequence in the file's name.
    length: Optional[int]
    #: Names of the inputs that are recurrent state.
    states: frozenset[str]
    #: Whether a size is named batch.
    has_batch: bool
    without_empty: bool

    @classmethod
    def of(cls, interface: Interface, stem: str, without_empty: bool) -> _Hints:
        """Return the hints of a file."""
        pictures = _pictures(interface.outputs)
        known = _sides(interface.metadata) or _sides_in_name(stem)
        if known:
            pictures = [known, *(picture for picture in pictures if picture != known)]
        length = _LENGTH_IN_NAME.search(stem)
        states = []
        names: list[str] = []
        for tensor in interface.inputs:
            if _is_state(tensor, interface.outputs):
                states.append(tensor.name)
            names += (size.lower() for size in tensor.dimensions if isinstance(size, str))
        return cls(
            pictures,
            known is not None,
            int(length[1]) if length else None,
            frozenset(states),
            any(map(_BATCH.search, names)),
            without_empty,
        )


class _Attempt:
    """One attempt at the free sizes of a model; the first one has the most usual sizes."""

    def __init__(
        self,
        interface: Interface,
        given: Mapping[str, Given],
        number: int,
        allowed: Mapping[str, tuple[int, ...]],
        hints: _Hints,
    ) -> None:
        self._interface = interface
        self._given = given
        self._number = number
        #: Shapes to use if the file allows only some; otherwise empty.
        self._allowed = allowed
        self._hints = hints
        #: Chosen sizes by name; a name stands for one size in all inputs.
        self._named: dict[str, int] = {}
        #: The length of the longest sequence.
        self._longest = 1

    def inputs(self) -> tuple[InputData, ...]:
        """Return the inputs, in the file's order."""
        # The user's inputs come first: they give sizes of others. Expressions come last: they need
        # them.
        order = sorted(
            self._interface.inputs,
            key=lambda tensor: (tensor.name not in self._given, _has_expression(tensor)),
        )
        inputs = {tensor.name: self._input(tensor) for tensor in order}
        return tuple(self._with_value(inputs[tensor.name]) for tensor in self._interface.inputs)

    def _input(self, tensor: DeclaredTensor) -> InputData:
        """Return the input with all sizes chosen, and remember these sizes."""
        data = self._given.get(tensor.name)
        shape: list[int] = []
        free = []
        doubtful = []
        for index, declared in enumerate(tensor.dimensions):
            if isinstance(declared, int):
                shape.append(declared)
                continue
            is_known = self._value(declared) is not None or bool(self._allowed)
            size = data.shape[index] if data else self._size(tensor, index, declared)
            free.append(index)
            shape.append(size)
            self._learn(declared, size)
            if not is_known and self._is_doubtful(tensor, index):
                doubtful.append(index)
            if self._counted(tensor, index) in _LENGTHS:
                self._longest = max(self._longest, size)
        if data:
            return InputData(tensor.name, data.type or tensor.type, data.shape, file=data.file)
        return InputData(
            tensor.name, tensor.type, tuple(shape), assumed=tuple(free), doubtful=tuple(doubtful)
        )

    def _value(self, name: str) -> Optional[int]:
        """Return a free size if those in its name are chosen; None otherwise."""
        if _NAMELESS.fullmatch(name):
            return None
        return SizeExpression(name).value(self._named)

    def _learn(self, name: str, size: int) -> None:
        """Remember the sizes that follow from one."""
        if not _NAMELESS.fullmatch(name):
            self._named.update(SizeExpression(name).solved(size, self._named))

    def _size(self, tensor: DeclaredTensor, index: int, name: str) -> int:
        """Return the size for a free dimension with this name."""
        if tensor.name in self._allowed:
            return self._allowed[tensor.name][index]
        known = self._value(name)
        if known is not None:
            return known
        counted = self._counted(tensor, index)
        usual = self._side(tensor, index) if counted == "side" else self._usual(counted)
        self._learn(name, usual)
        known = self._value(name)
        return usual if known is None else known

    def _counted(self, tensor: DeclaredTensor, index: int) -> str:
        """Return the thing that a free size counts in this model, "side" or a key of _SIZES."""
        name = str(tensor.dimensions[index]).lower()
        if tensor.name in self._hints.states and not _COUNTS_PAST.search(name):
            return "batch"
        is_first = index == 0 and len(tensor.dimensions) > 1
        if name == _OFTEN_BATCH and is_first and not self._hints.has_batch:
            return "batch"
        counted = _counted_by_name(tensor, index) or _counted_by_position(tensor, index)
        if counted == "samples" and self._hints.states:
            return "piece"
        return counted

    def _is_doubtful(self, tensor: DeclaredTensor, index: int) -> bool:
        """Whether nothing in the file tells how many there usually are of what is counted."""
        counted = self._counted(tensor, index)
        if counted in _DOUBTFUL:
            return True
        if counted == "side":
            return _counted_by_name(tensor, index) is None and not _is_surely_picture(tensor)
        if counted not in ("samples", "frames"):
            return False
        return _counted_by_name(tensor, index) is None and not _SOUND.search(tensor.name)

    def _usual(self, counted: str) -> int:
        sizes = _SIZES[counted]
        if counted == "tokens" and self._hints.length is not None:
            sizes = (self._hints.length, *sizes)
        if self._hints.without_empty:
            sizes = tuple(filter(None, sizes))
        return sizes[min(self._number, len(sizes) - 1)]

    def _side(self, tensor: DeclaredTensor, index: int) -> int:
        """Return the side of a picture: from metadata or name, from the other side, or a usual
        one.
        """
        axes = _picture_axes(tensor)
        is_width = axes[-1:] == (index,)
        picture = self._hints.pictures[self._number]
        for axis in axes:
            other_side = tensor.dimensions[axis]
            if axis == index or not isinstance(other_side, int):
                continue
            if self._hints.is_picture_known and other_side == picture[not is_width]:
                continue
            if other_side <= _LINE_HEIGHT:
                return self._usual("line")
            if self._number == 0:
                return other_side
        return picture[is_width]

    def _with_value(self, tensor: InputData) -> InputData:
        """Return the input with the value that its name suggests; None means noise."""
        if tensor.file is not None or tensor.type == TEXT:
            return tensor
        is_integer = tensor.type in ("int32", "int64", "bool")
        value = None
        if _RATE.search(tensor.name):
            value = _SAMPLES_PER_SECOND
        elif tensor.name in self._hints.states:
            value = 0
        elif _LENGTH.search(tensor.name) and is_integer:
            value = self._longest
        elif is_integer or _MASK.search(tensor.name):
            # Nearly every table has a second row, and index 1 does not mean padding.
            value = 1
        return replace(tensor, value=value)


def _has_expression(tensor: DeclaredTensor) -> bool:
    """Whether a size is an expression of others, as in "past_length + length"."""
    names = [size for size in tensor.dimensions if isinstance(size, str)]
    return not all(SizeExpression(name).is_name for name in names)


def _counted_by_name(tensor: DeclaredTensor, index: int) -> Optional[str]:
    """Return the thing that a free size counts by its name; None if the name does not tell."""
    name = str(tensor.dimensions[index]).lower()
    for counted, pattern in _NAMES:
        if pattern.search(name):
            is_flat = index == 1 and len(tensor.dimensions) == 2
            if counted == "tokens" and "float" in tensor.type and is_flat:
                return "samples"
            if counted == "channels" and not _picture_axes(tensor):
                return "tracks"
            return counted
    return None


def _counted_by_position(tensor: DeclaredTensor, index: int) -> str:
    """Return the thing that a free size counts by its position in the shape."""
    rank = len(tensor.dimensions)
    if (index == 0 and rank > 1) or tensor.type == TEXT:
        return "batch"
    axes = _picture_axes(tensor)
    if index in axes:
        return "side"
    if axes:
        return "channels" if index == 1 else "other"
    if "int" in tensor.type:
        return "tokens"
    if rank == 1:
        return "samples" if _SOUND.search(tensor.name) else "items"
    return {2: "samples", 3: "frames"}.get(rank, "other")


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


def _is_surely_picture(tensor: DeclaredTensor) -> bool:
    """Whether an input with the axes of a picture has pixels, or channels of colours.

    1xAxB may be frames by features, and a shape without any fixed size anything.
    """
    if "int8" in tensor.type:
        return True
    if len(tensor.dimensions) == 3:
        return tensor.dimensions[0] != 1
    return any(size in _CHANNELS for size in tensor.dimensions[1:])


def _sides(metadata: Mapping[str, str]) -> Optional[tuple[int, int]]:
    """Return height and width from the file's metadata; None if they are not there."""
    for key in _SIDES_KEYS:
        numbers = [int(digits) for digits in re.findall(r"\d+", metadata.get(key, ""))]
        if numbers:
            height, width = (numbers * 2)[-2:]
            return height, width
    return None


def _sides_in_name(stem: str) -> Optional[tuple[int, int]]:
    """Return height and width from the name of a file; None if it has none."""
    pair = _SIDES_IN_NAME.search(stem)
    if pair:
        return int(pair[1]), int(pair[2])
    for digits in _SIDE_IN_NAME.findall(stem):
        side = int(digits)
        if side % _SIDE_STEP == 0 and side >= _SMALLEST_SIDE and side not in _YEARS:
            return side, side
    return None


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

    An initial state needs no such output. What an encoder made ("memory") is no state.
    """
    if "float" not in tensor.type or not _STATE.search(tensor.name):
        return False
    if _FIRST_STATE.search(tensor.name):
        return True
    if _OF_ANOTHER.search(tensor.name):
        return False
    returned = outputs
    if _MEMORY.search(tensor.name):
        returned = [output for output in outputs if _MEMORY.search(output.name)]
    return any(_can_be_equal(tensor.dimensions, output.dimensions) for output in returned)


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
