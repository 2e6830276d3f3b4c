"""The environment variables of an applied program."""

from __future__ import annotations

import doctest
from pathlib import Path

from reusebench.apply import settings
from reusebench.apply.settings import ApplySettings


def test_only_what_is_set_is_a_variable() -> None:
    """Library and hooks decide about the rest."""
    assert ApplySettings().variables() == {}
    assert ApplySettings(
        report=Path("/a"), at_once=1, is_off=True, has_digests=True
    ).variables() == {
        "REUSEBENCH_APPLY_REPORT": "/a",
        "REUSEBENCH_APPLY_AT_ONCE": "1",
        "REUSEBENCH_APPLY_OFF": "1",
        "REUSEBENCH_APPLY_DIGESTS": "1",
    }


def test_examples_hold() -> None:
    """What was set before stays, behind ours."""
    assert doctest.testmod(settings).failed == 0
