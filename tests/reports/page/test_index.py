"""The page: what stands in it in each language, and that it is whole by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.accounting.sharing import Finding
from reusebench.measured.plan import Conversion, Model
from reusebench.measured.runtimes.base import InputData
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import MOST_SHOWN, read_material
from reusebench.reports.page.index import start_figures, write_report
from reusebench.scenarios.catalogue import LIMIT, OPTIONS, QUESTIONS, SESSIONS
from tests.reports.conftest import WrittenReport
from tests.reports.pages import page, readable, section, sections
from tests.reports.stored import (
    NOT_SUPPORTED,
    as_measured,
    changed,
    even,
    first_look,
    full_run,
    machine,
    npu_account,
    npu_run,
    result,
    runtime_account,
    write_run,
)
from tests.reports.stored_streams import Frames, streams_result
from tests.reports.versions.stored_versions import three_versions

pytestmark = pytest.mark.process

ENGLISH = texts_of("en")
_SNAPSHOTS = Path(__file__).parents[1] / "snapshots"


def test_the_page_shows_what_it_shall_show(
    written: WrittenReport, request: pytest.FixtureRequest
) -> None:
    """Every sentence, table and heading is as expected; --update-snapshots renews that."""
    path = _SNAPSHOTS / "index.en.txt"
    storage = written.material.results.runs[0].path.parent.parent
    shown = readable(written.html["en"]).replace(str(storage), "STORAGE")
    if request.config.getoption("--update-snapshots", default=False):
        path.write_text(shown, encoding="utf-8")
    assert shown.splitlines() == path.read_text(encoding="utf-8").splitlines()


def test_languages_show_the_same_numbers(written: WrittenReport) -> None:
    """Every line has the same numbers in both languages, and words of one language alone."""
    lines = {language: readable(html).splitlines() for language, html in written.html.items()}
    start = lines["en"].index(f"## {ENGLISH('section_answer')}")
    end = lines["en"].index(f"## {ENGLISH('section_environment')}")
    for english, chinese in zip(lines["en"][start:end], lines["zh-CN"][start:end]):
        numbers = [sorted(re.findall(r"\d+(?:\.\d+)?", line)) for line in (english, chinese)]
        assert numbers[0] == numbers[1], english
        assert not re.search("[\u3400-\u9fff]", english)
    # Which terms are marked, and so explained, depends on the words of the language.
    ends = [
        lines[language].index(f"## {texts_of(language)('section_glossary')}")
        for language in ("en", "zh-CN")
    ]
    assert ends[0] == ends[1] > 400
    axes = {
        language: f">{texts_of(language)('axis_saved_percent')}</text>" for language in LANGUAGES
    }
    for language, html in written.html.items():
        assert [other for other, axis in axes.items() if axis in html] == [language]


def test_each_page_leads_to_the_other_language(written: WrittenReport) -> None:
    """The first language has the plain name; a link has the other language's own name."""
    assert {path.name for path in written.paths.values()} == {"index.html", "index.zh-CN.html"}
    for language, other in zip(LANGUAGES, LANGUAGES[::-1]):
        html = written.html[language]
        texts = texts_of(language)
        assert f'<html lang="{language}">' in html
        assert f"<title>reusebench: {texts('title')}</title>" in html
        link = (
            f'<a href="{written.paths[other].name}" lang="{other}" hreflang="{other}"'
            ' rel="alternate">'
        )
        assert f"{link}{texts_of(other)('language_name')}</a>" in html


def test_the_first_language_is_that_of_the_plain_name(full_storage: Path, tmp_path: Path) -> None:
    """If Chinese is first, the name of the English page has its language."""
    assert '<html lang="zh-CN">' in page(full_storage, tmp_path, "zh-CN")
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "index.en.html"}
    assert 'href="index.html"' in (tmp_path / "index.en.html").read_text(encoding="utf-8")


def test_page_is_the_same_every_time(full_storage: Path, tmp_path: Path) -> None:
    """The same storage gives the same bytes."""
    assert page(full_storage, tmp_path / "one") == page(full_storage, tmp_path / "two")


def test_page_asks_for_nothing_outside(written: WrittenReport) -> None:
    """No element loads anything; a link is opened only if the reader presses it."""
    for html in written.html.values():
        assert not re.search(r"<(?:script|img|iframe|object|embed)[^>]* src", html)
        assert re.findall(r'<link[^>]*href="([^"]*)"', html) == ["data:,"]
        assert "@import" not in html
        assert not re.search(r"url\((?!#)", html)
        assert not re.search(r"\b(?:fetch|XMLHttpRequest|import)\s*\(", html)


def test_ids_are_unique_and_references_lead_somewhere(written: WrittenReport) -> None:
    """No id stands twice; every link, label and clipping path finds its element."""
    for html in written.html.values():
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))
        references = re.findall(r'href="#([^"]+)"|aria-labelledby="([^"]+)"|url\(#([^)]+)\)', html)
        assert {name for names in references for name in names if name} <= set(ids)


def test_sections_stand_in_their_order(written: WrittenReport) -> None:
    """The answer is first, the glossary last; all but the answer is folded, with a summary."""
    html = written.html["en"]
    order = sections(html)
    assert order[:2] == ["answer", "dup"]
    assert order[-2:] == ["environment", "glossary"]
    assert order.index("mechanisms") < order.index("programs") < order.index("failures")
    title = r'<details class="folded">\s*<summary><h2>[^<]+<a [^>]+></a></h2>'
    for name in order[1:-1]:
        folded = section(html, name)
        assert re.search(title + r' <span class="summary">\w', folded), name
    for html in written.html.values():
        for words in re.findall(r'<span class="summary">(.*?)</span>', html, re.DOTALL):
            assert not re.search(r"[.。][;\uff1b]", words)


def test_a_first_look_is_short(tmp_path: Path) -> None:
    """A page of one runtime has as many words as one reads in minutes, with its program.

    Its streams are too short for tables of their own.
    """
    infos = []
    for info in first_look(tmp_path):
        if info.scenario == "lean":
            in_place = ("input", "output")
            contexts = [replace(context, zero_copy=in_place) for context in info.plan.contexts]
            info = changed(info, plan=replace(info.plan, contexts=tuple(contexts)))
        infos.append(info)
    for name in ("streams_no_reuse_one_model", "streams_full_dup"):
        infos.append(streams_result(tmp_path, name, [Frames(seconds=2.0)] * 3))
    write_run(tmp_path, infos)
    html = page(tmp_path, tmp_path / "out")
    assert "register_allocator(" in html
    assert "## " + ENGLISH("question_streams") in readable(html)
    assert ENGLISH("section_streams_stages") not in html
    shown = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", html, flags=re.DOTALL)
    assert len(re.sub("<[^>]*>", " ", shown).split()) < 2500


def test_streams_of_one_runtime_beside_layouts_of_another(tmp_path: Path) -> None:
    """The answer explains the layouts of streams that only one of the runtimes has measured."""
    infos = list(first_look(tmp_path))
    for name in ("streams_no_reuse_one_model", "streams_full_dup"):
        streams = streams_result(tmp_path, name, [Frames(seconds=2.0)] * 3)
        infos.append(changed(streams, runtime="ncnn"))
    write_run(tmp_path, infos)
    answer = section(page(tmp_path, tmp_path / "out"), "answer")
    assert answer.count(f"<dt>{ENGLISH.scenario('streams_full_dup')}</dt>") == 1


def test_every_question_has_its_parts(
    npu_storage: Path, written: WrittenReport, tmp_path: Path
) -> None:
    """Each question has its title, its components and a figure."""
    text = page(npu_storage, tmp_path)
    for name in QUESTIONS:
        if name not in ("streams", "plans", "leaks", LIMIT, OPTIONS, SESSIONS):
            of_question = section(text, name)
            assert f"<h2>{ENGLISH(f'question_{name}')}<a " in of_question
            assert f"<summary>{ENGLISH('section_components')}</summary>" in of_question
            assert "<svg" in section(written.html["en"], name)
    assert ENGLISH("section_sharing") in section(text, "mechanisms")


def test_words_of_a_crashed_process_are_text(written: WrittenReport) -> None:
    """Output of a measured process is shown, and is never markup of the page."""
    assert "&lt;script&gt;alert" in written.html["en"]
    assert "<script>alert" not in written.html["en"]


def test_a_lost_trace_costs_only_its_figure(tmp_path: Path) -> None:
    """Without traces the page has all tables, and tells that the timeline is missing."""
    full_run(tmp_path)
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.write_bytes(b"cut")
    html = page(tmp_path, tmp_path / "out")
    assert ENGLISH("timeline_lost") in section(html, "timeline")
    assert "330.0" in section(html, "dup")


def test_virtual_board_says_nothing_of_speed(npu_storage: Path, tmp_path: Path) -> None:
    """Its figures are of NPU memory; the page tells why speed is missing."""
    html = page(npu_storage, tmp_path)
    assert ENGLISH("note_virtual_rknn") in section(html, "measured")
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', html)
    assert {
        ENGLISH("column_npu"),
        ENGLISH("column_npu_saved"),
        ENGLISH("column_baseline_memory"),
    } <= set(heads)
    assert not {
        ENGLISH("column_latency"),
        ENGLISH("column_load"),
        ENGLISH("axis_latency_saved"),
    } & set(heads)
    assert ENGLISH("speed_not_measured") in section(html, "speed")
    assert ENGLISH("answer_speed_virtual") in section(html, "answer")


def test_a_group_can_be_hidden_everywhere(written: WrittenReport) -> None:
    """Each group has a box, and its class is on all its parts, columns and claims."""
    html = written.html["en"]
    for number in range(len(written.material.shown)):
        group = f"g{number}"
        assert f'id="show-{group}" checked' in html
        assert f"html:has(#show-{group}:not(:checked)) .{group} {{ display: none; }}" in html
        assert f'<section class="part {group}">' in section(html, "dup")
        assert f'<tr class="{group}">' in section(html, "claims")
        assert f'<section class="answer {group}">' in section(html, "answer")
        assert f'<tr class="{group}">' in section(html, "answer")


def test_conditions_name_chip_limit_driver_and_library(tmp_path: Path) -> None:
    """If the NPU computes, latency is shown as well as NPU memory."""
    infos = [
        result(tmp_path, name, even(3), npu=npu_account) for name in ("no_reuse", "partial_dup")
    ]
    write_run(tmp_path, [changed(info, npu_memory_limit_bytes=2**29) for info in infos])
    html = page(tmp_path, tmp_path / "out")
    assert ENGLISH("column_latency") in section(html, "dup")
    measured = section(html, "measured")
    conditions = (
        "Chip rk3588. NPU memory limited to 512.00 MiB. NPU driver 0.9.8. Runtime library 1.6.0"
        " (9a7b5d24c@"
    )
    assert conditions in measured
    assert (
        ENGLISH(
            "conditions", target="python", driver="Python 3.11.7", cores=2, streams=4, contexts=3
        )
        in measured
    )


def test_words_of_the_runtime_are_no_ledger(tmp_path: Path) -> None:
    """If the runtime gives the account, the page tells that missing figures are not zero."""
    write_run(tmp_path, [result(tmp_path, "partial_dup", even(3), npu=runtime_account)])
    html = page(tmp_path, tmp_path / "out")
    assert ENGLISH("npu_source_runtime") in section(html, "measured")
    assert ENGLISH("components_runtime_note") in section(html, "dup")
    assert ENGLISH("verified_unknown") in section(html, "mechanisms")
    assert ENGLISH("timeline_npu_note") not in html


def test_findings_are_warnings(tmp_path: Path) -> None:
    """A finding of the ledger is a warning with its remedy."""
    leak = Finding("leak", None, None, None, 2**20)
    write_run(
        tmp_path,
        [
            result(
                tmp_path, "no_reuse", even(3), npu=lambda plan: npu_account(plan, findings=(leak,))
            )
        ],
    )
    (warning,) = re.findall(r'<p class="warning">([^<]*)</p>', page(tmp_path, tmp_path / "out"))
    assert "1.00 MiB of NPU memory were left" in warning
    assert "rknn_destroy_mem" in warning


def test_runs_of_before_have_no_list_of_sources(tmp_path: Path) -> None:
    """Runs that stored no sources of memory figures have no table of sources."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))], machine=machine(memory_sources=()))
    assert ENGLISH("section_sources") not in section(
        page(tmp_path, tmp_path / "out"), "environment"
    )


def test_only_scenarios_of_the_page_are_explained(full_storage: Path, tmp_path: Path) -> None:
    """Scenarios of other questions are not explained, nor streams without any."""
    html = page(full_storage, tmp_path)
    assert ENGLISH("about_full_dup") in section(html, "answer")
    assert ENGLISH("define_application_memory") in section(html, "glossary")
    assert ENGLISH("about_in_turn") not in html
    assert ENGLISH("stream_define_rate") not in html


def test_baselines_alone_show_no_mechanism(tmp_path: Path) -> None:
    """If no mechanism was measured, the page has no table of them."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    assert 'id="mechanisms"' not in page(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("language", LANGUAGES)
def test_equal_scenarios_stand_once(tmp_path: Path, language: str) -> None:
    """Steps to lean that dup has measured are named in its rows."""
    write_run(tmp_path, first_look(tmp_path))
    texts = texts_of(language)
    html = page(tmp_path, tmp_path / "out", language)
    text = section(html, "dup")
    names = " = ".join(texts.scenario(name) for name in ("full_dup", "lean_weights"))
    assert f'<th scope="row">{names}</th>' in text
    assert texts("step_lean_internal") in text
    assert 'id="lean"' not in html
    plain, lean = (f'<th scope="row">{texts.scenario(name)}</th>' for name in ("plain", "lean"))
    assert plain not in html
    assert lean in text
    assert texts("about_plain") not in section(html, "glossary")


def test_equal_layouts_of_streams_stand_once(tmp_path: Path) -> None:
    """A row of streams of video has the names of scenarios that were measured once."""
    streams = streams_result(tmp_path, "streams_no_reuse")
    write_run(tmp_path, [streams, as_measured(streams, "streams_no_reuse_one_model")])
    names = ("streams_no_reuse", "streams_no_reuse_one_model")
    equal = " = ".join(map(ENGLISH.scenario, names))
    assert f'<th scope="row">{equal}</th>' in section(page(tmp_path, tmp_path / "out"), "streams")


def test_unfinished_runs_are_marked(tmp_path: Path) -> None:
    """A run without an end is shown like any other, and its file says so."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))], is_finished=False)
    html = page(tmp_path, tmp_path / "out")
    assert "0001_run.json (no end recorded)" in section(html, "runs")
    assert ENGLISH.scenario("no_reuse") in section(html, "dup")


def test_equal_reasons_stand_once(tmp_path: Path) -> None:
    """Mechanisms that are lacking for one reason share a sentence, and the reason."""
    names = ("external_memory", "external_dma_heap")
    infos = [result(tmp_path, name, [], failure=NOT_SUPPORTED) for name in names]
    write_run(tmp_path, [result(tmp_path, "runtime_memory", even(3)), *infos])
    html = page(tmp_path, tmp_path / "out")
    both = ENGLISH.scenarios(names)
    failures = section(html, "failures")
    assert failures.count(str(NOT_SUPPORTED.message)) == 1
    assert f"<strong>{both}</strong>: not supported: " in failures
    question = section(html, "external_memory")
    assert ENGLISH("answer_not_supported", scenarios=both) in question
    anchor = re.search('href="#(failures-[^"]+)"', question)
    assert anchor
    assert f'<h3 id="{anchor[1]}">' in html


def test_tables_can_be_read_without_a_script(written: WrittenReport) -> None:
    """Every table has a name, heads of columns and of rows, and all its rows, before any script
    runs.
    """
    tables = re.findall(r"<table.*?</table>", written.html["en"], flags=re.DOTALL)
    assert len(tables) > 20
    for table in tables:
        assert re.search(r"<caption[^>]*>[^<]+</caption>", table)
        assert '<th scope="row">' in table
        assert "hidden" not in table
        assert "<button" not in table


def test_the_newest_group_of_each_runtime_stands_on_the_page(tmp_path: Path) -> None:
    """If there are too many groups, the page leaves out older ones, and tells so."""
    count = MOST_SHOWN + 3
    write_run(
        tmp_path,
        [result(tmp_path, "no_reuse", even(3), npu=npu_account)],
        1,
        at="2026-01-01T00:00:00",
    )
    for number in range(2, count + 1):
        info = changed(result(tmp_path, "no_reuse", even(3)), runtime_version=f"1.{number}")
        write_run(tmp_path, [info], number, at=f"2026-01-{number:02}T00:00:00")
    html = page(tmp_path, tmp_path / "out")
    measured = section(html, "measured")
    assert measured.count('type="checkbox"') == MOST_SHOWN
    assert "RKNN 1.6.0" in measured
    assert ENGLISH("groups_left_out", shown=MOST_SHOWN, left_out=3) in measured
    assert section(html, "runs").count("<tr") == count + 1


def test_two_boards_lead_to_both(tmp_path: Path) -> None:
    """A board and a virtual one stand on one page, with what is known of each machine."""
    full_run(tmp_path)
    npu_run(tmp_path, number=2)
    write_run(
        tmp_path, [result(tmp_path, "no_reuse", even(3))], 3, machine=machine(board="another")
    )
    html = page(tmp_path, tmp_path / "out")
    assert ENGLISH("lead_boards", boards="another; board-123456") in html
    assert section(html, "environment").count("<h3 ") == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_how_a_model_was_converted(tmp_path: Path, language: str) -> None:
    """Notes tell source and converter, assumed shapes, and the data of calibration."""
    inputs = (
        InputData("picture", "float32", (1, 3, 64, 64), assumed=(2, 3)),
        InputData("features", "float32", (1, 8), file="/cache/0.npy"),
    )
    conversion = Conversion("/models/net.onnx", "rknn-toolkit2 2.5.0", "INT8", inputs)
    model = Model("net 1x3x64x64 INT8", "/cache/net.rknn", "0" * 64, conversion=conversion)
    with_scales = Model(
        "q INT8", "/cache/q.rknn", "1" * 64, conversion=replace(conversion, is_calibrated=False)
    )
    storage = tmp_path / "storage"
    write_run(storage, [result(storage, "no_reuse", even(12), models=[model, with_scales])])
    shown = readable(page(storage, tmp_path, language))
    texts = texts_of(language)
    for key, values in (
        ("note_converted", {"file": "net.onnx", "by": "rknn-toolkit2 2.5.0"}),
        ("note_shapes", {"inputs": "picture=1x3x64x64"}),
        ("note_calibrated_data", {"inputs": "features"}),
        ("note_calibrated_noise", {"inputs": "picture"}),
    ):
        assert texts(key, model=model.name, **values) in shown
    assert texts("note_calibrated_noise", model=with_scales.name, inputs="picture") not in shown


@pytest.mark.parametrize("language", LANGUAGES)
def test_versions_have_a_section(language: str, tmp_path: Path, full_storage: Path) -> None:
    """If two versions have measured the same, there are sentences and tables."""
    texts = texts_of(language)
    heading = texts("section_versions")
    html = page(three_versions(tmp_path / "storage"), tmp_path / "report", language)
    shown = section(html, "versions")
    assert heading in shown
    for text in (
        "69,632",
        "1.5.2 (aarch64)",
        texts("versions_npu_memory"),
        texts("versions_components"),
    ):
        assert text in shown
    assert heading not in page(full_storage, tmp_path / "other", language)


def test_versions_have_a_figure(tmp_path: Path) -> None:
    """The section shows the figure."""
    material = read_material([three_versions(tmp_path / "storage")], None)
    paths = write_report(material, start_figures(material, ["en"]), tmp_path / "report", "en")
    assert "<svg" in section(paths[0].read_text(encoding="utf-8"), "versions")
