"""All mechanisms of a runtime tried, on real processes with a scripted runtime and on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import runtimes
from harness import selection as choice
from harness import trial
from harness.errors import UserError
from harness.measuring.model_sets import BuiltIn
from harness.selection import Choice
from harness.trial import try_mechanisms
from scenarios.catalogue import SCENARIOS, find_scenario
from storage.mechanisms import RuntimeTrials, Trial, read_trials
from tests.scripted_driver import ENTRY
from tests.support import SCRIPTED, models_of

_ALL = Choice((), "python", None)


class Told:
    """A teller that keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        self.trials: list[Trial] = []
        self.untried: list[tuple[str, str]] = []

    def begin(self, runtime: str, target: str) -> None:
        """Begin a runtime."""
        self.begun.append((runtime, target))

    def tell(self, trial: Trial) -> None:
        """One mechanism has been tried."""
        self.trials.append(trial)

    def cannot_try(self, runtime: str, reason: str) -> None:
        """A runtime has no models here."""
        self.untried.append((runtime, reason))


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache out of it, and be quick."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(trial, "_REPEATS", 1)


def _only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have these mechanisms alone tried, to be quick."""
    monkeypatch.setattr(trial, "_MECHANISMS", tuple(map(find_scenario, names)))


def _try_script(monkeypatch: pytest.MonkeyPatch, storage: Path, script: str) -> tuple[Told, RuntimeTrials]:
    """Try the scripted runtime with a model that is this script."""

    class Scripts:
        def __init__(self, *_: object, **__: object) -> None:
            """All sets are alike."""

        def of(self, *_: str) -> Any:
            return models_of(script, f"{script};second", f"{script};third")

    monkeypatch.setattr(runtimes, "RUNTIMES", (ENTRY,))
    monkeypatch.setattr(choice, "RUNTIMES", (ENTRY,))
    monkeypatch.setattr(choice, "parse_target", lambda *_: SCRIPTED)
    monkeypatch.setattr(trial, "ModelSets", Scripts)
    told = Told()
    try_mechanisms(_ALL, storage, told)
    (tried,) = read_trials(storage)
    return told, tried


def test_every_mechanism_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All scenarios of a mechanism in order, told one by one and stored with the versions; no run is left behind."""
    told, tried = _try_script(monkeypatch, tmp_path, "plain")
    assert [each.scenario for each in told.trials] == [
        each.name for each in SCENARIOS if each.baseline and not each.is_variant
    ]
    assert tried.trials == tuple(told.trials)
    assert told.begun == [("scripted", "scripted")]
    assert (tried.runtime, tried.runtime_version, tried.target) == ("scripted", "1.2.3", "scripted")
    assert tried.python_version
    assert [path.name for path in tmp_path.iterdir()] == ["mechanisms.json"]
    verdicts = {each.scenario: each.verdict for each in tried.trials}
    # By the runtime's own account of its NPU memory: the weights of a dup are not there again.
    assert verdicts["partial_dup"] == verdicts["full_dup"] == verdicts["lean"] == "works"
    assert verdicts["zero_copy_input"] == verdicts["zero_copy_output"] == verdicts["device_io"] == "works"
    lean = tried.trials[-1]
    assert (lean.memory, lean.combined) == ("npu", ("full_dup", "internal_reuse", "zero_copy_io"))
    assert lean.copies_avoided_bytes == 640


def test_a_mechanism_that_is_not_there_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told with its reason; the combination goes without what is missing."""
    _only(monkeypatch, "full_dup", "internal_reuse", "lean")
    _, tried = _try_script(monkeypatch, tmp_path, "not_supported@dup0;raise@share_internal0")
    dup, internal, lean = tried.trials
    assert (dup.verdict, dup.reason) == ("not_supported", "the script says so")
    assert (internal.verdict, internal.saved_bytes) == ("fails", None)
    assert internal.reason == "failed in phase 'internal_memory 0': RuntimeError: the script says so"
    assert lean.verdict == "fails"


def test_equal_baselines_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several scenarios without reuse are the same plan at this size."""
    _only(monkeypatch, "full_dup", "zero_copy_io", "lean")
    log = tmp_path / "log"
    _try_script(monkeypatch, tmp_path / "storage", f"log={log}")
    # Three contexts of the baseline; zero copy loads as many.
    assert log.read_text().splitlines().count("load2") == 1 + 1


def test_onnx_runtime_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On real models dup saves weights, and what the runtime lacks is said."""
    _only(monkeypatch, "full_dup", "external_physical")
    network = ("mobilenet_v2", 64)
    monkeypatch.setattr(trial, "_BUILT_IN", BuiltIn(stream=network, in_turn=(network,), resolutions=(network,)))
    told = Told()
    try_mechanisms(Choice(("onnxruntime",), "python", None), tmp_path, told)
    dup, external = told.trials
    assert (dup.verdict, dup.memory) == ("works", "application")
    assert dup.saved_bytes is not None
    assert dup.whole_bytes is not None
    assert 0 < dup.saved_bytes < dup.whole_bytes
    assert external.verdict == "not_supported"
    assert external.reason


def test_a_runtime_without_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told why; where no other can be tried, that is a mistake to put right, and nothing is stored."""
    monkeypatch.setattr(choice, "parse_target", lambda *_: SCRIPTED)
    told = Told()
    with pytest.raises(UserError, match="rknn: a built-in model is made for one chip"):
        try_mechanisms(Choice(("rknn",), "python", None), tmp_path, told)
    ((runtime, reason),) = told.untried
    assert (runtime, told.begun) == ("rknn", [])
    assert reason.startswith("a built-in model is made for one chip")
    assert read_trials(tmp_path) == []


def test_mistakes_of_a_user(tmp_path: Path) -> None:
    """They are said before anything is tried."""
    with pytest.raises(UserError, match="no such target"):
        try_mechanisms(Choice((), "moon", None), tmp_path, Told())
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        try_mechanisms(Choice(("onnxruntime",), "python", None), tmp_path / "file" / "storage", Told())
