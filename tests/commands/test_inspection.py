"""`reusebench models inspect`: what is printed of a model file."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from tests.commands.replies import result_of
from tests.helpers.support import Reusebench
from tests.models.inspection.gguf_files import KEYS, save_gguf
from tests.models.inspection.onnx_models import constant, save_model, value
from tests.models.inspection.rknn_files import MINI, save_rknn


def _network(tmp_path: Path) -> Path:
    return save_model(
        tmp_path / "net.onnx",
        [
            helper.make_node("Conv", ["images", "w"], ["c"]),
            helper.make_node("FastGelu", ["c"], ["y"], domain="com.microsoft"),
        ],
        [value("images", ("batch", 3, "height", "width")), value("rate", (), TensorProto.INT64)],
        [value("y", ("batch", 8, "height - 2 * floor(width / 2 + 1 / height)", None))],
        [constant("w", 8, 3, 300, 300)],
        metadata={"imgsz": "320", "names": "cat"},
        domains=["com.microsoft", "unused"],
    )


def test_a_model_as_a_person_reads_it(tmp_path: Path, reusebench: Reusebench) -> None:
    """Facts, inputs with what is assumed and the option that changes it, outputs, weights,
    operators, mechanisms.
    """
    path = _network(tmp_path)
    shown = reusebench("models", "inspect", path)
    assert (shown.exit_code, shown.err) == (0, "")
    paragraphs = shown.out.rstrip().split("\n\n")
    assert paragraphs[0].splitlines() == [
        f"file      {path}",
        "size      8.24 MiB",
        "format    ONNX, IR version 8, opset 17, com.microsoft 1",
        "made by   test",
        "metadata  imgsz, names",
    ]
    assert paragraphs[1].splitlines() == [
        "input    type     shape                       assumed",
        "images   float32  batch x 3 x height x width  1x3x320x320, noise",
        "rate     int64    scalar                      ones",
    ]
    assert paragraphs[2].startswith(
        "--shape NAME=SIZES gives another shape, --inputs FILE.npz values."
    )
    assert paragraphs[3].splitlines()[1] == "y         float32  batch x 8 x ? x ?"
    assert paragraphs[4].splitlines() == [
        "weights      tensors    MiB",
        "float32            1   8.24",
    ]
    assert paragraphs[5] == "operators: 2, Conv 1, com.microsoft.FastGelu 1"
    assert paragraphs[6].splitlines()[:2] == [
        "on ONNX Runtime    applies",
        "full_dup           yes",
    ]
    assert len(paragraphs) == 7


def test_a_model_as_tools_read_it(tmp_path: Path, reusebench: Reusebench) -> None:
    """JSON has everything, sizes in bytes; what is noise or unknown is null."""
    shown = result_of(reusebench("models", "inspect", "--json", _network(tmp_path)))
    assert set(shown) == {
        *(
            "file",
            "size_bytes",
            "varying",
            "inputs",
            "outputs",
            "weights",
            "weight_bytes",
            "operators",
        ),
        *("assumed", "runtime", "hindrances", "mechanisms", "facts"),
    }
    assert shown["inputs"][0]["dimensions"] == ["batch", 3, "height", "width"]
    assert shown["weights"] == [{"type": "float32", "tensors": 1, "size_bytes": 8640000}]
    assert shown["weight_bytes"] == 8640000
    assert shown["operators"][1] == {"domain": "com.microsoft", "name": "FastGelu", "count": 1}
    assert shown["assumed"][0] == {
        "name": "images",
        "shape": [1, 3, 320, 320],
        "assumed_dimensions": [0, 2, 3],
        "doubtful_dimensions": [],
        "value": None,
    }
    assert (shown["runtime"], shown["hindrances"]) == ("onnxruntime", [])
    assert shown["mechanisms"][0] == {"scenario": "full_dup", "applies": True, "remark": ""}
    assert shown["facts"]["opsets"] == {"": 17, "com.microsoft": 1, "unused": 1}
    mini = result_of(
        reusebench("models", "inspect", "--json", save_rknn(tmp_path / "m.rknn", {}, MINI))
    )
    assert mini["weights"] is mini["weight_bytes"] is mini["operators"] is None
    assert mini["facts"]["is_mini"]


def test_texts_of_a_model_do_not_move_the_cursor(tmp_path: Path, reusebench: Reusebench) -> None:
    """A person sees escapes in place of control characters; JSON has the text as it is, in
    ASCII.
    """
    name = "a\x1b[2J\x9b31mb\u4e2d"
    path = save_model(tmp_path / "net.onnx", [], [value(name, (1,))], [value("y", (1,))])
    assert r"a\x1b[2J\x9b31mb" in reusebench("models", "inspect", path).out
    shown = reusebench("models", "inspect", path, "--json")
    assert shown.out.isascii()
    assert result_of(shown)["inputs"][0]["name"] == name


def test_long_lists_are_short(tmp_path: Path, reusebench: Reusebench) -> None:
    """Tensors that differ in nothing but numbers are one row, of others the first are shown; JSON
    has them all.
    """
    caches = [
        value(f"past.{layer}.{part}", (1, 8, "past", 64))
        for layer in range(12)
        for part in ("key", "value")
    ]
    others = [value(f"x{'abcdefghijklmnopqrstuvwxyz'[index]}", (index + 1,)) for index in range(26)]
    path = save_model(
        tmp_path / "net.onnx", [], [*caches, *others], [value("present", (1, 8, "all", 64))]
    )
    lines = reusebench("models", "inspect", path).out.split("\n\n")[1].splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == [
        "past.0.key to past.11.key, 12",
        "past.0.value to past.11.value, 12",
        "xa",
    ]
    assert lines[1].endswith("1x8x0x64, zeros")
    assert len(lines) == 26
    assert lines[-1] == "and 4 more: --json"
    assert len(result_of(reusebench("models", "inspect", path, "--json"))["inputs"]) == 50


def test_an_rknn_file(tmp_path: Path, reusebench: Reusebench) -> None:
    """Its chip, what made it, all of its shapes, how tensors are in memory, and what dynamic shapes
    rule out.
    """
    shapes = {"images": ((1, 3, 64, 64), (1, 3, 32, 32))}
    out = reusebench(
        "models",
        "inspect",
        save_rknn(tmp_path / "n.rknn", {"images": (1, 3, 64, 64)}, dynamic_shapes=shapes),
    ).out
    for line in (
        "chip     rk3588",
        "made by  rknn-toolkit2 2.3.2, compiler 2.3.1, from ONNX",
        "shapes   dynamic",
        "images   int8    1x3x64x64 or 1x3x32x32  NHWC         noise",
        "y         float16  1 x 10",
        (
            "shared_weights     no         dynamic shapes: this one file has all resolutions over"
            " its weights"
        ),
    ):
        assert line in out.splitlines()


def test_a_model_that_cannot_be_run(tmp_path: Path, reusebench: Reusebench) -> None:
    """The reason stands in place of the mechanisms; looking at the file has worked all the same."""
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    path = save_model(tmp_path / "net.onnx", [], [helper.make_value_info("s", sequence)], [])
    shown = reusebench("models", "inspect", path)
    assert shown.exit_code == 0
    reason = (
        "ONNX Runtime cannot run it: input 's' is seq(tensor(float)): this runtime cannot be fed"
        " with it"
    )
    assert shown.out.rstrip().split("\n\n")[-1].startswith(reason)
    assert result_of(reusebench("models", "inspect", path, "--json"))["mechanisms"] == []


def test_what_is_no_model_is_a_mistake(tmp_path: Path, reusebench: Reusebench) -> None:
    """Exit code 2 and a sentence."""
    path = tmp_path / "net.onnx"
    path.write_bytes(b"no model")
    shown = reusebench("models", "inspect", path)
    assert (shown.exit_code, shown.out) == (2, "")
    assert (
        shown.err
        == f"Error: {path} is not an ONNX model, or is cut short. Export or copy it again\n"
    )


def test_a_language_model(tmp_path: Path, reusebench: Reusebench) -> None:
    """Its shape, the bytes of a token in each cache, the weights by type, and the mechanisms of
    conversations; it has neither inputs nor outputs.
    """
    path = save_gguf(tmp_path / "net.gguf")
    paragraphs = reusebench("models", "inspect", path).out.rstrip().split("\n\n")
    assert paragraphs[0].splitlines()[2:] == [
        "format        GGUF, version 3",
        "name          a model",
        "architecture  llama",
        "type          F16",
        "layers        4",
        "heads         4, 2 with keys and values, of 64 values",
        "embedding     256",
        "vocabulary    3 tokens, tokenizer gpt2",
        "context       2,048 tokens",
    ]
    assert paragraphs[1].splitlines() == [
        "keys and values      bytes a token    MiB for 1,000 tokens",
        "f16                          2,048                    1.95",
        "q8_0                         1,088                    1.04",
        "q4_0                           576                    0.55",
    ]
    assert paragraphs[2].splitlines()[1].split() == ["F16", "1", "<0.01"]
    assert paragraphs[3].splitlines()[1] == "sessions_contexts         yes"
    assert len(paragraphs) == 4
    shown = result_of(reusebench("models", "inspect", "--json", path))
    assert shown["facts"]["kv_cache"][1] == {
        "type": "f16",
        "bytes_per_token": 2048,
        "window_bytes_per_token": 0,
    }
    assert (shown["inputs"], shown["assumed"], shown["weight_bytes"]) == ([], [], 1536)


def test_a_language_model_with_windows(tmp_path: Path, reusebench: Reusebench) -> None:
    """The bytes of a token are fewer once the window is full."""
    window = {
        "llama.attention.sliding_window": 512,
        "llama.attention.sliding_window_pattern": 4,
    }
    path = save_gguf(tmp_path / "net.gguf", keys={**KEYS, **window})
    shown = reusebench("models", "inspect", path).out
    assert "window        512 tokens, in 3 of the layers: no more are kept with" in shown
    assert "f16                          2,048                 512" in shown


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"version": 1}, "is of GGUF's version 1"),
        ({"data_bytes": 100}, "is cut short: its tensors end at byte"),
        ({"key_count": 2**50}, "is damaged: it says that it has 1,125,899,906,842,624 keys"),
    ],
)
def test_a_damaged_language_model(
    tmp_path: Path, reusebench: Reusebench, parts: dict[str, int], sentence: str
) -> None:
    """One sentence, and nothing on standard output."""
    path = save_gguf(tmp_path / "net.gguf", **parts)
    done = reusebench("models", "inspect", path)
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert sentence in done.err


def test_a_vocabulary_alone(tmp_path: Path, reusebench: Reusebench) -> None:
    """It is shown, and why it cannot be run."""
    path = save_gguf(tmp_path / "vocabulary.gguf", tensors=(), data_bytes=0)
    shown = reusebench("models", "inspect", path)
    assert shown.exit_code == 0
    assert "llama.cpp cannot run it: it has a vocabulary alone, and no weights." in shown.out
