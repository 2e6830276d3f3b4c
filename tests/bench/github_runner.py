"""A runner of composite actions: it does with action.yml what GitHub's runner does.

It follows the documentation of workflow syntax, expressions and workflow commands, as far as
action.yml needs them. Of actions by others it has the two of the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.helpers.support import user_environment

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_TOKEN = re.compile(r"'(?:[^']|'')*'|[\w.-]+|==|!=|&&|\|\||!|[(),]")
_OPERATORS = {"&&": " and ", "||": " or ", "!": " not ", "==": "==", "!=": "!="}


@dataclass
class Job:
    """A job of a repository's workflow with the action as its only step."""

    action: Path
    folder: Path
    #: Caches of the repository, by key, the newest last.
    caches: dict[str, Path]
    github: dict[str, Any]
    environment: Mapping[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    log: str = ""
    is_failed: bool = False
    _steps: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    _path: list[str] = field(default_factory=list)

    def run(self, **inputs: str) -> Job:
        """Run every step whose condition holds, and return the job."""
        self.folder.mkdir(parents=True)
        action = yaml.safe_load((self.action / "action.yml").read_text(encoding="utf-8"))
        contexts = {
            "github": self.github,
            "runner": {"os": "Linux", "arch": "X64", "temp": str(self.folder / "temp")},
            "steps": self._steps,
            "inputs": {},
        }
        unknown = inputs.keys() - action["inputs"].keys()
        assert not unknown, f"inputs that the action has not: {unknown}"
        for name, declared in action["inputs"].items():
            given = inputs.get(name, _filled(declared.get("default", ""), contexts))
            contexts["inputs"][name] = given
        for number, step in enumerate(action["runs"]["steps"]):
            if self._is_due(step, contexts):
                if "uses" in step:
                    self._use(step, contexts)
                else:
                    self._run_step(step, contexts, number)
        for name, declared in action["outputs"].items():
            self.outputs[name] = _filled(declared["value"], contexts)
        return self

    def _is_due(self, step: Mapping[str, Any], contexts: Mapping[str, Any]) -> bool:
        condition = step.get("if", "success()")
        if "always()" not in condition and self.is_failed:
            return False
        return bool(_evaluated(condition, contexts, self.is_failed))

    def _use(self, step: Mapping[str, Any], contexts: Mapping[str, Any]) -> None:
        """Do as the actions of the cache, which never replace the content of a key."""
        with_ = {name: _filled(value, contexts) for name, value in step["with"].items()}
        path = Path(with_["path"])
        if step["uses"].startswith("actions/cache/restore@"):
            prefixes = [with_["key"], *with_.get("restore-keys", "").split()]
            for prefix in prefixes:
                keys = [key for key in self.caches if key.startswith(prefix)]
                if keys:
                    shutil.copytree(self.caches[keys[-1]], path)
                    return
        elif step["uses"].startswith("actions/cache/save@"):
            assert with_["key"] not in self.caches
            kept = self.folder / "cache"
            shutil.copytree(path, kept)
            self.caches[with_["key"]] = kept
        else:
            raise AssertionError(f"an action that this runner has not: {step['uses']}")

    def _run_step(self, step: Mapping[str, Any], contexts: Mapping[str, Any], number: int) -> None:
        assert step["shell"] == "bash"
        temp = self.folder / "temp"
        workspace = self.folder / "workspace"
        for folder in (temp, workspace):
            folder.mkdir(exist_ok=True)
        files = {
            name: self.folder / f"{name}_{number}"
            for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH", "GITHUB_ENV")
        }
        for file in files.values():
            file.touch()
        script = self.folder / f"step_{number}.sh"
        script.write_text(_filled(step["run"], contexts), encoding="utf-8")
        given = {name: _filled(value, contexts) for name, value in step.get("env", {}).items()}
        environment = {
            **user_environment(),
            **self.environment,
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(temp),
            **{name: str(file) for name, file in files.items()},
            **given,
        }
        environment["PATH"] = os.pathsep.join([*reversed(self._path), environment["PATH"]])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.log += done.stdout
        self.is_failed = self.is_failed or done.returncode != 0
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        self._path += files["GITHUB_PATH"].read_text(encoding="utf-8").split()
        lines = files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines()
        outputs = dict(line.split("=", 1) for line in lines)
        self._steps[step.get("id", f"step {number}")] = {"outputs": outputs}


def _filled(text: str, contexts: Mapping[str, Any]) -> str:
    """Return the text with the values of its expressions."""
    return _EXPRESSION.sub(lambda match: _as_text(_evaluated(match[1], contexts)), str(text))


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _evaluated(expression: str, contexts: Mapping[str, Any], is_failed: bool = False) -> Any:
    """Return the value of an expression."""
    words = []
    names: dict[str, Any] = {
        "always": lambda: True,
        "success": lambda: not is_failed,
        "failure": lambda: is_failed,
    }
    for word in _TOKEN.findall(expression):
        if word.startswith("'"):
            words.append(repr(word[1:-1].replace("''", "'")))
        elif word in _OPERATORS or word in "(),":
            words.append(_OPERATORS.get(word, word))
        elif word in names:
            words.append(word)
        else:
            words.append(repr(_value(word, contexts)))
    return eval(" ".join(words), {"__builtins__": {}}, names)


def _value(path: str, contexts: Mapping[str, Any]) -> Any:
    """Return the value of a dotted name; None if there is none, as on GitHub."""
    value: Any = contexts
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
