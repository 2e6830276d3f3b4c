"""Shapes and values of inputs that neither the file nor the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from reusebench.measured.runtimes.base import DeclaredTensor, InputData, Interface
from reusebench.models import ModelError
from reusebench.models.inputs.candidates import Given, candidates, shape_text

_Declared = tuple[str, str, tuple[object, ...]]


def _interface(
    *inputs: _Declared, outputs: Sequence[_Declared] = (), metadata: Mapping[str, str] | None = None
) -> Interface:
    tensors, returned = ([DeclaredTensor(*tensor) for tensor in side] for side in (inputs, outputs))  # type: ignore[arg-type]
    return Interface(tuple(tensors), tuple(returned), dict(metadata or {}))


def _first(
    *inputs: _Declared, given: Mapping[str, Given] | None = None, outputs: Sequence[_Declared] = ()
) -> list[InputData]:
    return list(candidates(_interface(*inputs, outputs=outputs), given or {})[0])


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [
        # Declared as exporters of public models do: detector, reader of a line, classifier, camera
        # frame.
        (("images", "float32", ("batch", 3, "height", "width")), (1, 3, 640, 640)),
        (
            ("x", "float32", ("p2o.DynamicDimension.0", 3, "p2o.DynamicDimension.1", "?")),
            (1, 3, 640, 640),
        ),
        (("x", "float32", ("", 3, 48, "")), (1, 3, 48, 320)),
        (("input1", "float32", (1, 1, 64, "image_width")), (1, 1, 64, 320)),
        (("x", "float32", ("N", 224, 224, 3)), (1, 224, 224, 3)),
        (("x", "float32", ("", 3, 800, "")), (1, 3, 800, 800)),
        (("x", "uint8", ("", "", "", 3)), (1, 640, 640, 3)),
        (("x", "float32", ("", "", "", "")), (1, 3, 640, 640)),
        (("image", "float32", (3, "height", "width")), (3, 640, 640)),
        # Text.
        (("input_ids", "int64", ("batch", "seq_len")), (1, 128)),
        (("tokens", "int64", (1, "")), (1, 128)),
        (("atoms", "int64", ("",)), (128,)),
        (("distances", "int64", (1, "seq_len", "seq_len")), (1, 128, 128)),
        (("hidden", "float32", ("batch", "encoder_sequence_length", 512)), (1, 128, 512)),
        (("words", "str", ("", 6)), (1, 6)),
        # Sound.
        (("input", "float32", ("", "")), (1, 16000)),
        (("input", "float32", ("batch", "sequence")), (1, 16000)),
        (("audio", "float32", (1, "samples")), (1, 16000)),
        (("mel", "float32", ("batch", "time", 80)), (1, 100, 80)),
        (("degraded", "float32", ("batch_size", 1, "frames", 257)), (1, 1, 100, 257)),
        # N beside a batch, or behind it, is no batch.
        (("waveforms", "float32", ("batch_size", "N")), (1, 16000)),
        (("waveforms", "float32", (1, "N")), (1, 16000)),
        # Channels of pictures, and of sound.
        (
            ("pixel_values", "float32", ("batch", "num_channels", "height", "width")),
            (1, 3, 640, 640),
        ),
        (("audio", "float32", ("batch", "channels", "samples")), (1, 1, 16000)),
        (("mel", "float32", ("batch", "n_mels", "frames")), (1, 80, 100)),
        # Things that nobody can count: nodes of a graph, one free dimension that is no sound.
        (("slots", "float32", ("num_graphs",)), (16,)),
        (("nodes", "float32", ("num_nodes", 64)), (16, 64)),
        (("waveform", "float32", ("n",)), (16000,)),
        # A cache is empty at the beginning.
        (("past_key", "float32", ("batch", 8, "past_length", 64)), (1, 8, 0, 64)),
        # Nothing is free.
        (("x", "float32", (2, 7)), (2, 7)),
        (("x", "float32", ()), ()),
    ],
)
def test_the_first_shape(tensor: _Declared, shape: tuple[int, ...]) -> None:
    """Each size is the most usual one for its name, position and the other sizes; it counts as
    assumed.
    """
    (fed,) = _first(tensor)
    assert fed.shape == shape
    assert fed.assumed == tuple(
        index for index, size in enumerate(tensor[2]) if isinstance(size, str)
    )


def test_a_picture_is_tried_at_several_sizes() -> None:
    """Squares and a line of text come, each once, and no two attempts are equal."""
    attempts = candidates(_interface(("x", "float32", ("", 3, "?", "?"))), {})
    shapes = [attempt[0].shape for attempt in attempts]
    assert len(set(shapes)) == len(shapes)
    assert {(1, 3, 320, 320), (1, 3, 224, 224), (1, 3, 48, 320)} <= set(shapes)


def test_speech_is_tried_in_short_pieces_too() -> None:
    """Networks that take 32 ms refuse a second."""
    attempts = candidates(_interface(("input", "float32", ("", ""))), {})
    assert [attempt[0].shape for attempt in attempts][:2] == [(1, 16000), (1, 512)]


def test_one_attempt_where_nothing_is_free() -> None:
    """A model without free sizes has one candidate, unless integers may index a one-row table."""
    assert len(candidates(_interface(("x", "float32", (1, 3))), {})) == 1
    (ones,), (zeros,) = candidates(_interface(("x", "int64", (1, 3))), {})
    assert (ones.value, zeros.value) == (1, 0)


@pytest.mark.parametrize(
    ("output", "picture"),
    [
        (("label", "float32", ("n", 2)), (224, 224)),
        (("text", "float32", ("n", "places", 6625)), (48, 320)),
        (("boxes", "float32", ("n", "boxes", 6)), (640, 640)),
        (("map", "float32", ("n", 1, "h", "w")), (640, 640)),
    ],
)
def test_a_picture_by_what_the_network_gives(output: _Declared, picture: tuple[int, int]) -> None:
    """A classifier gives one row, a reader of text the characters of each place; detectors take
    larger pictures.
    """
    (fed,) = _first(("x", "float32", ("n", 3, "?", "?")), outputs=[output])
    assert fed.shape == (1, 3, *picture)


def test_recurrent_state() -> None:
    """State is an input that returns as an output: zero, batch 1, with short pieces of sound."""
    sound = ("input", "float32", ("", ""))
    state = ("state", "float32", (2, "", 128))
    piece, zero = _first(sound, state, outputs=[("stateN", "float32", ("", "", ""))])
    assert (piece.shape, zero.shape, zero.value) == ((1, 512), (2, 1, 128), 0)
    # An encoder's output for a decoder is no state.
    (hidden,) = _first(
        ("encoder_hidden_states", "float32", ("b", "seq", 512)),
        outputs=[("logits", "float32", ("b", "seq", 32128))],
    )
    assert (hidden.shape, hidden.value) == ((1, 128, 512), None)


@pytest.mark.parametrize(
    ("metadata", "sides"),
    [
        ({"imgsz": "[320, 416]"}, (320, 416)),
        ({"imgsz": "256"}, (256, 256)),
        ({"input_shape": "[1, 3, 96, 160]"}, (96, 160)),
        ({"author": "640"}, (640, 640)),
    ],
)
def test_sides_that_the_metadata_name(metadata: dict[str, str], sides: tuple[int, int]) -> None:
    """The sizes in the file's metadata come first, then the usual ones."""
    picture = ("x", "float32", ("", 3, "h", "w"))
    attempts = candidates(_interface(picture, metadata=metadata), {})
    assert attempts[0][0].shape == (1, 3, *sides)
    assert len(attempts) > 1


def test_a_name_is_one_size_in_all_inputs() -> None:
    """The user's size for one input holds too, and in sums; a size without a name stands alone."""
    inputs = (
        ("mask", "int64", ("batch", "past_length + length")),
        ("ids", "int64", ("batch", "length")),
        ("other", "int64", ("?", "?")),
        ("past_key", "float32", ("batch", 8, "past_length", 64)),
    )
    mask, ids, other, past = _first(*inputs, given={"ids": Given((1, 7))})
    assert (ids.shape, ids.assumed) == ((1, 7), ())
    assert (other.shape, past.shape, mask.shape) == ((1, 128), (1, 8, 0, 64), (1, 7))
    mask, *_ = _first(*inputs, given={"past_key": Given((1, 8, 5, 64))})
    assert mask.shape == (1, 133)


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (("h0", "float32", (1, 1, 64)), 0),
        (("attention_mask", "int64", (1, 8)), 1),
        (("mask", "bool", (1, 8)), 1),
        (("sr", "int64", ()), 16000),
        (("sampling_rate", "int32", (1,)), 16000),
        (("ids", "int64", (1, 8)), 1),
        (("pixels", "uint8", (1, 8, 8, 3)), None),
        (("images", "float32", (1, 3, 8, 8)), None),
        (("height", "int64", ()), 1),
        (("name", "str", (1,)), None),
    ],
)
def test_values_that_a_name_asks_for(tensor: _Declared, value: int | None) -> None:
    """A first state is zero, a mask hides nothing, speech has 16,000 samples per second, integers
    index a table.
    """
    assert _first(tensor)[0].value == value


def test_the_length_of_a_sequence() -> None:
    """An input for a length gets the length of the longest sequence."""
    inputs = (("text", "int64", (1, "length")), ("text_lengths", "int64", (1,)))
    assert _first(*inputs)[1].value == 128
    assert _first(*inputs, given={"text": Given((1, 40))})[1].value == 40


def test_a_tensor_of_unknown_rank() -> None:
    """ONNX Runtime shows it as a scalar, so any given shape is accepted."""
    (fed,) = _first(("x", "float32", ()), given={"x": Given((2, 3))})
    assert fed.shape == (2, 3)


def test_data_that_are_given() -> None:
    """They are used unchanged: no value is assumed, and the other inputs have the same sizes."""
    given = {"mask": Given((1, 9), "mask.npy", "int64")}
    mask, ids = _first(
        ("mask", "int64", (1, "length")), ("ids", "int64", (1, "length")), given=given
    )
    assert (mask.file, mask.value, mask.assumed) == ("mask.npy", None, ())
    assert (ids.shape, ids.assumed) == ((1, 9), (1,))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Given((1, 3, 8)), "input 'x' is ?x3x?x8, not 1x3x8"),
        (Given((1, 4, 8, 8)), "input 'x' is ?x3x?x8, not 1x4x8x8"),
        (Given(()), "not a scalar"),
        (
            Given((1, 3, 8, 8), "x.npy", "float64"),
            "input 'x' takes float32, and its data are float64",
        ),
    ],
)
def test_what_contradicts_the_file(given: Given, words: str) -> None:
    """Another rank, size or type is refused; the message has both."""
    with pytest.raises(ModelError) as refusal:
        candidates(_interface(("x", "float32", ("", 3, "height", 8))), {"x": given})
    assert words in str(refusal.value)


def test_shapes_as_text() -> None:
    """Shapes have the form of the option; a free size is a question mark."""
    assert [shape_text(shape) for shape in ((1, 3, 8), (1, "n", ""), ())] == [
        "1x3x8",
        "1x?x?",
        "a scalar",
    ]


_ALLOWED = Interface(
    (
        DeclaredTensor("image", "uint8", (1, "", "", 3), "nhwc", ("float32",)),
        DeclaredTensor("n", "float32", (1, "")),
    ),
    (),
    {},
    (((1, 96, 96, 3), (1, 8)), ((1, 64, 64, 3), (1, 16)), ((1, 64, 64, 3), (1, 24))),
)


@pytest.mark.parametrize(
    ("given", "shapes", "assumed"),
    [
        ({}, ((1, 96, 96, 3), (1, 8)), ((1, 2), (1,))),
        ({"image": Given((1, 64, 64, 3))}, ((1, 64, 64, 3), (1, 16)), ((), (1,))),
        ({"n": Given((1, 24))}, ((1, 64, 64, 3), (1, 24)), ((1, 2), ())),
    ],
)
def test_shapes_that_a_file_allows(
    given: dict[str, Given],
    shapes: tuple[tuple[int, ...], ...],
    assumed: tuple[tuple[int, ...], ...],
) -> None:
    """The first combination that fits the user's shapes is the only candidate."""
    attempts = candidates(_ALLOWED, given)
    assert len(attempts) == 1
    assert tuple(tensor.shape for tensor in attempts[0]) == shapes
    assert tuple(tensor.assumed for tensor in attempts[0]) == assumed


def test_shapes_that_a_file_does_not_allow() -> None:
    """All combinations are listed, as --shape takes them."""
    words = (
        "the file allows these shapes alone: image=1x96x96x3 n=1x8, image=1x64x64x3 n=1x16,"
        " image=1x64x64x3 n=1x24"
    )
    with pytest.raises(ModelError, match=words):
        candidates(_ALLOWED, {"image": Given((1, 96, 96, 3)), "n": Given((1, 24))})


def test_types_that_are_taken_besides() -> None:
    """Data keep their type; for an invalid type, all valid ones are named."""
    given = {"image": Given((1, 96, 96, 3), "data.npy", "float32")}
    assert candidates(_ALLOWED, given)[0][0].type == "float32"
    with pytest.raises(
        ModelError, match="input 'image' takes uint8 or float32, and its data are float64"
    ):
        candidates(_ALLOWED, {"image": Given((1, 96, 96, 3), "data.npy", "float64")})


def test_sizes_that_are_expressions() -> None:
    """The names in them have one size in all inputs, also if the user gives it."""
    pair = (
        ("a", "float32", ("batch", 8, "2*s0")),
        ("b", "float32", ("batch", 8, "s0")),
        ("mask", "int64", ("batch", "s0 + 1")),
    )
    a, b, mask = _first(*pair)
    assert (a.shape, b.shape, mask.shape) == ((1, 8, 200), (1, 8, 100), (1, 101))
    a, b, mask = _first(*pair, given={"a": Given((2, 8, 10))})
    assert (b.shape, mask.shape) == ((2, 8, 5), (2, 6))
    (only,) = _first(pair[0])
    assert only.shape == (1, 8, 100)


@pytest.mark.parametrize(
    ("tensor", "doubtful"),
    [
        (("images", "float32", ("batch", 3, "height", "width")), ()),
        (("tokens", "int64", (1, "")), ()),
        (("audio", "float32", (1, "")), ()),
        (("input", "float32", (1, "samples")), ()),
        (("input", "float32", ("", "")), (1,)),
        (("slots", "float32", ("num_graphs",)), (0,)),
        (("x", "float32", ("batch", 7, "", 5)), (2,)),
        (("x", "float32", ("", 3, "", "")), ()),
        (("x", "uint8", (1, "", "")), ()),
        (("x", "float32", (1, "", "")), (1, 2)),
        (("x", "float32", ("", "", "", "")), (2, 3)),
    ],
)
def test_guesses(tensor: _Declared, doubtful: tuple[int, ...]) -> None:
    """A size is doubtful if no name tells what it counts, or nobody knows how many there are."""
    (data,) = _first(tensor)
    assert data.doubtful == doubtful


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("yolov8n-416.onnx", (1, 3, 416, 416)),
        ("net_480x640.onnx", (1, 3, 480, 640)),
        ("640m.onnx", (1, 3, 640, 640)),
        ("yunet_2023mar_320.onnx", (1, 3, 320, 320)),
        ("resnet50_v2.0.160.onnx", (1, 3, 640, 640)),
        ("net_2024.onnx", (1, 3, 640, 640)),
    ],
)
def test_sides_in_the_name_of_a_file(name: str, shape: tuple[int, ...]) -> None:
    """Sides of a picture come from the name, unless it is a year or a version."""
    interface = _interface(("x", "float32", ("", 3, "", "")))
    assert candidates(interface, {}, name)[0][0].shape == shape


@pytest.mark.parametrize(
    ("name", "fixed", "shape"),
    [
        ("rec_48x640.onnx", 48, (1, 3, 48, 640)),
        ("rec_32x640.onnx", 48, (1, 3, 48, 320)),
        ("net_416.onnx", 320, (1, 3, 320, 320)),
    ],
)
def test_sides_in_a_name_and_one_in_the_file(name: str, fixed: int, shape: tuple[int, ...]) -> None:
    """The name gives the other side if it agrees with the fixed one."""
    interface = _interface(("x", "float32", ("", 3, fixed, "")))
    assert candidates(interface, {}, name)[0][0].shape == shape


def test_known_sides_come_before_the_usual_ones() -> None:
    """If the sides of metadata or name do not run, all usual pictures are tried."""
    interface = _interface(("x", "float32", ("", 3, "", "")))
    shapes = [attempt[0].shape[2:] for attempt in candidates(interface, {}, "net_96.onnx")]
    assert shapes[:3] == [(96, 96), (640, 640), (320, 320)]


def test_a_length_in_the_name_of_a_file() -> None:
    """A sequence is as long as the name says."""
    interface = _interface(("ids", "int64", ("batch", "sequence")))
    assert candidates(interface, {}, "bert_seq384.onnx")[0][0].shape == (1, 384)


def test_inputs_without_elements() -> None:
    """Converters get a cache with something in it."""
    interface = _interface(("past_key", "float32", ("batch", 8, "past_length", 64)))
    shapes = [attempt[0].shape for attempt in candidates(interface, {}, without_empty=True)]
    assert shapes[0] == (1, 8, 16, 64)
    assert all(0 not in shape for shape in shapes)


@pytest.mark.parametrize(
    ("name", "output", "value"),
    [
        ("memory", "logits", None),
        ("memory", "next_memory", 0),
        ("encoder_hidden_states", "hidden_states", None),
        ("hidden", "output", 0),
    ],
)
def test_what_an_encoder_made_is_no_state(name: str, output: str, value: int | None) -> None:
    """It is fed with noise, though an output may have the same shape."""
    shape = ("batch", "length", 64)
    (data,) = _first((name, "float32", shape), outputs=[(output, "float32", shape)])
    assert data.value == value
