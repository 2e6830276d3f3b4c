"""--json of every command: one envelope, for results and for mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from reusebench import __version__
from reusebench.commands import main
from reusebench.commands.results import _RESULTS, json_schema
from reusebench.measured.runtimes import RUNTIMES
from reusebench.storage.metrics import METRICS
from tests.commands.replies import SCHEMA_FILE, reply_in, result_of
from tests.helpers.support import Reusebench
from tests.reports.stored import full_run
from tests.reports.stored_kinds import KINDS

pytestmark = pytest.mark.process

#: Lists of a JSON schema in any order, which depends on the version of msgspec.
_UNORDERED = ("anyOf", "enum", "required")
#: Commands whose output is that of other tools, or of the program that they run.
_WITHOUT = {"bench", "export", "record"}


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, bool]]:
    """Yield the name of each command that is no group, and whether it has --json."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, click.Context(inner, info_name=name, parent=context))
        return
    options = {name for option in command.params for name in option.opts}
    yield context.command_path.partition(" ")[2], "--json" in options


def _plain(schema: Any) -> Any:
    """Return the schema without what is for people, and with unordered lists in one order."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {}
    for key, part in schema.items():
        is_text = key in ("title", "description") and isinstance(part, str)
        if not is_text:
            plain[key] = _plain(part)
        if key in _UNORDERED and isinstance(part, list):
            plain[key] = sorted(plain[key], key=json.dumps)
    return plain


def test_the_schema_is_that_of_the_types(request: pytest.FixtureRequest) -> None:
    """The file in the package is as generated; --update-snapshots writes it."""
    if request.config.getoption("--update-snapshots", default=False):
        SCHEMA_FILE.write_text(f"{json.dumps(json_schema(), indent=1)}\n", encoding="utf-8")
    written = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert _plain(written) == _plain(json.loads(json.dumps(json_schema())))


def test_every_command_has_json() -> None:
    """Each that prints a result; the schema has its type."""
    having = dict(_commands(main, click.Context(main, info_name="reusebench")))
    assert {name for name, has_json in having.items() if not has_json} == _WITHOUT
    installs = {name for name in having if name.startswith("models install ")}
    # The document of an export is a reply, by --format json.
    assert {"", *having} - _WITHOUT - installs == set(_RESULTS) - {"export"}


@pytest.mark.parametrize("command", sorted(set(_RESULTS) - {"", "export"}))
def test_a_mistake_is_a_reply(command: str, reusebench: Reusebench) -> None:
    """An option that there is not: the reply has the sentence, and no result."""
    done = reusebench(*command.split(), "--json", "--no-such-option")
    reply = reply_in(done)
    assert (done.exit_code, done.err) == (2, "")
    assert (reply["command"], reply["result"]) == (command, None)
    assert "--no-such-option" in reply["errors"][0]


@pytest.mark.parametrize(
    ("words", "command", "error"),
    [
        (["reprot", "--json"], "", "the nearest is report"),
        (["runs", "lst", "--json"], "runs", "the nearest is list"),
        (["runs", "list", "--newest", "x", "--json"], "runs list", "'x' is not a valid integer"),
        (["runs", "list", "--storage", "{folder}/none", "--json"], "runs list", "no storage at"),
        (["plan", "no_scenario", "--json"], "plan", "no_scenario"),
        (["glossary", "contxt", "--json"], "glossary", "the nearest is context"),
        (["metrics", "latncy", "--json"], "metrics", "the nearest is latency"),
        (["models", "inspect", "{folder}/x.onnx", "--json"], "models inspect", "x.onnx"),
        (["fit", "--code", "--json"], "fit", "--code and --json are two outputs"),
        (["export", "--metric", "x", "--format", "json"], "export", "there is no metric 'x'"),
        (["export", "{folder}/x", "--format", "json"], "export", "there is no run"),
    ],
)
def test_mistakes(
    words: list[str], command: str, error: str, tmp_path: Path, reusebench: Reusebench
) -> None:
    """A mistake of any kind is a reply with the sentence that people read."""
    done = reusebench(*(word.format(folder=tmp_path) for word in words))
    reply = reply_in(done)
    assert (done.exit_code, done.err) == (2, "")
    assert (reply["command"], reply["result"]) == (command, None)
    assert error in reply["errors"][0]


@pytest.mark.parametrize(
    "words",
    [["bench", "--json", "--collect-only"], ["record", "--json"], ["export", "--json"]],
)
def test_commands_without_json_say_so(words: list[str], reusebench: Reusebench) -> None:
    """Their mistakes are text."""
    done = reusebench(*words)
    assert done.exit_code in (2, 4)
    assert not done.out.startswith("{")


def test_warnings_are_in_the_reply(tmp_path: Path, reusebench: Reusebench) -> None:
    """Hints on former names and damaged files; they are on standard error too."""
    path = full_run(tmp_path)
    path.with_name("0009_damaged.json").write_text("{")
    words = ("runs", "list", "--limit", 1, "--storage", tmp_path, "--json")
    done = reusebench(*words)
    hint, damaged = reply_in(done)["warnings"]
    assert hint.startswith("--limit is now --newest")
    assert "0009_damaged.json" in damaged
    assert (done.exit_code, hint in done.err, damaged in done.err) == (1, True, True)


def test_the_version(reusebench: Reusebench) -> None:
    """As text the version alone; as JSON those of the runtimes too."""
    assert reusebench("--version").out == f"reusebench {__version__}\n"
    done = reusebench("--version", "--json")
    rows = {row["name"]: row["version"] for row in result_of(done)}
    assert list(rows) == [runtime.name for runtime in RUNTIMES]
    assert rows["onnxruntime"][0].isdigit()
    assert reply_in(done)["version"] == __version__


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_metrics(language: str, reusebench: Reusebench) -> None:
    """Every metric with its unit, direction and meaning, as text and as JSON."""
    rows = result_of(reusebench("metrics", "--lang", language, "--json"))
    assert [row["name"] for row in rows] == [metric.name for metric in METRICS]
    rates = {row["name"] for row in rows if row["unit"] in ("1/s", "tokens/s")}
    assert {row["name"] for row in rows if not row["less_is_better"]} == rates
    by_name = {row["name"]: row for row in rows}
    assert by_name["latency"]["unit"] == "ns"
    assert by_name["latency"]["shown_by"] == ["compare", "history"]
    assert "comparison" in by_name["npu_memory"]["tables"]
    text = "".join(reusebench("metrics", "--lang", language).out.split())
    for row in rows:
        assert "".join(row["meaning"].split()) in text
    (only,) = result_of(reusebench("metrics", "npu_peak", "--json"))
    assert only["name"] == "npu_peak"


def test_the_glossary(reusebench: Reusebench) -> None:
    """The words in one sentence each; a word is found in any case, and in the language's form."""
    rows = result_of(reusebench("glossary", "--json"))
    assert {"context", "stream", "dup", "pss"} <= {row["name"] for row in rows}
    assert len({row["meaning"] for row in rows}) == len(rows)
    (pss,) = result_of(reusebench("glossary", "Pss", "--json"))
    assert "are divided" in pss["meaning"]
    (turn,) = result_of(reusebench("glossary", "In turn", "--lang", "zh-CN", "--json"))
    assert turn["name"] == "in_turn"
    assert reusebench("glossary", "dup").out.startswith("dup: ")
    assert reusebench("glossary", "full dup").out.startswith("Full dup: One model for all streams")
    chinese = reusebench("glossary", "上下文", "--lang", "zh-CN").out
    assert chinese.startswith("上下文\uff08context\uff09: ")
    assert reusebench("glossary", "npu_peak").out.startswith("peak of NPU memory: The most that ")


def test_results(tmp_path: Path, reusebench: Reusebench) -> None:
    """Commands on stored runs and on nothing but this machine give results of the schema."""
    storage = tmp_path / "storage"
    full_run(storage)
    stored = ("--storage", storage, "--json")
    (run,) = result_of(reusebench("runs", "list", *stored))["runs"]
    assert run["size_bytes"] > 0
    report = result_of(reusebench("report", *stored, "--output", tmp_path / "out"))
    assert report["files"] == []
    assert not (tmp_path / "out").exists()
    assert {row["scenario"] for row in report["tables"]["comparison"]} >= {"no_reuse", "full_dup"}
    words = ("--output", tmp_path / "out", "--format", "csv")
    (folder,) = result_of(reusebench("report", *stored, *words))["files"]
    assert Path(folder).is_dir()
    history = result_of(reusebench("history", *stored))
    assert {row["metric"] for row in history["history"]} >= {"application_memory", "latency"}
    plan = result_of(reusebench("plan", "full_dup", "--json"))
    assert (plan["language"], "full_dup" in plan["text"]) == ("toml", True)
    program = result_of(reusebench("plan", "full_dup", "--code", "--json"))
    assert (program["language"], "import onnxruntime" in program["text"]) == ("python", True)
    result_of(reusebench("models", "list", "--json"))
    model = result_of(reusebench("models", "build", "tiny", "--json"))["path"]
    inspected = result_of(reusebench("models", "inspect", model, "--json"))
    assert inspected["runtime"] == "onnxruntime"
    assert result_of(reusebench("board", "list", "--json")) == []
    result_of(reusebench("libraries", "list", "--rknn-library", tmp_path, "--json"))
    pruned = result_of(reusebench("runs", "prune", "--keep", 0, "--named", "--dry-run", *stored))
    assert (pruned["is_dry_run"], pruned["runs"]) == (True, [run["path"]])


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_every_kind_of_stored_run(
    kind: str, tmp_path: Path, reusebench: Reusebench
) -> None:
    """Tables, histories and lists of runs hold to the schema, whatever was measured."""
    KINDS[kind](tmp_path)
    for command in (("report",), ("history",), ("runs", "list"), ("compare", "--versions")):
        done = reusebench(*command, "--storage", tmp_path, "--json")
        reply = reply_in(done)
        assert done.exit_code in (0, 2)
        assert (reply["result"] is None) == bool(reply["errors"])
