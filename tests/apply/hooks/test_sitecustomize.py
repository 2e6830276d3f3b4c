"""The module by which Python reaches the hooks, in whatever Python a program starts."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.apply.settings import HOOKS

_FILE = HOOKS / "sitecustomize.py"
#: Runs the module as a Python of another version does.
_OLDER = f"""
import sys
sys.version_info = (3, 7)
sys.modules["sitecustomize"] = sys
exec(open({str(_FILE)!r}).read())
print(sys.modules["sitecustomize"].__name__, "reusebench_hooks" in sys.modules)
"""
_NOW = "import sys; print(sys.modules['sitecustomize'].__name__, 'reusebench_hooks' in sys.modules)"


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "is_loaded"), [(("-S", "-c", _OLDER), False), (("-c", _NOW), True)]
)
def test_the_next_module_is_run(options: tuple[str, ...], is_loaded: bool, tmp_path: Path) -> None:
    """The program's own runs as without the hooks, also if this Python is too old for them."""
    (tmp_path / "sitecustomize.py").write_text("print('own')\n")
    path = f"{HOOKS}:{tmp_path}"
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *options], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"own\nsitecustomize {is_loaded}\n"
    assert done.stderr == ""


def test_old_pythons_can_read_it() -> None:
    """No annotation, no string with fields, and nothing of __future__ stands in it."""
    tree = ast.parse(_FILE.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.AnnAssign, ast.JoinedStr, ast.NamedExpr))
        assert not (isinstance(node, ast.FunctionDef) and (node.returns or node.args.args))
        assert not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
