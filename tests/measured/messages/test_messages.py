"""Messages and their texts."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from dataclasses import asdict

import msgspec
import pytest

from reusebench.measured.messages import ENGLISH, LANGUAGES, Message, words
from reusebench.system.package import MEASURED
from tests.helpers.chinese import not_chinese, with_foreign_punctuation
from tests.helpers.support import CHECKOUT

TEXTS = {
    language: json.loads((MEASURED / "messages" / f"{language}.json").read_text(encoding="utf-8"))
    for language in LANGUAGES
}
_CHINESE = "zh-CN"


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_messages(language: str) -> None:
    """The same codes in the same order, and each text has the same fields."""
    codes = [
        [(code, fields(text)) for code, text in texts.items()]
        for texts in (TEXTS[language], TEXTS[ENGLISH])
    ]
    assert codes[0] == codes[1]


def test_chinese_messages_have_chinese_punctuation() -> None:
    """No ASCII comma, colon, semicolon, question mark or bracket is beside a Chinese character."""
    assert with_foreign_punctuation(TEXTS[_CHINESE].values()) == []


def test_chinese_messages_are_chinese() -> None:
    """A message without any Chinese character has no words but names and units."""
    assert not_chinese(TEXTS[_CHINESE].values()) == []


def test_a_message_comes_back_from_what_is_stored() -> None:
    """Messages within it come back, too, and are put into words of the same language."""
    message = Message(
        "reads_freed", {"owner": Message("owner_context", {"number": 3}), "amount": 12}
    )
    assert msgspec.json.decode(json.dumps(asdict(message)), type=Message) == message
    assert "上下文 3" in words(message, _CHINESE)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            Message("on_fire", {"what": "the NPU", "since_s": 3}),
            "on_fire (what the NPU, since_s 3)",
        ),
        (Message("on_fire"), "on_fire"),
        (Message("process_exited", {"exit_code": 3}), "process_exited (exit_code 3)"),
    ],
)
def test_a_message_of_another_version_is_shown(message: Message, shown: str) -> None:
    """A code or a field that this version does not know is shown as it is."""
    assert [words(message, language) for language in LANGUAGES] == [shown] * len(LANGUAGES)


@pytest.mark.process
def test_the_measured_process_reads_no_texts() -> None:
    """Its errors are sent as codes: texts would add to the memory that is measured."""
    code = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: event == "open" and opened.append(str(arguments[0])))
from reusebench.measured.driver import main
assert main() == 1
assert not [path for path in opened if path.endswith(".json")], opened
"""
    command = json.dumps({"command": "prepare", "runtime": "rknn", "models": [], "folder": ""})
    environment = {"REUSEBENCH_RKNN_LIBRARY": "/absent/librknnrt.so"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=f"{command}\n",
        env=environment,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["message"]["code"] == "rknn_not_a_library"
