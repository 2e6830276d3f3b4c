"""Programs that start in several ways, or among other hooks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.apply.hooks.hooked import HOOKS, run

pytestmark = pytest.mark.process

_ASKED = """
    import json, sys, threading
    from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
    import onnxruntime
    import importlib

    made = [InferenceSession("one.onnx") for _ in range(2)]
    importlib.reload(onnxruntime)
    made.append(onnxruntime.InferenceSession("one.onnx"))
    print(json.dumps([
        len({id(one._sess) for one in made}),
        onnxruntime.InferenceSession is InferenceSession,
        type(made[0]) is InferenceSession,
        type(onnxruntime.__spec__.loader).__name__,
        sys.modules["sitecustomize"].__file__,
        getattr(sys, "was_customized", []),
    ]))
"""


def test_another_sitecustomize_runs_too(models: Path, tmp_path: Path) -> None:
    """The module that Python would have found is run, and is the one that programs see."""
    other = tmp_path / "sitecustomize.py"
    other.write_text("import sys\nsys.was_customized = ['other']\n", encoding="utf-8")
    twice = os.pathsep.join((str(HOOKS), str(HOOKS), str(tmp_path)))
    ended = run(models, _ASKED, hooks=twice)
    assert ended.answer == [1, True, True, "SourceFileLoader", str(other), ["other"]]
    assert ended.reports[0]["shared"]["context"] == 3


def test_a_module_of_the_program_is_hooked(models: Path) -> None:
    """A program that is started by `python -m`, and that changes sys.path, is hooked as well."""
    text = "import os, sys, json\nsys.path.remove(os.environ['PYTHONPATH'])\nimport onnxruntime\n"
    text += "onnxruntime.InferenceSession('one.onnx')\nprint(json.dumps('done'))\n"
    (models / "some_program.py").write_text(text, encoding="utf-8")
    ended = run(models, "some_program", option="-m")
    assert ended.answer == "done"
    assert ended.reports[0]["contexts"] == 1


def test_a_failure_of_the_hooks_leaves_the_program_as_it_is(models: Path, tmp_path: Path) -> None:
    """Without the file that reads models, the program runs as without hooks, and is told so."""
    package = tmp_path / "reusebench_hooks"
    package.mkdir()
    for path in [HOOKS / "sitecustomize.py", *(HOOKS / "reusebench_hooks").glob("*.py")]:
        if path.name != "models.py":
            (tmp_path / path.relative_to(HOOKS)).write_bytes(path.read_bytes())
    ended = run(models, _ASKED, hooks=str(tmp_path))
    assert ended.answer[0] == 3
    assert "onnxruntime is left alone" in ended.error
    assert ended.reports == []


def test_children_of_multiprocessing_report(models: Path) -> None:
    """A forked child shares nothing with its parent's sessions, and its line is written too."""
    program = """
        import json, multiprocessing, threading
        import numpy as np, onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        x = np.ones((2, 64), np.float32)
        sessions = [ort.InferenceSession("one.onnx", options) for _ in range(2)]
        is_ended = threading.Event()

        def keep_running():
            while not is_ended.is_set():
                sessions[0].run(None, {"x": x})

        def child(queue):
            own = [ort.InferenceSession("one.onnx", options) for _ in range(2)]
            is_parents = own[0]._sess is sessions[0]._sess
            outputs = [one.run(None, {"x": x})[0].tolist() for one in (*own, sessions[1])]
            queue.put([is_parents, outputs[0] == outputs[1] == outputs[2]])

        thread = threading.Thread(target=keep_running)
        thread.start()
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        children = [context.Process(target=child, args=(queue,)) for _ in range(3)]
        for one in children:
            one.start()
        answers = [queue.get() for one in children]
        for one in children:
            one.join()
        is_ended.set()
        thread.join()
        print(json.dumps(answers))
    """
    ended = run(models, program)
    assert ended.answer == [[False, True]] * 3
    assert [report["contexts"] for report in ended.reports] == [2, 2, 2, 2]
    assert {report["shared"]["context"] for report in ended.reports} == {2}
