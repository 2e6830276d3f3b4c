"""The workflows of docs/how-to/ci.md: they can be read, name what is there, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.helpers.support import CHECKOUT, user_environment

yaml = pytest.importorskip("yaml")

_PAGES = ("ci.md", "ci.zh-CN.md")


def _workflows(page: str) -> list[Any]:
    """Return the examples of a page."""
    text = (CHECKOUT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(textwrap.dedent(block)) for block in blocks]


def _steps(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every step of a workflow, a job or a list of steps."""
    if isinstance(value, Mapping):
        if "uses" in value:
            yield value
        value = value.values()
    if not isinstance(value, str) and hasattr(value, "__iter__"):
        for each in value:
            yield from _steps(each)


@pytest.mark.parametrize("page", _PAGES)
def test_the_action_has_the_inputs_of_the_examples(page: str) -> None:
    """Each example of the action uses inputs that it has."""
    action = yaml.safe_load((CHECKOUT / "action.yml").read_text(encoding="utf-8"))
    uses = [
        step
        for workflow in _workflows(page)
        for step in _steps(workflow)
        if "reuseb" in step["uses"]
    ]
    assert len(uses) == 2
    for step in uses:
        assert step["with"].keys() <= action["inputs"].keys()
    text = (CHECKOUT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    for name in action["outputs"]:
        assert f"`{name}`" in text


def test_both_pages_have_the_same_examples() -> None:
    """A workflow is not translated."""
    english, chinese = map(_workflows, _PAGES)
    assert english == chinese


@pytest.mark.process
@pytest.mark.slow
def test_the_gitlab_example_runs(tmp_path: Path, cache: Path, tiny_model: Path) -> None:
    """Its script passes without a change, and leaves the reports that GitLab reads."""
    (job,) = [workflow["memory"] for workflow in _workflows("ci.md") if "memory" in workflow]
    programs = tmp_path / "programs"
    programs.mkdir()
    script = programs / "reusebench"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reusebench "$@"\n')
    script.chmod(0o755)
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    shutil.copy(tiny_model, project / "models" / "detector.onnx")
    environment = {
        **user_environment(),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(cache),
        "PYTEST_ADDOPTS": "--quick --repeats=2 -k 'onnxruntime-full_dup and not internal'",
    }

    def run(line: str) -> int:
        command = ["bash", "-c", line]
        return subprocess.run(command, cwd=project, env=environment, check=False).returncode

    model_words = "test_dup.py --model models/detector.onnx"
    assert run(f"reusebench bench {model_words} --storage baseline --benchmark-save=baseline") == 0
    for line in (*job["script"], *job["after_script"]):
        assert run(line) == 0
    reports = job["artifacts"]["reports"]
    suite = ElementTree.parse(project / reports["junit"]).find("testsuite")
    assert suite is not None
    assert suite.find("testcase[@classname='memory_gate']") is not None
    assert isinstance(json.loads((project / reports["codequality"]).read_text()), list)
    for path in job["artifacts"]["paths"]:
        assert (
            (project / path).read_text(encoding="utf-8").startswith("<!-- reusebench compare -->")
        )
