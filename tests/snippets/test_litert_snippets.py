"""The programs for LiteRT, run for real: equal outputs whatever is reused, and less memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from reusebench.measured.plan import Context, Plan
from reusebench.measured.runtimes.base import NotSupported
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.snippets import snippet_of
from tests.helpers.support import CHECKOUT, PROGRAM_LIMIT_S, models_of

pytest.importorskip("ai_edge_litert")

from tests.measured.runtimes.litert_models import write_model

pytestmark = pytest.mark.process

_STREAMS = 2
_CONTEXTS = 3
_CORES = 2


class Ran(NamedTuple):
    """The client's observations of a program."""

    digests: tuple[int, ...]
    pss_bytes: int


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_LIMIT_S,
    )


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Return a function that writes a scenario's program and models, and returns their paths."""
    folder = tmp_path_factory.mktemp("programs")
    files = [write_model(folder / f"{size}.tflite", size) for size in (64, 96)]

    def written(scenario: str) -> list[str]:
        paths = files if scenario in ("resolutions", "shared_weights") else files[:1]
        parameters = Parameters("litert", models_of(*paths), _STREAMS, _CONTEXTS, _CORES, rounds=2)
        for plan in find_scenario(scenario).plans(parameters):
            try:
                text = snippet_of(plan).text
            except NotSupported:
                continue
            program = folder / f"{scenario}.py"
            program.write_text(text)
            return [str(program), *(model.path for model in plan.models)]
        raise AssertionError(f"no plan of {scenario}")

    return written


@pytest.fixture(scope="module")
def used(write: Callable[[str], list[str]]) -> Callable[[str], Ran]:
    """Return a function that uses the program of a scenario once."""

    @cache
    def ran(scenario: str) -> Ran:
        done = _run("-m", "tests.snippets.python_client", *write(scenario))
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        return Ran(tuple(seen["digests"]), seen["pss_bytes"])

    return ran


def test_outputs_are_those_of_separate_contexts(used: Callable[[str], Ran]) -> None:
    """Bit for bit, each context with an input of its own."""
    expected = used("no_reuse_one_model").digests
    assert len(set(expected)) == len(expected) == _STREAMS * _CONTEXTS
    names = ("partial_dup", "full_dup", "shared_context", "zero_copy_output", "lean")
    assert {name: used(name).digests for name in names} == dict.fromkeys(names, expected)
    assert used("shared_weights").digests == used("resolutions").digests


def test_what_is_shared_is_saved(used: Callable[[str], Ran]) -> None:
    """Contexts that map packed weights take less than those that pack them, and threads of one
    model least.
    """
    separate = used("no_reuse_one_model").pss_bytes
    dups = used("full_dup").pss_bytes
    assert dups < 0.85 * separate
    assert used("shared_context").pss_bytes < dups
    assert used("shared_weights").pss_bytes < 0.9 * used("resolutions").pss_bytes


def test_a_program_by_itself(write: Callable[[str], list[str]]) -> None:
    """It runs its rounds in threads, tells each context's outputs, and ends with 0; wrong arguments
    end it with 1.
    """
    program, model = write("full_dup")
    done = _run(program, model)
    assert done.returncode == 0, done.stderr
    lines = re.findall(
        r"^context (\d+): CRC-32 of its outputs ([0-9a-f]{8})$", done.stdout, re.MULTILINE
    )
    assert [int(number) for number, _ in lines] == list(range(_STREAMS * _CONTEXTS))
    assert len({digest for _, digest in lines}) == 1, "the inputs are equal"
    mistaken = _run(program, "one", "two", "three")
    assert mistaken.returncode == 1
    assert mistaken.stderr.endswith(f"usage: {program} {Path(model).name}\n")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"device": "cuda"}, "litert_cpu_only"),
        ({"device_io": True}, "litert_cpu_only"),
        ({"zero_copy": ("native_output",)}, "no_native_output"),
        ({"zero_copy": ("model",)}, "no_model_in_place"),
        ({"zero_copy": ("input",)}, "litert_no_code_in_python"),
        ({"internal": 1}, "litert_no_code_in_python"),
        ({"outside": ("weights",)}, "litert_no_code_in_python"),
        ({"outside": ("internal",)}, "litert_no_allocator"),
        ({"allocator": "mmz"}, "litert_any_memory"),
        ({"options": ("xnnpack_flags=QS8", "xnnpack_flags=QU8")}, "litert_no_code_of_options"),
        ({"options": ("api=Interpreter",)}, "litert_no_code_of_options"),
        ({"options": ("kernel_mode=fast",)}, "option_value"),
        ({"options": ("no_such=1",)}, "unknown_option"),
    ],
)
def test_what_there_is_no_code_for(changes: dict[str, object], code: str) -> None:
    """Features that the adapter refuses or the wheel lacks are an error message."""
    contexts = (Context(0, 0), replace(Context(0, 0), **changes))  # type: ignore[arg-type]
    with pytest.raises(NotSupported) as refused:
        snippet_of(Plan("mine", None, "litert", models_of("a"), contexts, cores=1, rounds=1))
    assert refused.value.message.code == code
