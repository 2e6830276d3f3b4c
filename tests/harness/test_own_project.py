"""The fixture `measure` in a user's own project, whose pytest was given `-p reusebench`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from reusebench.system.package import python_command
from tests.helpers.support import PROGRAM_LIMIT_S

pytestmark = pytest.mark.process

_OWN = """
import pytest
import reusebench
from reusebench import Context, Plan

MODEL = "net.onnx"
FEW = {"repeats": 1, "rounds": 2}
GATE = Plan(
    "gate",
    models={"net": MODEL},
    contexts={
        "first": Context("net"),
        "second": Context(dup="first"),
        "third": Context("net", after="second"),
    },
)


def test_scenarios(measure):
    size = {"streams": 2, "contexts": 2, "repeats": 2, "rounds": 2}
    alone = measure("no_reuse_one_model", model=MODEL, **size)
    dup = measure("full_dup", runtime="onnxruntime", model=MODEL, **size)
    assert (dup.outcome, dup.runtime) == ("ok", "onnxruntime")
    assert (dup.scenario, dup.models) == ("full_dup", ("net",))
    assert alone.scenario == "no_reuse_one_model"
    for name in ("application_memory_bytes", "latency_ns"):
        figure = dup[name]
        assert isinstance(figure, reusebench.Figure)
        first, second = figure.values
        assert figure.median == (first + second) / 2
        assert figure.spread == abs(first - second)
    words = "there is no figure 'memory'; valid: application_memory_bytes, "
    with pytest.raises(KeyError, match=words):
        dup["memory"]


def test_plan(measure):
    assert measure(GATE, **FEW).scenario == "gate"
    assert measure(GATE.without_reuse(), **FEW).scenario == "gate.no_reuse"


def test_runtime(measure, runtime):
    result = measure("full_dup", runtime=runtime, model=MODEL, streams=1, contexts=2, **FEW)
    assert result.runtime == "onnxruntime"


@pytest.mark.parametrize("runtime", ["onnxruntime"])
def test_own_runtime(measure, runtime):
    result = measure("full_dup", runtime=runtime, model=MODEL, streams=1, contexts=3, **FEW)
    assert result.outcome == "ok"


def test_lacking(measure):
    measure("external_internal", model=MODEL, **FEW)


def test_unknown_scenario(measure):
    measure("ful_dup")


def test_unknown_runtime(measure):
    measure("full_dup", runtime="onxruntime")


def test_absent_model(measure):
    measure("full_dup", model="absent.onnx")


def test_no_repeats(measure):
    measure("full_dup", repeats=0)


def test_too_many(measure):
    measure("full_dup", streams=1000, contexts=1000)


def test_wrong_plan(measure):
    measure(Plan("wrong", models={"net": MODEL}, contexts={"first": Context("nett")}))


def test_other_plan(measure):
    measure(Plan("gate", models={"net": MODEL}, contexts={"first": Context("net")}))


def test_without_measuring():
    pass


def test_speed(benchmark):
    benchmark.pedantic(sum, args=([1, 2],), rounds=3)
"""
#: A project that asks for the fixture without the plug-in.
_WITHOUT = """
def test_measure(measure):
    pass
"""
_OUTCOMES = {
    "test_scenarios": "PASSED",
    "test_plan": "PASSED",
    "test_runtime[onnxruntime]": "PASSED",
    "test_own_runtime[onnxruntime]": "PASSED",
    "test_lacking": "SKIPPED",
    "test_unknown_scenario": "FAILED",
    "test_unknown_runtime": "FAILED",
    "test_absent_model": "FAILED",
    "test_no_repeats": "FAILED",
    "test_too_many": "FAILED",
    "test_wrong_plan": "FAILED",
    "test_other_plan": "FAILED",
    "test_without_measuring": "PASSED",
    "test_speed": "PASSED",
}
_MISTAKES = {
    "test_unknown_scenario": (
        "there is no scenario 'ful_dup'; did you mean 'full_dup'? valid: no_reuse, "
    ),
    "test_unknown_runtime": (
        "unknown runtime 'onxruntime'; valid: onnxruntime, ncnn, mnn, litert, openvino,"
        " megengine_lite, llama_cpp, onnxruntime_genai, openvino_genai, rknn, teflon."
        " `reusebench doctor` shows what this machine has\n"
    ),
    "test_absent_model": (
        "model absent.onnx: it does not exist. Give a model file, or leave model out for the"
        " built-in set\n"
    ),
    "test_no_repeats": "measure(repeats=0) is not valid; valid: a whole number from 1 to 1,024\n",
    "test_too_many": (
        "1,000,000 contexts are too many; valid: up to 1,024 in all. Lower streams,"
        " contexts, sessions or rounds\n"
    ),
    "test_wrong_plan": (
        "reusebench.Plan('wrong'), contexts.first.model: there is no model 'nett'; did you mean"
        " 'net'? valid: net\n"
    ),
    "test_other_plan": (
        "reusebench.Plan('gate'): this session has another plan of this name; give it another"
        " name\n"
    ),
}


@dataclass
class Project:
    """A project whose tests have run."""

    words: str
    storage: Path

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each test that has ended."""
        lines = re.findall(
            r"^test_own\.py::(\S+) (PASSED|FAILED|SKIPPED|ERROR)\b", self.words, re.MULTILINE
        )
        return dict(lines)

    def message(self, test: str) -> str:
        """Return all lines below the heading of a failed test."""
        _, text = re.split(rf"^_+ {test} _+\n", self.words, maxsplit=1, flags=re.MULTILINE)
        return re.split(r"^(?:_{3,} |={3,} |-{3,} )", text, maxsplit=1, flags=re.MULTILINE)[0]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cache: Path, tiny_model: Path) -> Project:
    """Return a project that has measured with the plug-in."""
    folder = tmp_path_factory.mktemp("own_project")
    storage = folder / "storage"
    (folder / "test_own.py").write_text(_OWN)
    shutil.copy(tiny_model, folder / "net.onnx")
    options = (
        "-p",
        "no:cacheprovider",
        "-p",
        "reusebench",
        "--quick",
        "--runtime=onnxruntime",
        "-v",
        "-rA",
    )
    command = python_command("pytest", *options, f"--benchmark-storage=file://{storage}")
    # The variables of pytest-xdist are for the worker that runs the test.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "XDG_CACHE_HOME": str(cache)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PROGRAM_LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    return Project(done.stdout, storage)


def test_outcomes(project: Project) -> None:
    """Tests pass by their own asserts; a missing mechanism skips, a mistake fails."""
    assert project.outcomes() == _OUTCOMES, project.words


def test_every_call_is_stored(project: Project) -> None:
    """Each call in a test has a name of its own, whichever comes first."""
    (file,) = project.storage.glob("*/*.json")
    stored = json.loads(file.read_text())
    results = [*stored["benchmarks"], *stored["reusebench_without_speed"]]
    assert {result["name"]: result["extra_info"].get("scenario") for result in results} == {
        "test_scenarios": "no_reuse_one_model",
        "test_scenarios 2": "full_dup",
        "test_plan": "gate",
        "test_plan 2": "gate.no_reuse",
        "test_runtime[onnxruntime]": "full_dup",
        "test_own_runtime[onnxruntime]": "full_dup",
        "test_lacking": "external_internal",
        "test_speed": None,
    }


@pytest.mark.parametrize("test", _MISTAKES)
def test_a_mistake_is_a_sentence(project: Project, test: str) -> None:
    """The message has the mistake, what is valid and what to do next, and nothing else."""
    message = project.message(test)
    assert message.startswith(_MISTAKES[test])
    assert message.count("\n") == 1


def test_nothing_is_told_of_the_inside(project: Project) -> None:
    """Mistakes have no tracebacks, and pytest-benchmark accepts the unused fixture."""
    for words in ("Traceback", "During handling", "was not used at all"):
        assert words not in project.words


def test_a_foreign_benchmark_keeps_its_table(project: Project) -> None:
    """The table of latencies is hidden in a session with our benchmarks alone."""
    assert re.search(r"^test_speed +\d", project.words, re.MULTILINE)


def test_a_pytest_without_the_plug_in_has_nothing_of_it(tmp_path: Path) -> None:
    """An installed package adds neither options nor fixtures to other projects."""
    (tmp_path / "test_without.py").write_text(_WITHOUT)
    pytest_alone = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")

    def say(*arguments: str) -> str:
        command = [*pytest_alone, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False
        ).stdout

    options = say("--help")
    assert "--benchmark-storage" in options
    assert "--most-contexts" not in options
    assert "fixture 'measure' not found" in say()
