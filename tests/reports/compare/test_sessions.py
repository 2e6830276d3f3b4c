"""Runs of language models: which are compared, what is told of the others, what exports have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reusebench.reports.compare.changes import compare_runs
from reusebench.reports.compare.exports.formats import EXPORTS
from reusebench.reports.compare.sides import remarks
from reusebench.storage.metrics import METRICS, TOKENS_PER_SECOND, find_metric
from reusebench.storage.runs import Run, read_runs
from tests.reports.stored import write_run
from tests.reports.stored_sessions import CONVERSATION, KV_TOKEN_BYTES, SESSIONS, sessions_result

_NAMES = ("sessions_contexts", "session")
_KV = find_metric("kv_cache")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Return two equal runs, one with a q4_0 cache, and one with other tokens."""
    storage = tmp_path_factory.mktemp("sessions")
    longer = replace(CONVERSATION, tokens=4096)
    made = [
        [sessions_result(storage, name) for name in _NAMES],
        [sessions_result(storage, name) for name in _NAMES],
        [sessions_result(storage, name, options=("cache_type=q4_0",)) for name in _NAMES],
        [sessions_result(storage, name, conversation=longer) for name in _NAMES],
    ]
    for number, infos in enumerate(made, start=1):
        write_run(storage, infos, number, at=f"2026-01-02T03:0{number}:00")
    return [run for run in read_runs(storage) if isinstance(run, Run)]


def _told(base: Run, head: Run, across: Sequence[str] = ()) -> str:
    return "\n".join(remarks(compare_runs([base], [head], (), METRICS, across)))


def test_equal_conversations_are_compared(runs: list[Run]) -> None:
    """Every metric of language models is, and the account of the cache changes by no byte."""
    changes = compare_runs(runs[:1], runs[1:2], (), METRICS)
    compared = {change.metric.name for change in changes.rows}
    assert {metric.name for metric in METRICS if metric.unit == TOKENS_PER_SECOND} < compared
    assert {"kv_cache", "scratch", "first_token"} < compared
    assert not changes.unmeasured + changes.differing


def test_another_option_is_another_plan(runs: list[Run]) -> None:
    """It is compared if the user says so; the cache is then told to be smaller, to the byte."""
    assert not compare_runs(runs[:1], runs[2:3], (), [_KV]).rows
    assert "To compare them all the same: --across plan" in _told(runs[0], runs[2])
    rows = compare_runs(runs[:1], runs[2:3], (), [_KV], ["plan"]).rows
    by_name = {row.subject.configuration.name: row for row in rows}
    fewer = CONVERSATION.tokens * (KV_TOKEN_BYTES["q4_0"] - KV_TOKEN_BYTES["f16"])
    assert by_name["session"].difference.change == fewer
    assert by_name["sessions_contexts"].difference.change == SESSIONS * fewer


def test_other_tokens_are_another_configuration(runs: list[Run]) -> None:
    """They are never compared, and told apart by their numbers."""
    assert not compare_runs(runs[:1], runs[3:], (), [_KV], ["plan"]).rows
    told = _told(runs[0], runs[3])
    assert "only in the base: llama_cpp sessions_contexts (1 x 4, 2048 tokens, prompt 512," in told
    assert "only in the head: llama_cpp sessions_contexts (1 x 4, 4096 tokens, prompt 512," in told


def test_exports_have_tokens_and_figures(runs: list[Run]) -> None:
    """The conversation is part of the detail; figures have units of their own."""
    by_name = {form.name: form for form in EXPORTS}
    lines = csv.DictReader(io.StringIO("".join(by_name["csv"].write(runs[3:], METRICS))))
    cells = {(row["name"], row["metric"]): row for row in lines}
    row = cells["session", "generation_speed"]
    assert (row["unit"], row["value"]) == ("tokens/s", "40.1")
    assert row["detail"].endswith("4096 tokens, prompt 512, generated 64")
    assert cells["session", "kv_cache"]["value"] == str(4096 * KV_TOKEN_BYTES["f16"])
    openmetrics = "".join(by_name["openmetrics"].write(runs[3:], METRICS))
    assert "reusebench_generation_speed_all_tokens_per_second{" in openmetrics
    larger = json.loads(
        "".join(by_name["github-bigger"].write(runs[3:], by_name["github-bigger"].metrics))
    )
    assert any(entry["name"].endswith("generation_speed_all") for entry in larger)
