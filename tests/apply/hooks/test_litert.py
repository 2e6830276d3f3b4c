"""Interpreters of LiteRT that map one file of packed weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.apply.hooks.hooked import run

pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.process

_PROGRAM = """
    import json
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    content = [open("dense.tflite", "rb").read() for _ in range(2)]
    made = [
        Interpreter("dense.tflite"),
        Interpreter("dense.tflite", num_threads=2),
        Interpreter(model_content=content[0]),
        Interpreter(model_content=content[1]),
        Interpreter("other.tflite"),
    ]
    answers = []
    for rows in 1, 3:
        for interpreter in made:
            interpreter.resize_tensor_input(0, [rows, 64])
            interpreter.allocate_tensors()
        for number, interpreter in enumerate(made):
            interpreter.tensor(0)()[:] = number + np.arange(64, dtype=np.float32) / 100
            interpreter.invoke()
            answers.append(interpreter.get_tensor(2).tobytes().hex())
    views = [interpreter.tensor(2)() for interpreter in made]
    kept = made[2]._model_content is made[3]._model_content
    operators = len(made[1]._get_ops_details())
    del made, interpreter
    answers += [operators, *(view.tobytes().hex() for view in views)]
    del views
    print(json.dumps({"answers": answers, "one content": kept}))
"""


def _save(path: Path, seed: int) -> None:
    """Save a model that multiplies rows of 64 numbers by weights."""
    from ai_edge_litert import schema_py_generated as schema
    from flatbuffers import Builder  # type: ignore[import-untyped]

    def tensor(name: bytes, shape: list[int], buffer: int = 0) -> Any:
        made = schema.TensorT()
        made.name, made.shape, made.buffer = name, shape, buffer
        made.type = schema.TensorType.FLOAT32
        return made

    weights = schema.BufferT()
    random = np.random.default_rng(seed)
    weights.data = random.standard_normal((64, 64), dtype=np.float32).view(np.uint8).ravel()
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0, 1, -1], [2]
    operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = schema.FullyConnectedOptionsT()
    graph = schema.SubGraphT()
    graph.tensors = [tensor(b"x", [1, 64]), tensor(b"w", [64, 64], 1), tensor(b"y", [1, 64])]
    graph.inputs, graph.outputs, graph.operators = [0], [2], [operator]
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes, model.subgraphs = [code], [graph]
    model.buffers = [schema.BufferT(), weights]
    builder = Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(builder.Output())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two models."""
    _save(tmp_path / "dense.tflite", seed=1)
    _save(tmp_path / "other.tflite", seed=2)
    return tmp_path


def test_interpreters_of_equal_models_map_one_file(folder: Path) -> None:
    """The first one packs weights as it would; at the next start all map the file, as it is."""
    as_is = run(folder, _PROGRAM, hooks=None)
    for shared in 3, 4:
        applied = run(folder, _PROGRAM)
        assert applied.answer["answers"] == as_is.answer["answers"]
        assert applied.answer["one content"] is not as_is.answer["one content"]
        (report,) = applied.reports
        assert (report["runtime"], report["contexts"], report["models"]) == ("litert", 5, 2)
        assert report["shared"] == {"weight_cache": shared}
        assert report["left_alone"] == report["failures"] == {}
    assert len(list((folder / "cache" / "litert").iterdir())) == 1


def test_digests_are_equal_with_and_without_a_cache(folder: Path) -> None:
    """Digests are asked for with OFF too, and no file is written then; nor if it cannot be."""
    digests = []
    for variables in ({"REUSEBENCH_APPLY_OFF": "1"}, {"REUSEBENCH_APPLY_CACHE": "/proc/none"}, {}):
        (report,) = run(folder, _PROGRAM, REUSEBENCH_APPLY_DIGESTS="1", **variables).reports
        digests.append(report["digests"])
        assert bool(report["shared"]) is (not variables)
        assert report["failures"] == {}
        unwritable = {"cache_unwritable": 3} if "REUSEBENCH_APPLY_CACHE" in variables else {}
        assert report["left_alone"] == unwritable
    assert digests[0] == digests[1] == digests[2]
    assert sorted(one["runs"] for one in digests[0].values()) == [2, 4, 4]


def test_interpreters_with_options_of_their_own_are_left_alone(folder: Path) -> None:
    """So are compiled models; an error is the runtime's own."""
    program = """
        import json
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
        CompiledModel(None, None)
        for options in (
            {"experimental_preserve_all_tensors": True},
            {"experimental_op_resolver_type": OpResolverType.BUILTIN_REF},
            {"experimental_op_resolver_type": OpResolverType.BUILTIN},
        ):
            Interpreter("dense.tflite", **options).allocate_tensors()
        try:
            Interpreter("nothing.tflite")
        except ValueError as error:
            print(json.dumps(str(error)))
    """
    applied = run(folder, program)
    assert "nothing.tflite" in applied.answer
    (report,) = applied.reports
    assert report["left_alone"] == {"own_options": 2, "compiled_model": 1}
