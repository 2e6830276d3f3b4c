"""`pytest bench/` on targets with a ledger or without arithmetic, and on a double of Rockchip's
library.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.storage.run_file import WITHOUT_SPEED
from tests.bench.bench_process import Bench, Done, repeated
from tests.helpers.far_shell import shell_at
from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process

#: One scenario of each question.
_OF_QUESTIONS = (
    *("full_dup", "in_turn", "resolutions", "runtime_memory", "copied_io", "plain"),
    *("streams_full_dup", "cycles_contexts", "limit_no_reuse"),
)
#: Mechanisms that Rockchip's library has, and one for each reason why it lacks others.
_HAS = ("full_dup", "internal_reuse", "shared_weights", "external_memory", "lean")
_LACKING = ("shared_context", "external_weights", "device_io", "cuda_copied_io")
_PAGE = 4096

#: A pytest plugin that replaces a library by another after the first configuration.
_REPLACE = """
from pathlib import Path

def pytest_runtest_logfinish():
    library = Path({library!r})
    other = library.with_name("other.so")
    other.write_bytes(library.read_bytes() + bytes(1))
    other.replace(library)
"""

#: A pytest plugin that turns this machine into a virtual board with the runtime of
#: tests/helpers/scripted_driver.py.
_VIRTUAL = """
from dataclasses import replace

import reusebench.harness.selection
from reusebench.measured import runtimes
from tests.helpers.scripted_driver import ENTRY
from tests.helpers.support import SCRIPTED

runtimes.RUNTIMES = reusebench.harness.selection.RUNTIMES = (ENTRY,)
reusebench.harness.selection.parse_target = lambda *_: replace(
    SCRIPTED, name="virtual", keeps_ledger=True, computes=False, decodes=False
)
"""


def _only(*names: str) -> str:
    """Return the option that selects these scenarios alone."""
    return "-k" + " or ".join(f"-{name}]" for name in names)


def _virtual(bench: Bench, script: str, *arguments: str) -> Done:
    """Run with a model file whose name is the script."""
    model = bench.folder / f"model;{script}"
    model.write_text("model")
    options = [*bench.plugin("virtual", _VIRTUAL), "--runtime", "scripted", "--model", str(model)]
    resolutions = ["--resolution", str(model)] * 4
    return bench.run(*options, *resolutions, *arguments)


def test_everything_is_stored_where_nothing_computes(bench: Bench) -> None:
    """Scenarios of every question pass, without speed and statistics, and all of them are one run
    of the storage.
    """
    done = _virtual(bench, "create-1-5000@load0", _only(*_OF_QUESTIONS))
    assert done.code == 0, done.words
    assert f"{len(_OF_QUESTIONS)} passed" in done.words
    (run,) = done.runs()
    assert {stored.info.scenario for stored in run.results} == set(_OF_QUESTIONS)
    for stored in run.results:
        info = stored.info
        assert (info.outcome, info.computes, info.target) == ("ok", False, "virtual")
        assert info.speed.latency_median_ns == (None,)
    plain = done.results()["plain"]
    assert plain.memory.npu_memory_bytes == (2 * _PAGE,)
    assert plain.repeats[0].npu is not None
    assert plain.repeats[0].npu.source == "ledger"
    saved = json.loads(run.path.read_text())
    assert (saved["benchmarks"], len(saved[WITHOUT_SPEED])) == ([], len(_OF_QUESTIONS))
    questions = {path.stem.replace("test_", "") for path in (CHECKOUT / "bench").glob("test_*.py")}
    # Plans are the user's, and RKNN has neither options nor language models.
    others = {"plans", "options", "sessions"}
    assert {entry["group"] for entry in saved[WITHOUT_SPEED]} == questions - others


def test_wrong_memory_fails(bench: Bench) -> None:
    """A process that reads memory of another context fails its configuration, which is stored with
    its findings.
    """
    buffers = "create-1-100@load0;create-2-9000@load0;create-3-100@load1"
    done = _virtual(bench, f"{buffers};submit-3-2-2@infer1", "-k", "no_reuse_one_model")
    assert done.code == 1, done.words
    (info,) = done.results().values()
    assert info.outcome == "wrong_memory"
    assert "wrong memory in phase 'steady 1': " in done.words
    assert "Traceback" not in done.words
    npu = info.repeats[0].npu
    assert npu is not None
    assert [finding.kind for finding in npu.findings] == ["reads_foreign", "leak"]


def test_rockchips_adapter_from_end_to_end(bench: Bench, rknn_double: Callable[..., Path]) -> None:
    """Options alone measure all questions; missing mechanisms are skipped with the reason."""
    models = [bench.folder / f"model-{number}.rknn" for number in (0, 1)]
    for model, sizes in zip(models, ("9000 5000 1 ", "7000 12345 1 ")):
        model.write_text(sizes)
    options = repeated("--model", models)
    options += repeated("--resolution", [f"{model},{model}" for model in (*models, *models)])
    library = rknn_double("librknnrt version: 1.6.0 (double)")
    done = bench.run(
        "--runtime", "rknn", "--rknn-library", str(library), *options, _only(*_HAS, *_LACKING)
    )
    assert done.code == 0, done.words
    assert "a context from one thread at a time; another thread needs a dup" in done.words
    results = done.results()
    assert done.outcomes() == {
        **dict.fromkeys(_HAS, "ok"),
        **dict.fromkeys(_LACKING, "not_supported"),
    }
    info = results["internal_reuse"]
    assert (info.runtime_version, info.driver_version, info.cores) == ("1.6.0 (double)", "0.9.8", 1)
    assert [model.name for model in info.models] == ["model-0", "model-1"]
    accounts = [results[name].repeats[0].npu for name in ("internal_reuse", "shared_weights")]
    internal, weights = (account.contexts if account else () for account in accounts)
    assert [account and account.source for account in accounts] == ["runtime"] * 2
    assert [context.internal_bytes for context in internal] == [12345, 0]
    assert [context.weights_bytes for context in weights] == [9000, 0, 0, 0]


@pytest.mark.parametrize("named_by", ["option", "variable", "board"])
def test_a_library_that_is_replaced_between_configurations(
    bench: Bench, rknn_double: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """Figures are those of the session's first library: a remote board keeps it, and here the
    others have none.
    """
    model = bench.folder / "model.rknn"
    library = bench.folder / "librknnrt.so"
    model.write_text("9000 5000 1 ")
    shutil.copy(rknn_double("librknnrt version: 1.6.0 (double)"), library)
    options = ["--runtime=rknn", f"--model={model}", "-k=-in_turn] or -internal_reuse]"]
    options += bench.plugin("replaces", _REPLACE.format(library=str(library)))
    if named_by == "variable":
        monkeypatch.setenv(LIBRARY_VARIABLE, str(library))
    else:
        options.append(f"--rknn-library={library}")
    if named_by == "board":
        options.append(f"--target={shell_at(bench.folder)}")
    done = bench.run(*options)
    changed = "ok" if named_by == "board" else "input_changed"
    assert done.outcomes() == {"in_turn": "ok", "internal_reuse": changed}, done.words
    assert (f"{library} has changed since the session began" in done.words) == (named_by != "board")
