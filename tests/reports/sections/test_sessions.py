"""Conversations: what a further one costs, by component, in words, tables and figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.plan import Conversation
from reusebench.reports.base.paper import NARROW
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.page.exported_tables import find_table
from reusebench.reports.results.grouping import group_results
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.sessions import (
    further_conversation,
    options_of,
    session_memory,
    token_costs,
)
from reusebench.reports.sections.answer import opening
from reusebench.reports.sections.contexts import additional_costs
from reusebench.reports.sections.sessions import (
    conversations_figure,
    memory_figure,
    memory_table,
    reason_sentences,
    speed_table,
    token_sentences,
    ways_table,
)
from reusebench.reports.shared.session_words import further_sentence, least_sentence
from reusebench.storage.result import Result
from tests.reports.page.test_exported_tables import material_of
from tests.reports.pages import page, section
from tests.reports.stored import (
    MIB,
    MODELS,
    changed,
    group_of,
    numbers,
    runs_of,
    with_speed,
    write_run,
)
from tests.reports.stored_sessions import (
    CONVERSATION,
    KV_TOKEN_BYTES,
    SESSIONS,
    session_results,
    sessions_result,
    sessions_run,
)

_ENGLISH = texts_of("en")


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of a run of every scenario, and of one with a smaller cache."""
    folder = tmp_path_factory.mktemp("sessions")
    sessions_run(folder)
    return folder


@pytest.fixture(scope="module")
def group(storage: Path) -> Group:
    """Return the group of both runs."""
    (group,) = group_results(runs_of(storage))
    return group


def row_of(group: Group, scenario: str, *options: str) -> Row:
    return next(row for row in group.named(scenario) if options_of(row) == options)


def test_the_first_line_is_the_cost_of_a_further_conversation(group: Group) -> None:
    """The plain way is a context for each; the least has another cache and a shared prompt."""
    line = (
        "A further conversation of 2,048 tokens costs 64.2 MiB, 11.0 with a q4_0 cache and a shared"
        " prompt."
    )
    assert further_sentence(group.rows, _ENGLISH) == line
    (answer, *_) = opening([group], ["here"], _ENGLISH).answers
    assert answer.sentence.startswith(line)
    assert answer.remarks[0] == least_sentence(group.rows, _ENGLISH)
    assert "150.0 ±0.1 tokens a second instead of 81.0 ±0.1" in answer.remarks[0]
    assert _ENGLISH("least_other_tokens") in answer.remarks[0]
    plain = [row for row in group.rows if not options_of(row)]
    assert _ENGLISH("least_other_tokens") not in least_sentence(plain, _ENGLISH)


def test_nothing_is_said_of_what_was_not_measured(tmp_path: Path) -> None:
    """Sequences without one conversation alone have no cost; nor has a single conversation."""
    infos = [sessions_result(tmp_path, name) for name in ("sessions_loaded", "sessions_unified")]
    group = group_of(tmp_path, *infos)
    unified = row_of(group, "sessions_unified")
    assert further_conversation(unified, group.rows) is None
    cells = {cells[0]: cells for _, cells in ways_table(group.rows, _ENGLISH).rows}
    assert cells["Sequences in one cache"][5] == "not measured"
    assert token_sentences(group.rows, _ENGLISH) == [_ENGLISH("tokens_not_measured")]
    assert further_sentence(group.rows, _ENGLISH).endswith("costs 64.2 MiB.")
    assert further_sentence([unified], _ENGLISH) == ""


def test_a_further_conversation_of_contexts_and_of_sequences(group: Group) -> None:
    """Contexts: the mean of those after the first. Sequences: the memory above one conversation."""
    contexts = row_of(group, "sessions_contexts")
    cost = further_conversation(contexts, group.rows)
    own = CONVERSATION.tokens * KV_TOKEN_BYTES["f16"] + 19.25 * MIB
    assert numbers(cost) == pytest.approx((own, 0.1 * MIB), abs=1)
    sequences = row_of(group, "sessions_sequences")
    cost = further_conversation(sequences, group.rows)
    cache = CONVERSATION.tokens * KV_TOKEN_BYTES["f16"]
    assert numbers(cost)[0] == pytest.approx(cache + 0.75 * MIB, abs=1)
    assert further_conversation(row_of(group, "session"), group.rows) is None


def test_a_token_costs_its_keys_and_values(group: Group) -> None:
    """The slope is measured between two rooms; by the account it is exact."""
    (cost,) = token_costs(group.rows)
    assert numbers(cost.kv_cache) == (KV_TOKEN_BYTES["f16"], 0.0)
    assert numbers(cost.measured)[0] == pytest.approx(KV_TOKEN_BYTES["f16"])
    (sentence,) = token_sentences(group.rows, _ENGLISH)
    assert "1,000 tokens cost 22.0" in sentence
    assert "23,040 bytes a token" in sentence


def test_weights_that_are_mapped_again_are_in_memory_once(group: Group) -> None:
    """The account of four loads has the weights four times, and memory has the file once."""
    memory = session_memory(row_of(group, "sessions_loaded"))
    assert memory is not None
    assert numbers(memory.account["weights"])[0] == SESSIONS * 110 * MIB
    assert numbers(memory.mapped_again)[0] == (SESSIONS - 1) * 110 * MIB
    assert numbers(memory.measured["file"])[0] == 110 * MIB
    assert numbers(memory.difference)[0] == pytest.approx(SESSIONS * MIB)
    merged = session_memory(row_of(group, "sessions_merged"))
    assert merged is not None
    assert numbers(merged.mapped_again)[0] == 0


def test_rows_of_other_options_have_baselines_of_their_own(group: Group) -> None:
    """A run with a smaller cache stands beside the other, and is compared with itself."""
    small = row_of(group, "sessions_shared_prompt", "cache_type=q4_0")
    assert small.baseline is row_of(group, "sessions_loaded", "cache_type=q4_0")
    assert small.outcome == "ok"


def test_adapters_are_compared_with_merged_models(group: Group) -> None:
    """The files differ, so the base model and the number of models join the two."""
    adapters = row_of(group, "sessions_adapters")
    assert adapters.baseline is row_of(group, "sessions_merged")
    assert adapters.outcome == "ok"
    assert adapters.saved() is not None


def test_a_sequence_adds_nothing_in_its_step(group: Group) -> None:
    """No slope is told of sequences, whose memory their context has from the beginning."""
    assert additional_costs(row_of(group, "sessions_sequences")) == []
    assert len(additional_costs(row_of(group, "sessions_contexts"))) == 1


def test_the_account_explains_a_saving(group: Group) -> None:
    """The saving of a shared prompt is its common tokens, as calculated and by the account."""
    reasons = " ".join(reason_sentences(group.rows, _ENGLISH))
    size = CONVERSATION.common * (SESSIONS - 1) * KV_TOKEN_BYTES["f16"] / MIB
    assert (
        f"{CONVERSATION.common} common tokens are kept once in place of 4 times: {size:.2f} MiB"
        in reasons
    )
    assert f"KV cache {size:.2f}" in reasons


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_and_figures_are_in_each_language(group: Group, language: str) -> None:
    """Every table has a row for each measured configuration, and both figures are drawn."""
    texts: Texts = texts_of(language)
    rows = group.questions["sessions"]
    for table in (ways_table(rows, texts), memory_table(rows, texts), speed_table(rows, texts)):
        assert table is not None
        assert len(table.rows) == len(rows)
    for figure in (conversations_figure, memory_figure):
        svg = figure(rows, texts)
        assert svg is not None
        assert figure(rows, texts, NARROW) is not None
    assert texts.scenario("sessions_shared_prompt") in (conversations_figure(rows, texts) or "")


def test_without_account_and_speed_nothing_is_made_up(tmp_path: Path) -> None:
    """No component is zero because the runtime tells none, and there is no table of speed."""
    info = changed(sessions_result(tmp_path, "sessions_loaded"), runtime_accounts=())
    names = ("first_token_ns", "prompt_tokens_per_s", "generated_tokens_per_s")
    info = with_speed(info, **dict.fromkeys((*names, "all_generated_tokens_per_s"), ()))
    group = group_of(tmp_path, info)
    assert memory_figure(group.rows, _ENGLISH) is None
    assert speed_table(group.rows, _ENGLISH) is None
    table = memory_table(group.rows, _ENGLISH)
    assert table is not None
    assert set(table.rows[0][1][1:10]) == {"-"}


def test_the_page_and_the_table_have_every_configuration(storage: Path, tmp_path: Path) -> None:
    """The page has the section before the options; the exported table has exact bytes."""
    html = page(storage, tmp_path)
    assert html.index('<section id="sessions">') < html.index('<section id="options">')
    assert "Sequences, shared prompt" in section(html, "sessions")
    records = {
        (record["scenario"], record["options"]): record
        for record in find_table("sessions").rows(material_of(storage))
    }
    alone = records["session", None]
    assert alone["kv_cache_bytes"] == CONVERSATION.tokens * KV_TOKEN_BYTES["f16"]
    assert alone["token_kv_cache_bytes"] == KV_TOKEN_BYTES["f16"]
    assert alone["further_session_bytes"] is None
    small = records["sessions_shared_prompt", "cache_type=q4_0"]
    assert (small["tokens"], small["sessions"]) == (CONVERSATION.tokens, SESSIONS)
    assert len(records) == len(session_results(storage)) + 4


def test_the_answer_is_of_one_conversation(tmp_path: Path) -> None:
    """The longest of several lengths is told, without options, and the need is of the same."""
    short = Conversation(tokens=1024, prompt=512, generated=64, common=384)
    names = ("sessions_loaded", "sessions_contexts", "sessions_shared_prompt", "session")
    write_run(tmp_path, [sessions_result(tmp_path, name, run="run2") for name in names], 1)
    infos = [sessions_result(tmp_path, name, conversation=short) for name in names]
    group = group_of_second_run(tmp_path, infos)
    (answer, *_) = opening([group], ["here"], _ENGLISH).answers
    assert answer.sentence.startswith("A further conversation of 2,048 tokens costs 64.2 MiB")
    assert "need 397.0 ±0.4 MiB" in answer.sentence


def group_of_second_run(storage: Path, infos: list[Result]) -> Group:
    """Write a second run, and return the one group of both."""
    write_run(storage, infos, 2, at="2026-01-03T03:04:05")
    (group,) = group_results(runs_of(storage))
    return group


def test_other_tokens_of_a_shared_cache_are_a_remark(tmp_path: Path) -> None:
    """Sums over a shared cache are rounded otherwise; a context for each has equal tokens."""
    infos = [sessions_result(tmp_path, name) for name in ("sessions_loaded", "sessions_unified")]
    infos[1] = changed(infos[1], output_digests={MODELS[0].digest: ("00000002",)})
    group = group_of(tmp_path, *infos)
    assert row_of(group, "sessions_unified").measured
    cells = {cells[0]: cells for _, cells in ways_table(group.rows, _ENGLISH).rows}
    assert cells["Sequences in one cache"][-1] == _ENGLISH("outcome_other_tokens")
    (answer, *_) = opening([group], ["here"], _ENGLISH).answers
    assert _ENGLISH("answer_other_tokens") in answer.remarks

    infos = [sessions_result(tmp_path, name) for name in ("sessions_loaded", "sessions_contexts")]
    infos[1] = changed(infos[1], output_digests={MODELS[0].digest: ("00000002",)})
    other = tmp_path / "other"
    assert row_of(group_of(other, *infos), "sessions_contexts").outcome == "outputs_differ"
