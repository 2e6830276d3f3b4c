"""`python -m tests.scripted_driver`: the driver with a runtime, `scripted`, that does what the model's path says.

A path is a list of parts divided by `;`. `abort@dup1` aborts in the second dup of the process (they count from 0),
`abort@infer1` in any inference of the second context; `differ@dup` lets the outputs of dups differ; `log=FILE` writes
a line to FILE for each operation.
Runs in the measured process: standard library only, Python 3.8.
"""

# ruff: noqa: ARG002  an interface names arguments that this runtime does not use

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import runtimes
from runtimes.base import Context, NotSupported, Runtime
from scenarios import driver

#: The model of a context that does nothing out of the ordinary.
PLAIN = "plain"


class Script:
    """What is to happen, and what has happened, in this process."""

    def __init__(self) -> None:
        #: The model that was loaded last.
        self.model = ""
        self._parts: list[str] = []
        self._calls: dict[str, int] = {}
        #: How many have been made.
        self.contexts = 0

    def read(self, model: str) -> None:
        """Take the script from the model's path, in which it stands."""
        self.model, self._parts = model, model.split(";")

    def at(self, operation: str, number: int | None = None) -> list[str]:
        """Do what the script says of an operation, counted where it has no number; return the script's words."""
        if number is None:
            number = self._calls.get(operation, 0)
            self._calls[operation] = number + 1
        place = f"{operation}{number}"
        self._log(place)
        words = [part.split("@")[0] for part in self._parts if part.endswith(f"@{place}")]
        for word in words:
            self._do(word)
        return words

    def says(self, part: str) -> bool:
        """Whether the script has this part."""
        return part in self._parts

    def _do(self, word: str) -> None:
        if word == "raise":
            raise RuntimeError("the script says so")
        if word == "memory":
            raise MemoryError("the script says so")
        if word == "not_supported":
            raise NotSupported("the script says so")
        if word == "print":
            print("printed by the runtime")
            sys.stdout.flush()
            os.write(1, b"written by the runtime\n")
        if word == "spawn":
            self._log(f"child {subprocess.Popen(['sleep', '600']).pid}")
        if word == "hang":
            time.sleep(600)
        if word == "abort":
            os.write(2, b"terminate called\n")
            os.abort()
        if word.startswith("exit"):
            os._exit(int(word[len("exit") :]))
        if word.startswith("signal"):
            os.kill(os.getpid(), int(word[len("signal") :]))
            time.sleep(600)

    def _log(self, line: str) -> None:
        for part in self._parts:
            if part.startswith("log="):
                with Path(part[len("log=") :]).open("a", encoding="utf-8") as log:
                    log.write(line + "\n")


class ScriptedContext(Context):
    """A context without any memory."""

    def __init__(self, script: Script, made_by: str) -> None:
        self._script = script
        self._made_by = made_by
        self._outputs = f"outputs of {script.model}".encode()
        self._number = script.contexts
        script.contexts += 1

    def infer(self) -> None:
        """Do what the script says of `infer` of this context."""
        self._script.at("infer", self._number)

    def outputs(self) -> list[memoryview]:
        """Return the same bytes of each model, others where the script says `differ`."""
        differ = "differ" in self._script.at("outputs") or self._script.says(f"differ@{self._made_by}")
        return [memoryview(b"others" if differ else self._outputs)]

    def destroy(self) -> None:
        """Do what the script says of `destroy`."""
        self._script.at("destroy")

    def account(self) -> dict[str, int]:
        """Return an account, as some runtimes have one."""
        return {"weight_bytes": 1}


class ScriptedRuntime(Runtime):
    """A runtime that the tests write."""

    version = "1.2.3"

    def __init__(self) -> None:
        self._script = Script()

    def prepare(self, model: str, digest: str, folder: str) -> str | None:
        """Return the model itself: a dup needs no more."""
        self._script.read(model)
        self._script.at("prepare")
        return model

    def load(self, model: str, prepared: str | None) -> Context:
        """Do what the script says of `load`, or of `load_prepared`."""
        self._script.read(model)
        return self._make("load_prepared" if prepared else "load")

    def dup(self, source: Context) -> Context:
        """Do what the script says of `dup`."""
        return self._make("dup")

    def shared_context(self, source: Context) -> Context:
        """Do what the script says of `shared_context`."""
        return self._make("shared_context")

    def _make(self, operation: str) -> Context:
        self._script.at(operation)
        return ScriptedContext(self._script, operation)


def open_runtime() -> Runtime:
    """Return the adapter."""
    return ScriptedRuntime()


if __name__ == "__main__":
    runtimes.RUNTIMES = (runtimes.RuntimeEntry("scripted", "tests.scripted_driver", "json", "nothing"),)
    sys.exit(driver.main())
