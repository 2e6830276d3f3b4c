"""Files of OpenVINO, read without it: made by hand, and by the real OpenVINO if it is installed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.measured.runtimes import find_runtime, open_runtime
from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect
from reusebench.models.inspection.contents import Operator, OtherFacts, Tensor, Weights
from tests.helpers.support import known

_ENTRY = (
    '<layer id="{id}" name="{name}" type="{type}" version="{version}"{more}>{data}{ports}</layer>'
)
_PORT = '<port id="{id}" precision="{type}" names="{names}">{sizes}</port>'


def _layer(
    number: int, kind: str, data: str = "", ports: str = "", version: str = "opset1", more: str = ""
) -> str:
    return _ENTRY.format(
        id=number,
        name=f"node-{number}",
        type=kind,
        version=version,
        more=more,
        data=f"<data {data} />",
        ports=ports,
    )


def _port(number: int, names: str, *sizes: int, type: str = "FP32") -> str:
    return _PORT.format(
        id=number, type=type, names=names, sizes="".join(f"<dim> {size} </dim>" for size in sizes)
    )


def _net(*layers: str, edges: str = "") -> str:
    begin = '<?xml version="1.0"?><net name="n" version="11"><layers>'
    end = "</layers>"
    info = '<rt_info><Runtime_version value="2024.6.0" /></rt_info>'
    return f"{begin}{''.join(layers)}{end}<edges>{edges}</edges>{info}</net>"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a model, and its weights if they are given."""

    def write_files(text: str, weight_bytes: int | None = None) -> Path:
        path = tmp_path / "net.xml"
        path.write_text(text)
        if weight_bytes is not None:
            path.with_suffix(".bin").write_bytes(bytes(weight_bytes))
        return path

    return write_files


_CONSTANT = _layer(
    1,
    "Const",
    'element_type="f16" shape="2, 3" offset="0" size="12"',
    _port(0, "w", 2, 3, type="FP16"),
)
_SAME = _layer(
    2,
    "Const",
    'element_type="f16" shape="3, 2" offset="0" size="12"',
    _port(0, "v", 3, 2, type="FP16"),
)
_LONG = _layer(3, "Const", 'element_type="i64" shape="1" offset="12" size="8"')
_IN_BODY = _layer(0, "Parameter", 'element_type="f32" shape="7"') + _layer(1, "Relu")
_BODY = f"<body><layers>{_IN_BODY}</layers></body>"
_MODEL = _net(
    _layer(
        0,
        "Parameter",
        'element_type="f32" shape="1,3,?,32..640"',
        f"<output>{_port(0, 'x', 1, 3, -1, -1)}</output>",
    ),
    _layer(9, "Parameter", 'element_type="boolean" shape="..."'),
    _CONSTANT,
    _SAME,
    _LONG,
    _layer(4, "MatMul", "", _port(0, "") + _port(1, "") + _port(2, r"z,the\,sum", 1, 3)),
    _layer(5, "Loop", "", _BODY),
    _layer(6, "Own", version="extension"),
    _layer(7, "Result", "", _port(0, "", 1, -1), more=' output_names="y,logits"'),
    _layer(8, "Result", "", _port(0, "", type="I64")),
    edges='<edge from-layer="4" from-port="2" to-layer="8" to-port="0" />',
)


def test_what_a_file_shows(write: Callable[..., Path]) -> None:
    """Inputs, outputs, weights, and the operators of bodies of control flow too; shared weights
    count once.
    """
    shown = inspect(write(_MODEL, 20))
    assert shown.inputs == (Tensor("x", "float32", (1, 3, "", "")), Tensor("node-9", "bool", None))
    assert shown.outputs == (Tensor("logits", "float32", (1, "")), Tensor("the,sum", "int64", ()))
    assert shown.weights == (Weights("float16", 1, 12), Weights("int64", 1, 8))
    names = ("MatMul", "Relu", "Loop")
    assert shown.operators == (
        *(Operator("", name, 1) for name in names),
        Operator("extension", "Own", 1),
    )
    lines = {
        "format": "OpenVINO IR, version 11",
        "made by": "OpenVINO 2024.6.0",
        "weights in": "net.bin",
    }
    assert shown.facts == OtherFacts(lines)


def test_random_operators_and_state(write: Callable[..., Path]) -> None:
    """Operators with random results, and those that keep a variable, are named."""
    layers = [_layer(number, name) for number, name in enumerate(("RandomUniform", "Assign"))]
    relu = _layer(9, "Relu")
    assert inspect(write(_net(*layers, relu), 0)).varying == ("RandomUniform", "Assign")
    assert inspect(write(_net(relu), 0)).varying == ()


def test_weights_that_are_not_whole(write: Callable[..., Path]) -> None:
    """A missing or truncated weight file is named; a model without weights needs none."""
    path = write(_MODEL)
    assert _lines(path)["weights in"] == "net.bin, which is not beside the model"
    assert inspect(path).hindrances == ("net.bin, the file with weights, is not beside the model",)
    assert _lines(write(_MODEL, 19))["weights in"] == (
        "net.bin, which is cut short: 19 of 20 bytes"
    )
    assert (
        _lines(write(_net(_layer(0, "Parameter", 'element_type="f32" shape=""'))))["weights in"]
        == ""
    )


def _lines(path: Path) -> dict[str, str]:
    facts = inspect(path).facts
    assert isinstance(facts, OtherFacts)
    return facts.lines


@pytest.mark.parametrize(
    "text",
    [
        "not XML",
        "<html></html>",
        "<net></net>",
        _net(),
        _MODEL[:-100],
        _MODEL.replace('offset="12"', 'offset="-12"'),
        _MODEL.replace(
            "<net", '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><net'
        ),
    ],
)
def test_what_is_no_model(write: Callable[..., Path], text: str) -> None:
    """The message has advice; a text that defines entities is refused before expanding them."""
    path = write(text)
    with pytest.raises(ModelError, match="is not a model of OpenVINO") as refused:
        inspect(path)
    assert str(refused.value).startswith(str(path))


def test_mutated_files(write: Callable[..., Path]) -> None:
    """Each is read, or refused with a message."""
    dice = random.Random(19)
    refused = 0
    for _ in range(300):
        content = bytearray(_MODEL.encode())
        for _ in range(dice.choice((1, 2, 20))):
            content[dice.randrange(len(content))] = dice.randrange(256)
        path = write("")
        path.write_bytes(content)
        try:
            inspect(path)
        except ModelError:
            refused += 1
    assert 100 < refused < 300


@pytest.mark.process
def test_files_of_the_real_one(mobile_model: Path, tmp_path: Path) -> None:
    """OpenVINO shows the same names, types and shapes, and the ONNX file has the same weights."""
    pytest.importorskip("openvino", exc_type=ImportError)
    runtime = open_runtime("openvino")
    path = known(runtime.prepare(str(mobile_model), "digest", str(tmp_path), lambda: None)).path
    shown = inspect(Path(path))
    assert shown.interface == runtime.interface(path)
    assert known(shown.weight_bytes) == pytest.approx(
        known(inspect(mobile_model).weight_bytes), rel=0.01
    )
    assert _lines(Path(path))["made by"].startswith(f"OpenVINO {runtime.version}")
    assert find_runtime("openvino").suffix == ".xml"
