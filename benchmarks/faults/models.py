"""The campaign `models`: mutants of model and plan files are inspected and measured."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

from benchmarks.faults.after import after_session, keep_sandbox
from benchmarks.faults.in_process import peak_rss_bytes, reset_peak, run_command
from benchmarks.faults.mutation import mutated_bytes, mutated_json, mutated_text
from benchmarks.faults.samples import Samples, plan_command, session_command
from benchmarks.faults.sandbox import Sandbox
from benchmarks.faults.stored import end_wrongs
from benchmarks.faults.trial import Answer, Kind, Trial, Wrong

__all__ = ["Models"]

#: Ways to try an input, with their relative frequency.
_WAYS = {"inspected": 3, "measured": 2, "plan": 1}
_INSPECT_LIMIT_S = 20.0
_SESSION_LIMIT_S = 120.0
#: Time limit of a step of the measured process.
_TIME_LIMIT_S = 10
#: Exit codes of pytest: success; a configuration failed; a mistake of the user; nothing to measure.
_CODES = (0, 1, 4, 5)
_INTEGERS = (0, -1, 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 10**6)
#: Runtimes by the suffix of their model files; each is tried if its file can be made or was given.
_RUNTIMES_BY_SUFFIX = {
    ".onnx": "onnxruntime",
    ".param": "ncnn",
    ".mnn": "mnn",
    ".tflite": "litert",
    ".xml": "openvino",
}


@dataclass(frozen=True)
class Models:
    """The campaign; each input is a changed model file, or a changed plan of a valid model."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 400.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Change a file and run the product with it."""
        chance = random.Random(f"models {self.seed} {index}")
        (way,) = chance.choices(list(_WAYS), list(_WAYS.values()))
        sandbox = Sandbox(folder / str(index)).make()
        if way == "plan":
            trial = self._plan(index, chance, sandbox)
        else:
            model, about = self._mutant(chance, sandbox.folder, is_measured=way == "measured")
            run = self._inspect if way == "inspected" else self._measure
            trial = run(index, model, f"{way}: {about}", sandbox)
        keep_sandbox(sandbox, trial, self.keep / "models")
        return trial

    def _mutant(self, chance: random.Random, folder: Path, is_measured: bool) -> tuple[Path, str]:
        """Write a mutant with its other files; return its path and a description."""
        models = self.samples.models
        if is_measured:
            models = [path for path in models if path.suffix in _RUNTIMES_BY_SUFFIX]
        sample = chance.choice(models)
        parts = list(sample.parent.glob(f"{sample.stem}.*"))
        for part in parts:
            shutil.copy(part, folder)
        changed = folder / chance.choice(parts).name
        if changed.suffix == ".onnx" and chance.random() < 0.7:
            content, about = _mutated_onnx(changed.read_bytes(), chance)
        else:
            content, about = mutated_bytes(changed.read_bytes(), chance)
        changed.write_bytes(content)
        return folder / sample.name, f"{changed.suffix}: {about}"

    def _inspect(self, index: int, model: Path, about: str, sandbox: Sandbox) -> Trial:
        os.environ.update(
            XDG_CACHE_HOME=str(sandbox.disk / "cache"), TMPDIR=str(sandbox.disk / "tmp")
        )
        reset_peak()
        arguments = ("models", "inspect", str(model)) + (("--json",) if index % 2 else ())
        end = run_command(arguments, _INSPECT_LIMIT_S)
        answer = Answer.REFUSED if end.code else Answer.SURVIVED
        return Trial(index, about, answer, tuple(end_wrongs(end, (0, 2))), peak_rss_bytes())

    def _measure(self, index: int, model: Path, about: str, sandbox: Sandbox) -> Trial:
        command = session_command(
            model, sandbox.storage, "-k", "no_reuse_one_model]", f"--time-limit={_TIME_LIMIT_S}"
        )
        runtime = _RUNTIMES_BY_SUFFIX[model.suffix]
        command = [
            f"--runtime={runtime}" if word.startswith("--runtime=") else word for word in command
        ]
        return self._session(index, command, about, sandbox)

    def _plan(self, index: int, chance: random.Random, sandbox: Sandbox) -> Trial:
        content, about = mutated_json(
            json.loads(self.samples.plan.read_text(encoding="utf-8")), chance, self.seed
        )
        plan = sandbox.folder / "plan.json"
        shutil.copy(self.samples.model, sandbox.folder)
        plan.write_bytes(content)
        command = plan_command(plan, sandbox.storage, f"--time-limit={_TIME_LIMIT_S}")
        return self._session(index, command, f"plan: {about}", sandbox)

    def _session(self, index: int, command: list[str], about: str, sandbox: Sandbox) -> Trial:
        code = sandbox.run(command, _SESSION_LIMIT_S)
        wrongs = list(_of_session(code, sandbox.output()))
        wrongs += after_session(sandbox, self.samples)
        return Trial(index, about, Answer.REFUSED if code else Answer.SURVIVED, tuple(wrongs))


def _of_session(code: int | None, output: str) -> Iterator[Wrong]:
    if code is None:
        yield Wrong(Kind.HANG, "the session does not end", output)
    elif code not in _CODES:
        yield Wrong(Kind.FALSE, f"the session ends with {code}", output)


# Changes of the structure of an .onnx file


def _mutated_onnx(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Return the model with one to three fields changed."""
    model = onnx.load_from_string(content)
    names = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        message, field = _place(model, chance)
        names.append(f"{message.DESCRIPTOR.name}.{field.name}")
        # An enumeration or a field of 32 bits refuses some values.
        with contextlib.suppress(ValueError, TypeError):
            _change(message, field, chance)
    return model.SerializePartialToString(), ", ".join(names)


def _place(model: Message, chance: random.Random) -> tuple[Message, FieldDescriptor]:
    """Return a message, at any depth, and one of the fields that are set in it."""
    message = model
    field, value = chance.choice(model.ListFields())
    while chance.random() < 0.9:
        inner = value
        if not isinstance(value, (Message, str, bytes, int, float)):
            inner = chance.choice(value)
        if not isinstance(inner, Message) or not inner.ListFields():
            break
        message = inner
        field, value = chance.choice(inner.ListFields())
    return message, field


def _change(message: Message, field: FieldDescriptor, chance: random.Random) -> None:
    value = getattr(message, field.name)
    if chance.random() < 0.2:
        message.ClearField(field.name)
    elif isinstance(value, (bool, int, float, str, bytes)):
        setattr(message, field.name, _hostile(value, chance))
    elif not isinstance(value, Message):
        _change_list(value, chance)


def _change_list(values: Any, chance: random.Random) -> None:
    """Remove, repeat or replace an item of the list."""
    at = chance.randrange(len(values))
    kind = chance.choice(("remove", "repeat", "replace"))
    if kind == "remove":
        del values[at]
    elif kind == "repeat":
        values.extend([values[at]] * chance.choice((1, 1, 100)))
    elif not isinstance(values[at], Message):
        values[at] = _hostile(values[at], chance)


def _hostile(value: Any, chance: random.Random) -> Any:
    """Return another value of the same type, which the field can hold."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        number = chance.choice(_INTEGERS)
        is_large = abs(number) >= 2**31
        if is_large and abs(value) < 2**31:
            return chance.choice((0, -1, 1, 2**31 - 1))
        return number
    if isinstance(value, float):
        return chance.choice((0.0, math.inf, -math.inf, math.nan, 1e38))
    if isinstance(value, bytes):
        return mutated_bytes(value, chance)[0]
    return mutated_text(chance).encode("utf-8", "replace").decode()
