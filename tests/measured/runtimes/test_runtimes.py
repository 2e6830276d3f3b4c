"""The list of runtimes, and its facts about each, without importing any."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from reusebench.measured.runtimes import (
    RUNTIMES,
    RuntimeEntry,
    UnknownRuntime,
    available,
    find_runtime,
    version_order,
)
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from tests.helpers.support import CHECKOUT

pytestmark = pytest.mark.process


def test_unknown_names() -> None:
    """The message names the valid ones."""
    assert [find_runtime(entry.name) for entry in RUNTIMES] == list(RUNTIMES)
    with pytest.raises(UnknownRuntime) as refusal:
        find_runtime("onnx")
    names = ", ".join(entry.name for entry in RUNTIMES)
    assert str(refusal.value).startswith(f"unknown runtime 'onnx'; valid: {names}. ")


def test_looking_for_a_runtime_does_not_import_it() -> None:
    """The harness must not map the measured process's libraries, and halve their share there."""
    code = "import sys; from reusebench.measured import runtimes; "
    code += "print({entry.name: runtimes.available(entry) for entry in runtimes.RUNTIMES}); "
    code += (
        "heavy = {'numpy', 'onnxruntime', 'megenginelite', 'ctypes',"
        " 'reusebench.measured.runtimes.rknn.adapter'}; "
    )
    code += "print(heavy & set(sys.modules))"
    environment = {**os.environ, LIBRARY_VARIABLE: "/named/librknnrt.so"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    here, imported = done.stdout.splitlines()
    assert "'onnxruntime': True" in here
    assert "'rknn': True" in here
    assert imported == "set()"
    assert not available(
        RuntimeEntry(
            "missing",
            "Missing",
            "reusebench.measured.runtimes.missing",
            "no_such_module",
            "",
            "cpu",
            (".missing",),
        )
    )


def test_every_runtime_has_its_own_kind_of_model() -> None:
    """A file's suffix tells its runtime; the kind of device tells how many contexts run at once.

    Models that are folders are known by a name, too. Teflon is LiteRT with a delegate.
    """
    owners = [entry for entry in RUNTIMES if entry.name != "teflon"]
    kinds = {(entry.suffix, entry.folder_model) for entry in owners}
    assert len(kinds) == len(owners)
    assert {entry.device for entry in RUNTIMES} <= {"cpu", "npu"}


def test_versions_in_their_order() -> None:
    """Versions are ordered by their numbers, a beta before its release, with or without a build."""
    ordered = [
        "1.3.0b0 (b)",
        "1.9.2 (c)",
        "1.10.0",
        "1.31.0",
        "2.0.0b0 (z)",
        "2.0.0 (a)",
        "2.0.0 (b)",
    ]
    assert sorted(set(ordered), key=version_order) == ordered
