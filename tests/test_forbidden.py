"""No module of the product runs data as code, or writes to a guessable name in a shared folder."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reusebench.system.package import PACKAGE
from tests.helpers.support import CHECKOUT

#: Their files and streams run code when they are read.
_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "pty",
    "imp",
}
_BUILTINS = {"eval", "exec", "compile", "__import__"}
#: Methods of any object that give a text to a shell, or read objects from a file.
_METHODS = {
    *("system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell", "mktemp"),
    *("read_pickle", "to_pickle", "unsafe_load", "full_load"),
}
#: Arguments that make a call of these functions safe.
_KEYWORDS = {
    ("np", "load"): ("allow_pickle", False),
    ("numpy", "load"): ("allow_pickle", False),
    ("np", "save"): ("allow_pickle", False),
    ("torch", "load"): ("weights_only", True),
}
_UNSAFE = {("yaml", "load"), ("yaml", "load_all")}
#: Everybody may write there, and make a link of a name that is known beforehand.
_SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
_CANDIDATES_ON_BOARDS = PACKAGE / "targets" / "far" / "bootstrap.py"


def _modules() -> list[Path]:
    folders = [
        PACKAGE,
        *(CHECKOUT / name for name in ("bench", "reports", "scenarios", "benchmarks")),
    ]
    return [
        *CHECKOUT.glob("*.py"),
        *(path for folder in folders for path in sorted(folder.rglob("*.py"))),
    ]


class _Seen(NamedTuple):
    """Findings in the text of a module."""

    findings: list[str]
    #: Strings that name a file in a folder that is everybody's.
    shared: list[str]


@functools.cache
def _seen() -> dict[Path, _Seen]:
    """Return the findings in each module, which is parsed once."""
    seen = {}
    for path in _modules():
        tree = ast.parse(path.read_text("utf-8"))
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        shared = [
            text for text in texts if isinstance(text, str) and text.startswith(_SHARED_FOLDERS)
        ]
        seen[path] = _Seen(list(_findings(tree)), shared)
    return seen


def _findings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if alias.name.partition(".")[0] in _MODULES
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            yield from _findings_in_call(node)


def _findings_in_call(call: ast.Call) -> Iterator[str]:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    shell = keywords.get("shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        yield "shell"
    if isinstance(call.func, ast.Name) and call.func.id in _BUILTINS:
        yield call.func.id
    if not isinstance(call.func, ast.Attribute):
        return
    owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    name = owner, call.func.attr
    if (call.func.attr in _METHODS and owner != "platform") or name in _UNSAFE:
        yield ".".join(name)
    if name in _KEYWORDS:
        keyword, value = _KEYWORDS[name]
        given = keywords.get(keyword)
        if not (isinstance(given, ast.Constant) and given.value is value):
            yield ".".join(name)


def test_no_data_becomes_code() -> None:
    """No pickle, eval, exec, shell, nor a file of arrays that may hold objects."""
    findings = {str(path.relative_to(CHECKOUT)): seen.findings for path, seen in _seen().items()}
    assert {path: names for path, names in findings.items() if names} == {}


def test_no_name_in_a_shared_folder_is_fixed() -> None:
    """Temporary files and folders have names that nobody knows beforehand; strings with others are
    docstrings.
    """
    for path, seen in _seen().items():
        assert seen.shared == (["/var/tmp"] * 2 if path == _CANDIDATES_ON_BOARDS else []), path


@pytest.mark.parametrize(
    "source",
    [
        *(
            "import pickle",
            "from marshal import loads",
            "eval(text)",
            "exec(text)",
            "compile(text, '', 'exec')",
        ),
        *(
            "subprocess.run(text, shell=True)",
            "subprocess.run(text, shell=flag)",
            "os.system(text)",
            "os.popen(text)",
        ),
        *(
            "np.load(file)",
            "np.load(file, allow_pickle=True)",
            "torch.load(file)",
            "yaml.load(text)",
        ),
        *("tempfile.mktemp()", "pd.read_pickle(file)"),
    ],
)
def test_each_is_seen(source: str) -> None:
    """The look at the modules sees what it is for."""
    assert list(_findings(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "re.compile(text)",
        "np.load(file, allow_pickle=False)",
        "platform.system()",
        "run(text, shell=False)",
    ],
)
def test_what_is_harmless_passes(source: str) -> None:
    """Similar code that is safe."""
    assert not list(_findings(ast.parse(source)))
