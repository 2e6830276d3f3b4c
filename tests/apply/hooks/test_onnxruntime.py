"""Sessions of ONNX Runtime that become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apply.hooks.hooked import run

pytestmark = pytest.mark.process

_SESSIONS = """
    import json, threading
    import numpy as np
    import onnxruntime as ort

    x = np.arange(192, dtype=np.float32).reshape(3, 64) / 100
    sums = {}
    all_are_made = threading.Barrier(4)

    def work(number):
        session = ort.InferenceSession("two.onnx" if number == 3 else "one.onnx")
        all_are_made.wait()
        for _ in range(20):
            (y,) = session.run(None, {"x": x + number})
        sums[number] = y.tobytes().hex()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    random = ort.InferenceSession("random.onnx")
    random.run(None, {"x": x})
    names = [[one.name for one in random.get_inputs()], random.get_providers()]
    print(json.dumps([sums, names], sort_keys=True))
"""


def test_sessions_of_one_model_become_one(models: Path) -> None:
    """Threads get the outputs that they get without the hooks, and random models are left alone."""
    as_is = run(models, _SESSIONS, hooks=None)
    applied = run(models, _SESSIONS, REUSEBENCH_APPLY_AT_ONCE="1")
    assert applied.answer == as_is.answer
    (report,) = applied.reports
    assert report["runtime"] == "onnxruntime"
    assert (report["contexts"], report["models"], report["most_at_once"]) == (5, 3, 1)
    assert report["shared"] == {"context": 3, "arena": 4}
    assert report["left_alone"] == {"random_operators": 1}
    assert report["failures"] == report["digests"] == {}


def test_digests_are_equal_with_and_without_sharing(models: Path) -> None:
    """Digests are asked for with OFF too, and nothing is shared then."""
    program = _SESSIONS.replace("random.run(None", "(lambda *_: None)(None")
    (as_is,) = run(models, program, REUSEBENCH_APPLY_OFF="1", REUSEBENCH_APPLY_DIGESTS="1").reports
    (applied,) = run(models, program, REUSEBENCH_APPLY_DIGESTS="1").reports
    assert as_is["shared"] == as_is["left_alone"] == {}
    assert as_is["digests"] == applied["digests"]
    assert sorted(one["runs"] for one in applied["digests"].values()) == [20, 60]
