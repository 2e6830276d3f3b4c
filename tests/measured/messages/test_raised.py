"""The codes of messages in the source, against the texts."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from reusebench.measured.messages import ENGLISH, LANGUAGES, Message, words
from reusebench.measured.plan import Streams, Video
from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.sources import machine_sources, memory_sources
from reusebench.storage.result import SCHEMA
from reusebench.storage.run_file import BadFile
from reusebench.storage.runs import read_run
from reusebench.system.package import NATIVE, PACKAGE
from reusebench.targets.outcome import OUTCOMES, Failure
from tests.helpers.support import CHECKOUT, make_plan
from tests.measured.messages.test_messages import TEXTS, fields
from tests.reports.stored import even, result, write_run
from tests.samplers.hosts import link_process

#: Calls that take a code and the values of its text.
_CALLS = ("Message", "AdapterError", "NotSupported")
_FOLDERS = (PACKAGE, CHECKOUT / "scenarios", CHECKOUT / "reports")
#: Codes in the C driver, whose messages tests/targets/native holds equal to the Python driver's.
_CODES_IN_C = {
    code
    for file in sorted((NATIVE / "driver").glob("*.c"))
    for code in re.findall(
        r'\b(?:fail|not_supported)\(failure, "(\w+)"\)', file.read_text(encoding="utf-8")
    )
}


def _text(node: ast.AST | None) -> str | None:
    """Return the string that an expression is; None if it is another expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@cache
def _trees() -> dict[Path, ast.Module]:
    """Return the files of the product, parsed."""
    files = [file for folder in _FOLDERS for file in folder.rglob("*.py")]
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def _dictionary(argument: ast.expr, tree: ast.Module) -> ast.Dict | None:
    """Return the dictionary that an argument is, or that its variable was set to just before."""
    if not isinstance(argument, ast.Name):
        return argument if isinstance(argument, ast.Dict) else None
    last = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or node.lineno > argument.lineno:
            continue
        if ast.unparse(node.targets[0]) != argument.id or not isinstance(node.value, ast.Dict):
            continue
        if last is None or node.lineno > last.lineno:
            last = node.value
    return last


def _made() -> Iterator[tuple[str, str, set[str | None]]]:
    """Yield the line that makes a message, its code and the names of its values."""
    for file, tree in _trees().items():
        for call in ast.walk(tree):
            if not (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Name)
                and call.func.id in _CALLS
            ):
                continue
            code = _text(call.args[0])
            if code is None:
                continue
            names = {keyword.arg for keyword in call.keywords}
            for argument in call.args[1:]:
                values = _dictionary(argument, tree)
                assert values is not None, ast.unparse(call)
                names |= {_text(key) for key in values.keys}
            yield f"{file.relative_to(CHECKOUT)}:{call.lineno}", code, names


def test_every_message_that_is_made_has_its_text() -> None:
    """Each code is known, and the values are those of the fields of its text."""
    made = list(_made())
    assert len(made) > 60
    texts = TEXTS[ENGLISH]
    wrong = []
    for line, code, names in made:
        if code not in texts or names != fields(texts[code]):
            wrong.append((line, code))
    assert wrong == []
    assert len(_CODES_IN_C) > 20
    assert texts.keys() >= _CODES_IN_C


def test_no_text_is_unused() -> None:
    """Each code is in the source, or in one of the tests below."""
    in_source = {
        text for tree in _trees().values() for node in ast.walk(tree) if (text := _text(node))
    }
    elsewhere = {f"kind_{kind}" for kind in OUTCOMES} | {f"phase_{phase}" for phase in _phases()}
    elsewhere |= {f"{code}_missing" for code in in_source} | _CODES_IN_C
    unused = TEXTS[ENGLISH].keys() - in_source - elsewhere
    assert unused == set()


def _phases() -> set[str]:
    """Return the phases in which a process may fail."""
    video = Video("clip", "clip.mp4", "", "h264", 64, 48, 30.0, 15)
    schedule = Streams(count=1, fps=1.0, queue=0, warm_up_s=0.0, duration_s=1.0, video=video)
    plans = [
        make_plan("internal_reuse", "a", "b", streams=2),
        make_plan("streams_no_reuse", "a", schedule=schedule),
        make_plan("cycles_inferences", "a"),
    ]
    return {"prepare", "trimmed", *(step.phase for plan in plans for step in plan.steps())}


@pytest.mark.parametrize("context", [None, 2])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_of_failure_in_every_phase_has_words(language: str, context: int | None) -> None:
    """None of them is shown by its code, whether a context is named or not."""
    message = Message("text", {"text": "it broke"})
    for kind in OUTCOMES.keys() - {"ok"}:
        for phase in _phases():
            sentence = Failure(kind, phase, context, message).sentence(language)
            assert "kind_" not in sentence
            assert "phase_" not in sentence


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_source_of_figures_has_words(language: str, tmp_path: Path) -> None:
    """Sources of this machine have words, and those that only a kernel with an NPU has."""
    here = tmp_path / "proc" / str(os.getpid())
    here.mkdir(parents=True)
    (tmp_path / "proc/rknpu").mkdir()
    (here / "maps").write_text("x-y rw-s 0 0 0 /dmabuf:\n")
    link_process(tmp_path, os.getpid())
    for host in (LocalHost(tmp_path), LOCAL_HOST):
        for source in (*memory_sources(host, os.getpid()), *machine_sources(host)):
            assert source.remark.values.keys() == fields(TEXTS[language][source.remark.code])


#: Damages of a stored file: the code of the words, the text to replace, and the replacement.
_DAMAGES = {
    "file_damaged": ('"benchmarks"', "benchmarks"),
    "file_invalid": ('"board":', '"plank":'),
    "file_without_results": (SCHEMA, "theirs-1"),
    "file_schema_unknown": (SCHEMA, "reusebench-result-9"),
}


@pytest.mark.parametrize("code", [*_DAMAGES, "file_unreadable"])
def test_what_is_wrong_with_a_file_has_words(code: str, tmp_path: Path) -> None:
    """In every language the file is named, with the reason and a remedy."""
    path = tmp_path
    if code in _DAMAGES:
        path = write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
        path.write_text(path.read_text().replace(*_DAMAGES[code]))
    bad_file = read_run(path)
    assert isinstance(bad_file, BadFile)
    assert bad_file.reason.code == code
    for language in LANGUAGES:
        reason = TEXTS[language][code].format(**bad_file.reason.values)
        assert words(bad_file.message, language) == TEXTS[language]["bad_file"].format(
            file=path, reason=reason
        )
