from __future__ import annotations

import html as entities
import re
from pathlib import Path

import pytest
from markupsafe import escape

from accounting.sharing import Finding
from reports.base.texts import LANGUAGES, texts_of
from reports.page.figures import figures_of
from reports.page.page import write_page
from reports.page.reading import read_material, to_be_shown
from reports.results.questions import QUESTIONS
from reports.streams.frames import STREAMS
from tests.reports.stored import (
    NOT_SUPPORTED,
    changed,
    even,
    full_run,
    machine,
    npu_account,
    npu_run,
    result,
    runtime_account,
    write_run,
)

ENGLISH = texts_of("en")


def page(storage: Path, output: Path, language: str = "en") -> str:
    material = read_material([storage], None)
    shown = to_be_shown(material.groups)
    return write_page(material, shown, figures_of(shown), output, language).read_text(encoding="utf-8")


def in_language(html: str, language: str) -> str:
    """Return the page without what stands in another language's elements."""
    for other in LANGUAGES:
        if other != language:
            html = re.sub(rf'<(span|tspan) lang="{other}">.*?</\1>', "", html, flags=re.DOTALL)
    return re.sub(rf'<(span|tspan) lang="{language}">(.*?)</\1>', r"\2", html, flags=re.DOTALL)


def section(html: str, name: str) -> str:
    """Return one section of the page, in English."""
    start = html.index(f'<section id="{name}">')
    later = [place for place in (html.find("\n<section id=", start + 1), html.find("</main>")) if place > 0]
    return in_language(html[start : min(later)], "en")


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage")
    path = full_run(folder)
    (path.parent / "0009_bad.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def written(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(storage, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def virtual(npu_storage: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a virtual board."""
    return page(npu_storage, tmp_path_factory.mktemp("virtual"))


def test_page_is_the_same_every_time(storage: Path, written: str, tmp_path: Path) -> None:
    """The same storage gives the same bytes."""
    assert page(storage, tmp_path) == written


def test_page_asks_for_nothing_outside(written: str) -> None:
    """No element of the page loads anything: what it links to is only opened when the reader asks for it."""
    assert not re.search(r"<(?:script|img|iframe|object|embed)[^>]* src", written)
    assert re.findall(r'<link[^>]*href="([^"]*)"', written) == ["data:,"]
    assert "@import" not in written
    assert not re.search(r"url\((?!#)", written)
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|import)\s*\(", written)


def test_ids_are_unique_and_references_lead_somewhere(written: str, virtual: str) -> None:
    """No id stands twice, so no figure takes another's clipping path; every link and label finds its element."""
    for html in (written, virtual):
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))
        links = re.findall(r'href="#([^"]+)"', html) + re.findall(r'aria-labelledby="([^"]+)"', html)
        assert set(links) <= set(ids)


def test_opens_with_the_answer(written: str) -> None:
    """First come three sentences, one table and one figure; then the questions; definitions are last."""
    answer = section(written, "answer")
    assert written.index('<section id="answer">') < written.index("<nav")
    said = re.findall(r"<li>(.*?)</li>", answer[: answer.index("<table")])
    assert len(said) == 3
    assert "Full dup on ONNX Runtime 1.2.3, python (68.8 % of application memory" in said[0]
    assert "91.7 % and" in said[1]
    assert (answer.count("<table"), answer.count("<figure")) == (1, 1)
    order = re.findall(r'<section id="([^"]+)">', written)
    assert order[:3] == ["answer", "measured", "dup"]
    assert order[-1] == "definitions"


def test_every_language_is_whole(written: str, virtual: str) -> None:
    """Each text that differs between the languages stands once in each, and what was measured has the same numbers."""
    for html in (written, virtual):
        body = html[html.index("<main>") : html.index('<section id="environment">')]
        pairs = re.findall(r'<span lang="en">(.*?)</span><span lang="zh-CN">(.*?)</span>', body, flags=re.DOTALL)
        assert len(pairs) > 200
        assert body.count('<span lang="en">') == body.count('<span lang="zh-CN">')
        for pair in pairs:
            english, chinese = (re.findall(r"\d+(?:\.\d+)?", entities.unescape(text)) for text in pair)
            assert sorted(english) == sorted(chinese), pair


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_language_is_chosen(storage: Path, tmp_path: Path, language: str) -> None:
    """The language that was asked for is that of the document, of its title, and the one that is shown first."""
    html = page(storage, tmp_path, language)
    assert f'<html lang="{language}">' in html
    assert f"<title>reusebench: {texts_of(language)('title')}</title>" in html
    assert re.findall(r'id="language-([^"]+)"[^>]* checked>', html) == [language]


def test_words_of_a_crashed_process_are_text(written: str) -> None:
    """What a measured process wrote is shown, and is never markup of the page."""
    assert "SIGSEGV" in written
    assert "&lt;script&gt;alert" in written
    assert "<script>alert" not in written


def test_bad_files_are_named(written: str) -> None:
    """A stored file that could not be read is named in the page, with the reason."""
    assert "0009_bad.json" in section(written, "failures")


def test_a_lost_trace_costs_only_its_figure(tmp_path: Path) -> None:
    """Without the traces the page has all its tables, and says that the timeline is missing."""
    full_run(tmp_path)
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.write_bytes(b"cut")
    html = page(tmp_path, tmp_path / "out")
    assert "traces of this group are not in the storage" in section(html, "timeline")
    assert "330.0" in section(html, "dup")


def test_virtual_board_says_nothing_of_speed(virtual: str) -> None:
    """Its figures are of NPU memory; the page says why speed is missing, and shows the baseline."""
    html = in_language(virtual, "en")
    assert str(escape(ENGLISH("note_virtual"))) in section(virtual, "measured")
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', html)
    assert {ENGLISH("column_npu"), ENGLISH("column_npu_saved"), ENGLISH("column_baseline_memory")} <= set(heads)
    assert not {ENGLISH("column_latency"), ENGLISH("column_load")} & set(heads)
    assert ENGLISH("speed_not_measured") in section(virtual, "speed")
    assert ENGLISH("opening_no_speed") in section(virtual, "answer")


def test_every_question_has_its_section(virtual: str) -> None:
    """The scenarios stand below the question that they answer, each with what was promised, predicted and measured."""
    for name in QUESTIONS:
        if name == STREAMS:
            continue  # test_streams_section holds it
        text = section(virtual, name)
        assert f"<h2>{ENGLISH(f'question_{name}')}</h2>" in text
        assert f"<h4>{ENGLISH('section_explanation')}</h4>" in text
        assert f"<summary>{ENGLISH('section_components')}</summary>" in text
        assert "<svg" in text
    assert ENGLISH("section_sharing") in section(virtual, "mechanisms")


def test_contents_lead_to_every_section(virtual: str) -> None:
    """The list below the answer leads to each question and each section after it."""
    links = re.findall(r'<li><a href="#([^"]+)"', virtual[virtual.index("<nav") : virtual.index("</nav>")])
    sections = re.findall(r'<section id="([^"]+)">', virtual)
    assert links == [name for name in sections if name not in ("answer", "measured")]


def test_a_group_can_be_hidden_everywhere(tmp_path: Path) -> None:
    """Each group has a box to choose it by, and all that is its own has its class: parts, columns and claims."""
    full_run(tmp_path)
    npu_run(tmp_path, number=2)
    html = page(tmp_path, tmp_path / "out")
    for group in ("g0", "g1"):
        assert f'id="show-{group}" checked' in html
        assert f"html:has(#show-{group}:not(:checked)) .{group} {{ display: none; }}" in html
        assert f'<section class="part {group}">' in section(html, "dup")
        assert f'<tr class="{group}">' in section(html, "claims")
        assert re.search(rf'<td class="n {group}">', section(html, "answer"))


def test_a_board_shows_memory_and_speed(tmp_path: Path) -> None:
    """Where the NPU computes, latency stands beside NPU memory; the conditions name chip, driver and library."""
    write_run(tmp_path, [result(tmp_path, name, even(3), npu=npu_account) for name in ("no_reuse", "partial_dup")])
    html = page(tmp_path, tmp_path / "out")
    assert ENGLISH("column_latency") in section(html, "dup")
    measured = section(html, "measured")
    assert "Chip rk3588. NPU driver 0.9.8. Runtime library 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)." in measured
    assert ENGLISH("conditions", target="python", python="3.11.7", cores=2, streams=4, contexts=3) in measured


def test_words_of_the_runtime_are_no_ledger(tmp_path: Path) -> None:
    """Where the runtime itself gives the account, the page says so, and that what it does not tell is not zero."""
    write_run(tmp_path, [result(tmp_path, "partial_dup", even(3), npu=runtime_account)])
    html = in_language(page(tmp_path, tmp_path / "out"), "en")
    for key in ("npu_source_runtime", "components_runtime_note"):
        assert str(escape(ENGLISH(key))) in html
    assert ENGLISH("verified_unknown") in html
    assert ENGLISH("timeline_npu_note") not in html


def test_findings_are_warnings(tmp_path: Path) -> None:
    """What the ledger found stands as a warning with its remedy."""
    leak = Finding("leak", None, None, None, 2**20)
    info = result(tmp_path, "no_reuse", even(3), npu=lambda plan: npu_account(plan, findings=(leak,)))
    write_run(tmp_path, [info])
    (warning,) = re.findall(r'<p class="warning">([^<]*)</p>', in_language(page(tmp_path, tmp_path / "out"), "en"))
    assert "1.00 MiB of NPU memory were left" in warning
    assert "rknn_destroy_mem" in warning


def test_sources_that_need_root_are_named(written: str, tmp_path: Path) -> None:
    """The environment lists what could be read and what not; runs of before have no such list."""
    text = section(written, "environment")
    assert "/sys/kernel/debug/dma_buf/bufinfo" in text
    assert "needs root" in text
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))], machine=machine(memory_sources=()))
    assert ENGLISH("section_sources") not in section(page(tmp_path, tmp_path / "out"), "environment")


def test_only_scenarios_of_the_page_are_explained(written: str) -> None:
    """A page of one question does not explain the scenarios of the others."""
    text = section(written, "scenarios")
    assert ENGLISH("about_full_dup") in text
    assert ENGLISH("about_in_turn") not in text


def test_baselines_alone_show_no_mechanism(tmp_path: Path) -> None:
    """Where no mechanism was measured the page says so."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    text = section(page(tmp_path, tmp_path / "out"), "mechanisms")
    assert str(escape(ENGLISH("mechanisms_none"))) in text
    assert "<details>" not in text


def test_mechanisms_have_their_reasons(virtual: str) -> None:
    """Which runtime has which mechanism stands in a table, with the reasons to be unfolded."""
    text = section(virtual, "mechanisms")
    assert f"<summary>{ENGLISH('mechanisms_reasons')}</summary>" in text
    assert f"{ENGLISH.scenario('shared_context')}</dt><dd>{NOT_SUPPORTED.message}</dd>" in text


def test_results_measured_as_others_say_so(tmp_path: Path) -> None:
    """A scenario whose plan equals another one's names that in the table of details, in both languages."""
    info = changed(result(tmp_path, "no_reuse_one_model", even(3)), measured_as="no_reuse")
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3)), info])
    html = page(tmp_path, tmp_path / "out")
    for language in LANGUAGES:
        texts = texts_of(language)
        scenario, other = texts.scenario("no_reuse_one_model"), texts.scenario("no_reuse")
        assert texts("measured_as", scenario=scenario, other=other) in in_language(html, language)


def test_unfinished_runs_are_marked(tmp_path: Path) -> None:
    """A run that was cut off is shown like any other, and its file is said to be unfinished."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))], is_finished=False)
    html = page(tmp_path, tmp_path / "out")
    assert "0001_run.json (unfinished)" in section(html, "runs")
    assert ENGLISH.scenario("no_reuse") in section(html, "dup")


def test_equal_reasons_stand_once(tmp_path: Path) -> None:
    """What a runtime lacks for one reason is named in one sentence of the question, and once with the reason."""
    names = ("external_memory", "external_dma_heap")
    infos = [result(tmp_path, name, [], failure=NOT_SUPPORTED) for name in names]
    write_run(tmp_path, [result(tmp_path, "runtime_memory", even(3)), *infos])
    html = page(tmp_path, tmp_path / "out")
    both = "; ".join(map(ENGLISH.scenario, names))
    failures = section(html, "failures")
    assert failures.count(str(escape(NOT_SUPPORTED.message))) == 1
    assert f"<strong>{both}</strong>: not supported: " in failures
    question = section(html, "external_memory")
    assert ENGLISH("answer_not_supported", scenarios=both) in question
    assert 'href="#failures-g0"' in question


def test_copies_have_their_table(virtual: str) -> None:
    """The question of copies has its table; where nothing computes, latency is no part of it."""
    text = section(virtual, "io_copies")
    assert text.count(f"<h4>{ENGLISH('section_copies')}</h4>") == 1
    assert ENGLISH("axis_latency_saved") not in text
    assert ENGLISH("column_avoided") in text


def test_claims_and_published_figures_stand_beside(written: str) -> None:
    """The ledger of claims has its verdicts, and published figures name their source with a link."""
    claims = section(written, "claims")
    assert ENGLISH("claims_holds") in claims
    assert 'href="https://www.cnblogs.com/yijunchenhui/p/18928556"' in claims
    speed = section(written, "speed")
    assert "140.9" in speed
    assert '<tr class="published">' in speed


def test_tables_can_be_read_without_a_script(written: str) -> None:
    """Every table has a name, heads of columns and of rows, and all its rows, before any script runs."""
    tables = re.findall(r"<table.*?</table>", in_language(written, "en"), flags=re.DOTALL)
    assert len(tables) > 8
    for table in tables:
        assert re.search(r"<caption[^>]*>[^<]+</caption>", table)
        assert '<th scope="row">' in table
        assert "hidden" not in table
        assert "<button" not in table


def test_six_groups_stand_on_the_page_and_the_newest_of_each_runtime_is_one(tmp_path: Path) -> None:
    """With more groups the older ones are left out of the page, which says so; each runtime's newest stays."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3), npu=npu_account)], 1, at="2026-01-01T00:00:00")
    for number in range(2, 10):
        info = changed(result(tmp_path, "no_reuse", even(3)), runtime_version=f"1.{number}")
        write_run(tmp_path, [info], number, at=f"2026-01-{number:02}T00:00:00")
    html = page(tmp_path, tmp_path / "out")
    measured = section(html, "measured")
    assert measured.count('type="checkbox"') == 6
    assert "RKNN 1.6.0" in measured
    assert ENGLISH("groups_left_out") + " 3" in measured
    assert section(html, "runs").count("<tr") == 10
