"""The stored facts about the measured machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reusebench.harness.machine_info import describe_machine
from reusebench.harness.session import _exposures
from reusebench.targets.target import Target


def test_a_library_that_is_not_confined_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only a virtual board has a reason for a missing sandbox: other libraries are the machine's
    own.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stored: dict[str, dict[str, Any]] = {name: {} for name in ("vboard:rk3588", "python")}
    for target, machine_info in stored.items():
        describe_machine(target, machine_info)
    reason = stored["vboard:rk3588"]["reusebench"]["exposure"]
    assert "reusebench board install" in reason
    assert stored["python"]["reusebench"]["exposure"] is None
    targets = {
        "rknn": Target("vboard:rk3588", (), exposure=reason),
        "onnxruntime": Target("python", ()),
    }
    (line,) = _exposures(targets)
    assert f"({reason})" in line
    assert "docs/explanation/security.md" in line
