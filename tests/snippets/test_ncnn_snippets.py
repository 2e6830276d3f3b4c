"""The programs for ncnn, run for real: equal outputs whatever is reused, and less memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from reusebench.measured.plan import DUP, INPUT, INTERNAL, OUTPUT, SHARED_CONTEXT, Context, Plan
from reusebench.measured.runtimes.base import InputData, NotSupported
from reusebench.snippets import snippet_of
from tests.helpers.support import models_of
from tests.measured.runtimes.ncnn_models import DETECTOR, write_net
from tests.snippets.test_python_snippets import Ran, Runtime

pytestmark = pytest.mark.process

pytest.importorskip("ncnn")

_SCENARIOS = (
    "partial_dup",
    "full_dup",
    "shared_context",
    "full_dup_internal_reuse",
    "external_internal",
    "zero_copy_input",
    "zero_copy_output",
    "lean",
)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """Return the runtime with a net's files at two sizes, one without rows of 16 bytes."""
    folder = tmp_path_factory.mktemp("programs")
    files = []
    for size in (90, 136):
        files.append(
            write_net(folder / f"detector-{size}.param", DETECTOR.layers(size), DETECTOR.weights())
        )
    return Runtime("ncnn", Path(sys.executable), (files[0], files[1]), folder)


@pytest.fixture(scope="module")
def used(runtime: Runtime) -> Callable[[str], Ran]:
    """Return a function that uses the program of a scenario once."""
    return lru_cache(maxsize=None)(lambda scenario: runtime.used(runtime.plan(scenario)))


def test_outputs_are_those_of_separate_contexts(used: Callable[[str], Ran]) -> None:
    """Bit for bit, each context with an input of its own."""
    expected = used("no_reuse_one_model").digests
    assert len(set(expected)) == len(expected) > 1
    digests = {name: used(name).digests for name in _SCENARIOS}
    assert digests == dict.fromkeys(digests, expected)


def test_outputs_of_resolutions(used: Callable[[str], Ran]) -> None:
    """Contexts over one net give the same outputs as separate nets."""
    assert used("shared_weights").digests == used("resolutions").digests


def test_what_is_shared_is_saved(used: Callable[[str], Ran]) -> None:
    """Dups take less than separate contexts, and an arena less than a net's pools."""
    separate = used("no_reuse_one_model").pss_bytes
    for scenario in ("full_dup", "full_dup_internal_reuse", "lean"):
        assert used(scenario).pss_bytes < 0.6 * separate, scenario
    assert used("external_internal").pss_bytes < separate


def test_contexts_of_several_kinds(runtime: Runtime, used: Callable[[str], Ran]) -> None:
    """Properties that differ between contexts are decided for each."""
    plan = runtime.plan("no_reuse_one_model")
    kinds = [
        Context(0, 0, internal=3, core=0, zero_copy=(INPUT,)),
        Context(0, 0, DUP, 0, internal=3, core=0, zero_copy=(OUTPUT,)),
        Context(0, 0, core=1, zero_copy=(INPUT, OUTPUT)),
        Context(1, 0, DUP, 2, core=1, outside=(INTERNAL,)),
        Context(1, 0, core=0),
        Context(1, 0, SHARED_CONTEXT, 2, core=1),
    ]
    mixed = runtime.used(replace(plan, scenario="mixed", contexts=tuple(kinds)))
    assert mixed.digests == used("no_reuse_one_model").digests


def test_a_program_by_itself(runtime: Runtime) -> None:
    """It runs its rounds in threads, tells each context's outputs, and ends with 0; wrong arguments
    end it with 1.
    """
    plan = runtime.plan("lean")
    done = runtime.run(*runtime.write(plan))
    assert done.returncode == 0, done.stderr
    lines = re.findall(
        r"^context (\d+): CRC-32 of its outputs ([0-9a-f]{8})$", done.stdout, re.MULTILINE
    )
    assert [int(number) for number, _ in lines] == list(range(len(plan.contexts)))
    assert len({digest for _, digest in lines}) == 1
    program, *_ = runtime.write(plan)
    mistaken = runtime.run(program, "one", "two", "three")
    assert mistaken.returncode == 1
    assert mistaken.stderr.startswith(f"usage: {program} {runtime.files[0].name}")


def test_options_and_free_sizes_are_written_out(runtime: Runtime) -> None:
    """Those of a context's net, and the shapes that were measured."""
    option = "use_winograd_convolution=0"
    plan = runtime.plan("no_reuse_one_model")
    contexts = (Context(0, 0, options=(option,)), Context(0, 0, DUP, 0), Context(0, 0))
    text = snippet_of(replace(plan, scenario="options", contexts=contexts)).text
    assert (
        "OPTIONS = [{'use_winograd_convolution': False}, {'use_winograd_convolution': False}, {}]"
        in text
    )
    assert runtime.used(replace(plan, scenario="options", contexts=contexts)).digests
    (model,) = models_of("/models/free.param")
    model = replace(model, inputs=(InputData("in0", "float32", (1, 3, 64, 64), assumed=(2, 3)),))
    text = snippet_of(Plan("free", None, "ncnn", (model,), contexts[:1], cores=1, rounds=1)).text
    assert "SHAPES = [{'in0': (1, 3, 64, 64)}]" in text
    assert "OPTIONS = [{'use_winograd_convolution': False}] * CONTEXTS" in text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"device": "cuda"}, "ncnn_cpu_only"),
        ({"device_io": True}, "ncnn_cpu_only"),
        ({"zero_copy": ("native_output",)}, "no_native_output"),
        ({"zero_copy": ("model",)}, "ncnn_lays_weights_out"),
        ({"outside": ("weights",)}, "ncnn_lays_weights_out"),
        ({"outside": ("internal",), "allocator": "mmz"}, "ncnn_any_memory"),
    ],
)
def test_what_there_is_no_code_for(changes: dict[str, object], code: str) -> None:
    """Features that the adapter refuses are an error message."""
    contexts = (Context(0, 0), replace(Context(0, 0), **changes))  # type: ignore[arg-type]
    with pytest.raises(NotSupported) as refused:
        snippet_of(Plan("mine", None, "ncnn", models_of("a"), contexts, cores=1, rounds=1))
    assert refused.value.message.code == code
