"""The programs for Teflon, one for each mechanism, and the reasons that others have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reusebench.measured.plan import Context, Plan
from reusebench.measured.runtimes.base import NotSupported
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.snippets import snippet_of
from tests.helpers.support import models_of


def _program(scenario: str) -> str:
    """Return the program of a scenario's first plan that has one."""
    parameters = Parameters("teflon", models_of("a.tflite"), 2, 3, cores=2, rounds=2)
    for plan in find_scenario(scenario).plans(parameters):
        try:
            return snippet_of(plan).text
        except NotSupported:
            continue
    raise AssertionError(f"no plan of {scenario}")


@pytest.mark.parametrize(
    ("scenario", "line"),
    [
        ("no_reuse_one_model", "    delegates[i] = load_delegate(LIBRARY)"),
        ("full_dup", "    delegates[i] = delegates[0] if i > 0 else load_delegate(LIBRARY)"),
        ("shared_context", "    with locks[i]:"),
        ("zero_copy_io", '    inputs[i] = {details["name"]: in_place(interpreters[i], details)'),
        ("lean", "    outputs[i] = [in_place(interpreters[i], details)"),
    ],
)
def test_each_mechanism_has_its_program(scenario: str, line: str) -> None:
    """It is valid Python and has the calls of the mechanism."""
    program = _program(scenario)
    compile(program, scenario, "exec")
    assert line in program


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"device": "cuda"}, "teflon_copies_tensors"),
        ({"device_io": True}, "teflon_copies_tensors"),
        ({"zero_copy": ("native_output",)}, "teflon_copies_tensors"),
        ({"zero_copy": ("model",)}, "no_model_in_place"),
        ({"internal": 1}, "teflon_own_internal"),
        ({"outside": ("weights",)}, "teflon_own_buffers"),
        ({"mechanism": "shared_weights", "source": 0}, "teflon_own_weights"),
        ({"options": ("kernel_mode=builtin",)}, "litert_no_code_of_options"),
    ],
)
def test_what_there_is_no_code_for(changes: dict[str, object], code: str) -> None:
    """Features that Mesa lacks are an error message."""
    contexts = (Context(0, 0), replace(Context(0, 0), **changes))  # type: ignore[arg-type]
    with pytest.raises(NotSupported) as refused:
        snippet_of(Plan("mine", None, "teflon", models_of("a"), contexts, cores=1, rounds=1))
    assert refused.value.message.code == code
