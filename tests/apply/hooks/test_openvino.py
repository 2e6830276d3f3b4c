"""Compiled models of OpenVINO that become one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apply.hooks.hooked import run

pytest.importorskip("openvino")
pytestmark = pytest.mark.process

#: Without this module OpenVINO does not report to its maker, and is imported in half the time.
_BEGIN = """
    import sys
    sys.modules["openvino.tools.ovc"] = None
    import hashlib, json, threading
    import numpy as np
    import openvino as ov

    x = np.arange(192, dtype=np.float32).reshape(3, 64) / 100
    # OpenVINO's binding locks up if its first two tensors are made at once: each thread waits
    # for what the other holds, the table of types or the interpreter's lock.
    ov.Tensor(x)
    core = ov.Core()
    answers = {}

    def keep(name, array):
        answers[name] = hashlib.sha256(array.tobytes()).hexdigest()

    def compiled(model="one.onnx", **config):
        return core.compile_model(core.read_model(model), "CPU", config)
"""
_SHARED = (
    _BEGIN
    + """
    def work(number):
        mine = ov.Core().compile_model("two.onnx" if number == 3 else "one.onnx", "CPU")
        for _ in range(5):
            keep(f"thread {number}", mine(x + number)[0])
        alive.append(mine)

    alive = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    keep("random", compiled("random.onnx")(x)[0][:0])

    fixed, scaled = core.read_model("one.onnx"), core.read_model("one.onnx")
    fixed.reshape([3, 64])
    processor = ov.preprocess.PrePostProcessor(scaled)
    processor.input().preprocess().scale(2.0)
    for name, model in ("fixed", fixed), ("scaled", processor.build()):
        keep(name, core.compile_model(model, "CPU")(x)[0])

    # A program may keep its request alone.
    requests = [compiled(PERFORMANCE_HINT="THROUGHPUT").create_infer_request() for _ in range(2)]
    for number, request in enumerate(requests):
        keep(f"request {number}", request.infer({0: x}).to_tuple()[0])

    limited = [compiled(INFERENCE_NUM_THREADS=1) for _ in range(3)]
    names = ("NUM_STREAMS", "INFERENCE_NUM_THREADS", "OPTIMAL_NUMBER_OF_INFER_REQUESTS")
    for number, one in enumerate(limited):
        answers[f"told {number}"] = [one.get_property(name) for name in names]
        keep(f"limited {number}", one(x)[0])
    print(json.dumps(answers, sort_keys=True))
"""
)
_ASYNCHRONOUS = (
    _BEGIN
    + """
    first, second, third = compiled(), compiled(), compiled()

    # An array that is used in place is not written to by another caller's request.
    used = x.copy()
    first(used)
    second.create_infer_request().infer({0: x + 1})
    keep("used in place", used)

    # A callback waits for a request of another caller.
    def nested(name):
        inner = second.create_infer_request()
        inner.start_async({0: x + 2})
        inner.wait()
        keep(name, inner.get_output_tensor(0).data)

    request = first.create_infer_request()
    request.set_callback(nested, "in a callback")
    request.start_async({0: x})
    request.wait()
    request.set_callback(lambda _: 1 / 0, None)
    request.start_async({0: x})
    try:
        request.wait()
    except RuntimeError as error:
        answers["error"] = "ZeroDivisionError" in str(error)

    # So does the callback of a queue.
    queue = ov.AsyncInferQueue(third, 2)
    queue.set_callback(lambda outer, name: nested(name))
    queue.start_async({0: x}, "in a queue")
    queue.wait_all()
    second.release_memory()
    del first, request
    keep("the last one", second(x)[0])
    print(json.dumps(answers, sort_keys=True))
"""
)


def _both(models: Path, program: str) -> dict[str, Any]:
    """Return the report of a program that gives the same answers with and without the hooks."""
    as_is = run(models, program, hooks=None)
    applied = run(models, program)
    assert applied.answer == as_is.answer
    (report,) = applied.reports
    assert report["failures"] == {}
    return report


def test_compiled_models_of_equal_models_become_one(models: Path) -> None:
    """Changed models and other settings stay apart, and every caller is told of its own streams."""
    report = _both(models, _SHARED)
    assert report["runtime"] == "openvino"
    assert report["contexts"] == 12
    assert report["shared"] == {"context": 8}
    assert report["left_alone"] == {"random_operators": 1}


def test_callbacks_may_wait_for_other_callers(models: Path) -> None:
    """Nothing waits for ever, and no caller's array is changed by another."""
    report = _both(models, _ASYNCHRONOUS)
    assert report["shared"] == {"context": 2}
    assert report["left_alone"] == {"async_queue": 1}


def test_digests_are_equal_with_and_without_sharing(models: Path) -> None:
    """Synchronous runs, asynchronous runs and those of queues all have digests."""
    digests = []
    for variables in ({"REUSEBENCH_APPLY_OFF": "1"}, {}):
        (report,) = run(models, _ASYNCHRONOUS, REUSEBENCH_APPLY_DIGESTS="1", **variables).reports
        digests.append(report["digests"])
    assert digests[0] == digests[1]
    assert [one["runs"] for one in digests[0].values()] == [8]
