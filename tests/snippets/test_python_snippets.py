"""The programs in Python, run for real: equal outputs with every reuse, and less memory."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest

from reusebench import models
from reusebench.measured.plan import DUP, INPUT, OUTPUT, WEIGHTS, Context, Plan
from reusebench.measured.runtimes.base import InputData, NotSupported
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.snippets import snippet_of
from tests.helpers.support import CHECKOUT, PROGRAM_LIMIT_S, models_of

pytestmark = pytest.mark.process

#: The user's cache, since the tests have their own.
_MEGENGINE = MEGENGINE.python()
_FOLDER = MEGENGINE.folder()
_STREAMS = 2
_CONTEXTS = 3
_CORES = 2

_SCENARIOS = {
    "onnxruntime": (
        "partial_dup",
        "full_dup",
        "shared_context",
        "full_dup_internal_reuse",
        "external_weights",
        "zero_copy_input",
        "zero_copy_output",
        "lean",
    ),
    "openvino": (
        "partial_dup",
        "full_dup",
        "shared_context",
        "full_dup_internal_reuse",
        "external_weights",
        "model_in_place",
        "zero_copy_input",
        "zero_copy_output",
        "lean",
    ),
    "megengine_lite": (
        "partial_dup",
        "full_dup",
        "full_dup_internal_reuse",
        "zero_copy_input",
        "zero_copy_output",
        "lean",
    ),
}


@dataclass(frozen=True)
class Ran:
    """The client's observations of a program."""

    digests: tuple[int, ...]
    pss_bytes: int


@dataclass(frozen=True)
class Runtime:
    """A runtime with the files of a model at two sizes, and the Python that has it."""

    name: str
    python: Path
    files: tuple[Path, Path]
    folder: Path

    def plan(self, scenario: str) -> Plan:
        """Return the scenario's first writable plan; resolutions have two files, others one."""
        paths = self.files if scenario in ("resolutions", "shared_weights") else self.files[:1]
        parameters = Parameters(self.name, models_of(*paths), _STREAMS, _CONTEXTS, _CORES, rounds=2)
        for plan in find_scenario(scenario).plans(parameters):
            try:
                snippet_of(plan)
            except NotSupported:
                continue
            return plan
        raise AssertionError(f"no plan of {scenario}")

    def write(self, plan: Plan) -> list[str]:
        """Write the program into the models' folder; return its path and its models' paths."""
        program = self.folder / f"{plan.scenario}.py"
        program.write_text(snippet_of(plan).text)
        return [str(program), *(model.path for model in plan.models)]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run this Python."""
        return subprocess.run(
            [self.python, *arguments],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_LIMIT_S,
        )

    def used(self, plan: Plan) -> Ran:
        """Use the plan's program."""
        done = self.run("-m", "tests.snippets.python_client", *self.write(plan))
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        return Ran(tuple(seen["digests"]), seen["pss_bytes"])


@pytest.fixture(scope="module")
def mge_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], list[Path]]:
    """Return a function that builds the models in a cache of their own with the user's MegEngine,
    or skips.
    """

    def build() -> list[Path]:
        if not _MEGENGINE.exists():
            pytest.skip(
                f"{_FOLDER} is not there: run `reusebench models install megengine` to test it"
            )
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
            MEGENGINE.folder().parent.mkdir(parents=True)
            MEGENGINE.folder().symlink_to(_FOLDER)
            return models.ensure_all(
                ".mge", [models.Recipe("mobilenet_v2", size, seed=1) for size in (64, 96)]
            )

    return build


@pytest.fixture(scope="module", params=_SCENARIOS)
def runtime(
    request: pytest.FixtureRequest,
    mobile_resolutions: tuple[Path, Path],
    mge_files: Callable[[], list[Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Runtime:
    """Return each runtime; programs write into the folder of their models, which are copies."""
    folder = tmp_path_factory.mktemp("programs")
    if request.param == "openvino":
        pytest.importorskip("openvino", exc_type=ImportError)
    is_onnx = request.param != "megengine_lite"
    files = []
    for file in mobile_resolutions if is_onnx else mge_files():
        files.append(folder / file.name)
        files[-1].write_bytes(file.read_bytes())
    return Runtime(
        request.param, Path(sys.executable) if is_onnx else _MEGENGINE, (files[0], files[1]), folder
    )


@pytest.fixture(scope="module")
def used(runtime: Runtime) -> Callable[[str], Ran]:
    """Return a function that uses the program of a scenario once."""
    return lru_cache(maxsize=None)(lambda scenario: runtime.used(runtime.plan(scenario)))


def test_outputs_are_those_of_separate_contexts(
    runtime: Runtime, used: Callable[[str], Ran]
) -> None:
    """Outputs are equal bit for bit, with different inputs of the contexts."""
    expected = used("no_reuse_one_model").digests
    assert len(set(expected)) == len(expected) == _STREAMS * _CONTEXTS
    digests = {name: used(name).digests for name in _SCENARIOS[runtime.name]}
    assert digests == dict.fromkeys(digests, expected)


def test_outputs_of_resolutions(used: Callable[[str], Ran]) -> None:
    """Contexts over shared weights give the same outputs as with their own weights."""
    assert used("shared_weights").digests == used("resolutions").digests


def test_options_are_those_of_the_source(runtime: Runtime, used: Callable[[str], Ran]) -> None:
    """A dup has them too, and its outputs; what a prepared model cannot have, and what is unknown,
    is refused.
    """
    if runtime.name != "onnxruntime":
        pytest.skip("of one runtime alone")
    first, *dups = runtime.plan("full_dup").contexts

    def with_option(option: str) -> Plan:
        contexts = (replace(first, options=(option,)), *dups)
        return replace(runtime.plan("full_dup"), scenario="with_option", contexts=contexts)

    chosen = with_option("enable_cpu_mem_arena=0")
    assert (
        "\n    options.enable_cpu_mem_arena = False\n" in snippet_of(chosen).text
    )  # of every context
    assert runtime.used(chosen).digests == used("full_dup").digests
    several = (
        "session.set_denormal_as_zero=1",
        "memory.enable_memory_arena_shrinkage=cpu:0",
        "arena_extend_strategy=kSameAsRequested",
        "intra_op_num_threads=2",
    )
    alone = Context(0, 0, options=several)
    plan = replace(runtime.plan("full_dup"), scenario="options", contexts=(alone, alone))
    text = snippet_of(plan).text
    assert 'ort.OrtArenaCfg({"arena_extend_strategy": 1})' in text
    assert 'add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")' in text
    bare = replace(plan, scenario="no_options", contexts=(Context(0, 0), Context(0, 0)))
    assert runtime.used(plan).digests == runtime.used(bare).digests
    for refused in ("graph_optimization_level=ORT_ENABLE_BASIC", "no_such=1"):
        with pytest.raises(NotSupported, match=refused):
            snippet_of(with_option(refused))


def test_what_is_shared_is_saved(runtime: Runtime, used: Callable[[str], Ran]) -> None:
    """Dups take less memory than separate contexts, and no more with a shared internal memory."""
    separate = used("no_reuse_one_model").pss_bytes
    dups = used("full_dup").pss_bytes
    assert dups < 0.7 * separate
    assert used("lean").pss_bytes < 1.1 * dups  # of OpenVINO dups share internal memory already
    if runtime.name != "megengine_lite":
        assert used("shared_context").pss_bytes < 0.5 * separate
    assert used("shared_weights").pss_bytes < 0.9 * used("resolutions").pss_bytes


@pytest.mark.parametrize("scenario", ["full_dup_internal_reuse", "shared_weights", "no_reuse"])
def test_a_program_by_itself(runtime: Runtime, scenario: str) -> None:
    """It runs its rounds in threads, tells each context's outputs, and ends with 0; wrong arguments
    end it with 1.
    """
    plan = runtime.plan(scenario)
    done = runtime.run(*runtime.write(plan))
    assert done.returncode == 0, done.stderr
    lines = re.findall(
        r"^context (\d+): CRC-32 of its outputs ([0-9a-f]{8})$", done.stdout, re.MULTILINE
    )
    assert [int(number) for number, _ in lines] == list(range(len(plan.contexts)))
    # The inputs are equal.
    assert len({digest for _, digest in lines}) == len(plan.models)
    program, *_ = runtime.write(plan)
    mistaken = runtime.run(program, "one", "two", "three")
    assert mistaken.returncode == 1
    assert mistaken.stderr.startswith(f"usage: {program} {runtime.files[0].name}")


def test_contexts_of_several_kinds(runtime: Runtime, used: Callable[[str], Ran]) -> None:
    """Properties that differ between contexts are decided for each."""
    plan = runtime.plan("no_reuse_one_model")
    kinds = [
        Context(0, 0, internal=3, core=0, zero_copy=(INPUT,)),
        Context(0, 0, DUP, 0, internal=3, core=0, zero_copy=(OUTPUT,)),
        Context(0, 0, core=1, zero_copy=(INPUT, OUTPUT)),
        Context(1, 0, DUP, 2, core=1),
        Context(1, 0, internal=3, core=0),
        Context(1, 0, core=1, outside=() if runtime.name == "megengine_lite" else (WEIGHTS,)),
    ]
    mixed = runtime.used(replace(plan, scenario="mixed", contexts=tuple(kinds)))
    assert mixed.digests == used("no_reuse_one_model").digests


def test_free_sizes_are_those_of_the_plan() -> None:
    """The shapes that were measured are written out."""
    (model,) = models_of("/models/free.onnx")
    model = replace(model, inputs=(InputData("pixels", "float32", (1, 3, 64, 64), assumed=(2, 3)),))
    text = snippet_of(
        Plan("free", None, "onnxruntime", (model,), (Context(0, 0),), cores=1, rounds=1)
    ).text
    assert "SHAPES = [{'pixels': (1, 3, 64, 64)}]" in text


def test_an_output_in_place_whose_sizes_are_free(tmp_path: Path) -> None:
    """Its array has the sizes of the first run, and the program ends well."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    pixels, half = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, "height", "width"])
        for name in ("pixels", "half")
    )
    node = helper.make_node("HardSigmoid", ["pixels"], ["half"])
    graph = helper.make_graph([node], "free", [pixels], [half])
    opset = helper.make_opsetid("", 13)
    path = tmp_path / "free.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)

    (model,) = models_of(path)
    model = replace(model, inputs=(InputData("pixels", "float32", (1, 3, 4, 5), assumed=(2, 3)),))
    contexts = (Context(0, 0, zero_copy=(INPUT, OUTPUT)),)
    plan = Plan("free", None, "onnxruntime", (model,), contexts, cores=1, rounds=1)
    program = tmp_path / "free.py"
    program.write_text(snippet_of(plan).text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program, path],
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The inputs are zero, and the function of zero is a half.
    expected = zlib.crc32(struct.pack("<f", 0.5) * (3 * 4 * 5))
    assert done.stdout == f"context 0: CRC-32 of its outputs {expected:08x}\n"


@pytest.mark.parametrize(
    ("runtime_name", "changes", "code"),
    [
        ("onnxruntime", {"device": "cuda"}, "no_code_of_device"),
        ("onnxruntime", {"device_io": True}, "onnx_cpu_device_io"),
        ("onnxruntime", {"zero_copy": ("native_output",)}, "no_native_output"),
        ("onnxruntime", {"zero_copy": ("model",)}, "no_model_in_place"),
        ("onnxruntime", {"outside": ("internal",)}, "onnx_no_allocator"),
        ("onnxruntime", {"outside": ("weights",), "allocator": "mmz"}, "onnx_any_memory"),
        ("openvino", {"device": "cuda"}, "openvino_cpu_only"),
        ("openvino", {"device_io": True}, "openvino_cpu_device_io"),
        ("openvino", {"zero_copy": ("native_output",)}, "no_native_output"),
        ("openvino", {"outside": ("internal",)}, "openvino_no_allocator"),
        ("openvino", {"outside": ("weights",), "allocator": "mmz"}, "openvino_any_memory"),
        ("megengine_lite", {"device": "cuda"}, "no_code_of_device"),
        ("megengine_lite", {"device_io": True}, "no_code_of_device_io"),
        ("megengine_lite", {"zero_copy": ("native_output",)}, "no_native_output"),
        ("megengine_lite", {"zero_copy": ("model",)}, "no_model_in_place"),
        ("megengine_lite", {"outside": ("internal",)}, "megengine_no_allocator"),
        ("megengine_lite", {"outside": ("weights",)}, "megengine_keeps_weights"),
        ("megengine_lite", {"mechanism": "shared_context", "source": 0}, "megengine_one_thread"),
        ("base", {}, "no_code_of_runtime"),  # a module of the package, and not a runtime
        ("", {}, "no_code_of_runtime"),
    ],
)
def test_what_there_is_no_code_for(
    runtime_name: str, changes: dict[str, object], code: str
) -> None:
    """Features that the adapter refuses, or that were never run, are an error message."""
    contexts = (Context(0, 0), replace(Context(0, 0), **changes))  # type: ignore[arg-type]
    with pytest.raises(NotSupported) as refused:
        snippet_of(Plan("mine", None, runtime_name, models_of("a"), contexts, cores=1, rounds=1))
    assert refused.value.message.code == code
