"""The contents of `import reusebench`: documented names, and no import before its use."""

from __future__ import annotations

import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import reusebench
from reusebench.system.package import PACKAGE
from tests.helpers.support import CHECKOUT

#: Prints the modules that the import adds, apart from the standard library's that it may need.
_IMPORT = """
import __future__, importlib, os, sys, warnings
before = set(sys.modules)
import reusebench
print(*set(sys.modules) - before)
"""
_MODULES = sorted({f"reusebench.{name}" for name in reusebench._MODULES.values()})


def test_every_name_has_a_module() -> None:
    """Type checkers and programs get the same names."""
    assert sorted(reusebench.__all__) == list(reusebench.__all__) == sorted(reusebench._MODULES)


@pytest.mark.parametrize("name", reusebench.__all__)
def test_every_name_has_a_docstring(name: str) -> None:
    """Public methods and properties have a docstring, too."""
    public = getattr(reusebench, name)
    assert public.__doc__
    # Python gives a dataclass without a docstring its signature.
    assert not public.__doc__.startswith(f"{name}(")
    keys = [key for key in vars(public) if not key.startswith("_")]
    members = {key: getattr(public, key) for key in keys if inspect.isclass(public)}
    called = {
        key: member
        for key, member in members.items()
        if callable(member) or isinstance(member, property)
    }
    assert [key for key, member in called.items() if not member.__doc__] == []


def test_another_name_is_an_error() -> None:
    """The sentence is Python's own."""
    with pytest.raises(AttributeError, match=r"^module 'reusebench' has no attribute 'lod'$"):
        reusebench.lod  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.process
def test_importing_it_imports_nothing_else() -> None:
    """A test that is collected, or a program that reads results, pays only for the names that it
    uses.
    """
    command = [sys.executable, "-c", _IMPORT]
    environment = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.split() == ["reusebench"]


@pytest.mark.process
def test_a_session_of_pytest_imports_no_library_of_the_measured_process(tmp_path: Path) -> None:
    """Pytest looks at all names of a plug-in: numpy in the harness would share pages with the
    measured process.
    """
    (tmp_path / "test_mine.py").write_text("def test_it(measure):\n    pass\n")
    code = (
        "import pytest, sys; pytest.main(['-p', 'reusebench', '-q', '--collect-only', '-p',"
        " 'no:cacheprovider']); "
    )
    code += "print({'numpy', 'pandas', 'onnx', 'onnxruntime'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_types_are_there() -> None:
    """Type checkers read the annotations of a package that has this file (PEP 561)."""
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("module", [*_MODULES, "reusebench.system.package"])
def test_examples_hold(module: str) -> None:
    """The examples in docstrings show the real output."""
    assert doctest.testmod(importlib.import_module(module)).failed == 0
