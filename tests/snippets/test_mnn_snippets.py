"""The programs for MNN, run for real: equal outputs whatever is reused, and less memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest

from reusebench.measured.plan import DUP, INPUT, OUTPUT, Context, Plan
from reusebench.measured.runtimes import available, find_runtime
from reusebench.measured.runtimes.base import InputData, NotSupported
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.snippets import snippet_of
from tests.helpers.support import CHECKOUT, PROGRAM_LIMIT_S, models_of

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not available(find_runtime("mnn")), reason="MNN is not installed"),
]

_STREAMS = 2
_CONTEXTS = 3
_CORES = 2


@dataclass(frozen=True)
class Ran:
    """The client's observations of a program."""

    digests: tuple[int, ...]
    pss_bytes: int


@dataclass(frozen=True)
class Programs:
    """Writes programs beside the files of one network at two sizes, and runs them."""

    folder: Path
    files: tuple[Path, ...]

    def plan(self, scenario: str) -> Plan:
        """Return the scenario's first writable plan; resolutions have two files, others one."""
        paths = self.files if scenario in ("resolutions", "shared_weights") else self.files[:1]
        parameters = Parameters("mnn", models_of(*paths), _STREAMS, _CONTEXTS, _CORES, rounds=2)
        for plan in find_scenario(scenario).plans(parameters):
            try:
                snippet_of(plan)
            except NotSupported:
                continue
            return plan
        raise AssertionError(f"no plan of {scenario}")

    def write(self, plan: Plan) -> list[str]:
        """Write the program; return its path and its models' paths."""
        program = self.folder / f"{plan.scenario}.py"
        program.write_text(snippet_of(plan).text)
        return [str(program), *(model.path for model in plan.models)]

    def used(self, plan: Plan) -> Ran:
        """Use the plan's program."""
        done = _run("-m", "tests.snippets.python_client", *self.write(plan))
        assert done.returncode == 0, done.stderr
        # MNN prints a line of its own, before or after.
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("{"))
        seen = json.loads(line)
        return Ran(tuple(seen["digests"]), seen["pss_bytes"])


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
def programs(
    mnn_files: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Programs:
    """Return them, of a network at two sizes."""
    files = mnn_files(("mobilenet_v2", 64), ("mobilenet_v2", 96))
    return Programs(tmp_path_factory.mktemp("programs"), tuple(map(Path, files)))


@pytest.fixture(scope="module")
def used(programs: Programs) -> Callable[[str], Ran]:
    """Return a function that uses the program of a scenario once."""
    return lru_cache(maxsize=None)(lambda scenario: programs.used(programs.plan(scenario)))


def test_outputs_are_those_of_separate_contexts(used: Callable[[str], Ran]) -> None:
    """Bit for bit, each context with an input of its own."""
    expected = used("no_reuse_one_model").digests
    assert len(set(expected)) == len(expected) == _STREAMS * _CONTEXTS
    names = (
        "partial_dup",
        "full_dup",
        "shared_context",
        "full_dup_internal_reuse",
        "zero_copy_input",
        "lean",
    )
    digests = {name: used(name).digests for name in names}
    assert digests == dict.fromkeys(names, expected)
    assert used("shared_weights").digests == used("resolutions").digests


def test_what_is_shared_is_saved(used: Callable[[str], Ran]) -> None:
    """Clones take less memory than separate contexts, and handles on one module less than half."""
    separate = used("no_reuse_one_model").pss_bytes
    dups = used("full_dup").pss_bytes
    assert dups < 0.7 * separate
    assert used("shared_context").pss_bytes < 0.5 * separate
    assert used("shared_weights").pss_bytes < 0.9 * used("resolutions").pss_bytes


def test_a_program_by_itself(programs: Programs) -> None:
    """It runs its rounds in threads, tells each context's outputs, and ends with 0; wrong arguments
    end it with 1.
    """
    plan = programs.plan("full_dup_internal_reuse")
    done = _run(*programs.write(plan))
    assert done.returncode == 0, done.stderr
    lines = re.findall(
        r"^context (\d+): CRC-32 of its outputs ([0-9a-f]{8})$", done.stdout, re.MULTILINE
    )
    assert [int(number) for number, _ in lines] == list(range(len(plan.contexts)))
    assert len({digest for _, digest in lines}) == 1, "the inputs are equal"
    program, *_ = programs.write(plan)
    mistaken = _run(program, "one", "two", "three")
    assert mistaken.returncode == 1
    assert mistaken.stderr.endswith(f"usage: {program} {programs.files[0].name}\n")


def test_contexts_of_several_kinds(programs: Programs, used: Callable[[str], Ran]) -> None:
    """Properties that differ between contexts are decided for each."""
    kinds = [
        Context(0, 0, internal=3, core=0, zero_copy=(INPUT,)),
        Context(0, 0, DUP, 0, internal=3, core=0, zero_copy=(OUTPUT,)),
        Context(0, 0, core=1, zero_copy=(INPUT, OUTPUT)),
        Context(1, 0, DUP, 2, core=1),
        Context(1, 0, "shared_context", 0, core=0),
        Context(1, 0, core=1),
    ]
    mixed = programs.used(
        replace(programs.plan("no_reuse_one_model"), scenario="mixed", contexts=tuple(kinds))
    )
    assert mixed.digests == used("no_reuse_one_model").digests


def test_options_are_written(programs: Programs) -> None:
    """Hints are for the process; clones without packed weights are made after a first run."""
    plan = programs.plan("no_reuse_one_model")
    options = ("rearrange=False", "WINOGRAD_MEMORY_LEVEL=0", "memory=low", "numThread=2")
    kinds = (Context(0, 0, options=options), Context(0, 0, DUP, 0))
    (first, second) = programs.used(replace(plan, scenario="optioned", contexts=kinds)).digests
    assert first != second, "the inputs differ"
    text = snippet_of(replace(plan, contexts=kinds)).text
    assert "RUNTIME.set_hint(3, 0)" in text
    assert '"numThread": 2, "memory": 2}' in text
    assert text.index("infer(0)") < text.index("modules[0].clone()")


def test_free_sizes_are_those_of_the_plan() -> None:
    """The shapes that were measured are written out."""
    (model,) = models_of("/models/free.mnn")
    model = replace(model, inputs=(InputData("pixels", "float32", (1, 3, 64, 64), assumed=(2, 3)),))
    text = snippet_of(Plan("free", None, "mnn", (model,), (Context(0, 0),), cores=1, rounds=1)).text
    assert "SHAPES = [{'pixels': (1, 3, 64, 64)}]" in text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"device": "cuda"}, "mnn_cpu_alone"),
        ({"device_io": True}, "mnn_cpu_alone"),
        ({"zero_copy": ("native_output",)}, "no_native_output"),
        ({"zero_copy": ("model",)}, "mnn_no_external_path"),
        ({"outside": ("internal",)}, "mnn_no_allocator"),
        ({"outside": ("weights",)}, "mnn_keeps_weights"),
        ({"allocator": "mmz"}, "mnn_own_memory"),
        ({"options": ("rearrange=False",)}, "mnn_no_code_of_options"),
        ({"options": ("api=Interpreter",)}, "mnn_no_code_of_options"),
    ],
)
def test_what_there_is_no_code_for(changes: dict[str, object], code: str) -> None:
    """Features that the adapter refuses, or that were never run, are an error message."""
    contexts = (Context(0, 0), replace(Context(0, 0), **changes))  # type: ignore[arg-type]
    with pytest.raises(NotSupported) as refused:
        snippet_of(Plan("mine", None, "mnn", models_of("a"), contexts, cores=1, rounds=1))
    assert refused.value.message.code == code
