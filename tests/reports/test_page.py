from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape

from reports.material import Material
from reports.page import page_name, write_pages
from reports.published import published_rows
from reports.questions import QUESTIONS
from reports.texts import LANGUAGES, texts_of
from storage.files import BadFile
from tests.reports.stored import (
    MACHINE,
    NOT_SUPPORTED,
    even,
    full_run,
    npu_account,
    npu_run,
    result,
    runtime_account,
    tried,
    write_run,
)
from tests.reports.test_comparison import groups_of


def pages(storage: Path, output: Path) -> list[str]:
    bad_file = BadFile(Path("x/0009_bad.json"), "is cut short")
    write_pages(Material(groups_of(storage), published_rows(), [tried()], [bad_file]), output)
    return [(output / page_name(language)).read_text(encoding="utf-8") for language in LANGUAGES]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage")
    full_run(folder)
    return folder


@pytest.fixture(scope="module")
def written(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pages(storage, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the pages of a virtual board."""
    folder = tmp_path_factory.mktemp("virtual")
    npu_run(folder)
    return pages(folder, folder / "out")


def test_page_is_the_same_every_time(storage: Path, written: list[str], tmp_path: Path) -> None:
    """The same storage gives the same bytes."""
    assert pages(storage, tmp_path) == written


def test_page_asks_for_nothing_outside(written: list[str]) -> None:
    """No element of the page loads anything: no script, no address but the other language's page."""
    for html in written:
        assert "<script" not in html
        loaded = re.findall(r'(?:src|href)="([^"#]+)"', html)
        assert set(loaded) <= {"data:,", *map(page_name, LANGUAGES)}
        assert "@import" not in html
        assert not re.search(r"url\((?!#)", html)


def test_ids_are_unique(written: list[str]) -> None:
    """Figures that stand in one page share no id, so none takes another's clipping path."""
    for html in written:
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))


def test_words_of_a_crashed_process_are_text(written: list[str]) -> None:
    """What a measured process wrote is shown, and is never markup of the page."""
    assert "SIGSEGV" in written[0]
    assert "&lt;script&gt;alert" in written[0]


def test_bad_files_are_named(written: list[str]) -> None:
    """A stored file that could not be read is named in the page, with the reason."""
    for html in written:
        assert "0009_bad.json: is cut short" in html


def test_a_lost_trace_costs_only_its_figure(tmp_path: Path) -> None:
    """Without the traces the page has all its tables, and says that the timeline is missing."""
    full_run(tmp_path)
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.write_bytes(b"cut")
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "traces of this group are not in the storage" in html
    assert "330.0" in html


def test_virtual_board_says_nothing_of_speed(virtual: list[str]) -> None:
    """Its figures are of NPU memory; the page says why speed and outputs are missing, and shows the baseline."""
    for html, language in zip(virtual, LANGUAGES):
        texts = texts_of(language)
        assert escape(texts("note_virtual")) in html
        heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', html)
        assert {texts("column_npu"), texts("column_npu_saved"), texts("column_baseline_memory")} <= set(heads)
        assert not {texts("column_latency"), texts("column_throughput"), texts("column_load")} & set(heads)
        assert texts("bars_note") not in html
        group = html[html.index('<section id="g0">') :]
        assert group.index("<svg") > group.index(texts("section_components"))


def test_every_question_has_its_part(virtual: list[str]) -> None:
    """The scenarios stand below the question that they answer, with NPU memory by component in each."""
    html = virtual[0]
    titles = re.findall(r"<h3[^>]*>([^<]*)</h3>", html)
    english = texts_of("en")
    assert titles[: len(QUESTIONS)] == [english(f"question_{name}") for name in QUESTIONS]
    assert html.count(f"<h4>{english('section_components')}</h4>") == len(QUESTIONS)
    assert english("section_sharing") in titles


def test_contents_lead_to_every_question(virtual: list[str], written: list[str]) -> None:
    """The list at the top leads to each question of each group; a page of a single question needs none."""
    html = virtual[0]
    links = re.findall(r'href="#([^"]+)"', html[: html.index("<main>")])
    assert links == ["g0", *(f"g0-{name}" for name in QUESTIONS)]
    assert all(f'id="{link}"' in html for link in links)
    assert 'class="contents"' not in written[0]


def test_a_board_shows_memory_and_speed(tmp_path: Path) -> None:
    """Where the NPU computes, application memory is drawn, and latency stands beside NPU memory."""
    write_run(tmp_path, [result(tmp_path, name, even(3), npu=npu_account) for name in ("no_reuse", "partial_dup")])
    html = pages(tmp_path, tmp_path / "out")[0]
    english = texts_of("en")
    assert english("column_latency") in html
    assert english("axis_application_memory") in html
    assert "Chip rk3588. NPU driver 0.9.8. Runtime library 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)." in html
    assert "<h2>RKNN 1.6.0: 4 streams" in html


def test_words_of_the_runtime_are_no_ledger(tmp_path: Path) -> None:
    """Where the runtime itself gives the account, the page says so, and that what it does not tell is not zero."""
    write_run(tmp_path, [result(tmp_path, "partial_dup", even(3), npu=runtime_account)])
    html = pages(tmp_path, tmp_path / "out")[0]
    english = texts_of("en")
    for key in ("npu_source_runtime", "components_runtime_note"):
        assert escape(english(key)) in html
    assert english("verified_unknown") in html
    assert english("timeline_npu_note") not in html


def test_findings_are_warnings(tmp_path: Path) -> None:
    """What the ledger found stands as a warning with its remedy."""
    finding = {"kind": "leak", "context": None, "buffer": None, "owner": None, "amount": 2**20}
    info = result(tmp_path, "no_reuse", even(3), npu=lambda plan: npu_account(plan, findings=[finding]))
    write_run(tmp_path, [info])
    (warning,) = re.findall(r'<p class="warning">([^<]*)</p>', pages(tmp_path, tmp_path / "out")[0])
    assert "1.00 MiB of NPU memory were left" in warning
    assert "rknn_destroy_mem" in warning


def test_sources_that_need_root_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment lists what could be read and what not; runs of before have no such list."""
    full_run(tmp_path)
    english = texts_of("en")
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "/sys/kernel/debug/dma_buf/bufinfo" in html
    assert "needs root" in html
    monkeypatch.delitem(MACHINE["reusebench"], "memory_sources")
    full_run(tmp_path)
    assert f"<h3>{english('section_sources')}</h3>" not in pages(tmp_path, tmp_path / "out")[0]


def test_only_scenarios_of_the_page_are_explained(written: list[str]) -> None:
    """A page of one question does not explain the scenarios of the others."""
    html = written[0]
    english = texts_of("en")
    assert english("about_full_dup") in html
    assert english("about_in_turn") not in html


def test_models_alone_are_not_streams(tmp_path: Path) -> None:
    """A group of models that run in turn is not called streams and contexts."""
    write_run(tmp_path, [result(tmp_path, "in_turn", even(3), npu=npu_account)])
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "<h2>RKNN 1.6.0: one context of each model</h2>" in html


def test_mechanisms_stand_before_the_runtimes(virtual: list[str]) -> None:
    """What each mechanism saves, and which runtime has it, comes first, with the reasons to be unfolded."""
    english = texts_of("en")
    top = virtual[0][: virtual[0].index('<section id="g0">')]
    assert escape(english("axis_saved_percent")) in top
    assert f"<summary>{english('mechanisms_reasons')}</summary>" in top
    assert "no allocator &lt;from&gt; Python" in top
    assert english("mechanisms_none") not in top


def test_without_trials_the_page_says_how_to_make_them(tmp_path: Path) -> None:
    """A storage without trials gives a page that names the command."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    write_pages(Material(groups_of(tmp_path), published_rows()), tmp_path / "out")
    html = (tmp_path / "out" / page_name("en")).read_text(encoding="utf-8")
    assert escape(texts_of("en")("mechanisms_none")) in html
    assert "<details>" not in html[: html.index('<section id="g0">')]


def test_equal_reasons_stand_once(tmp_path: Path) -> None:
    """What a runtime lacks for one reason is named in one sentence of the question, and once with the reason."""
    names = ("external_memory", "external_dma_heap")
    infos = [result(tmp_path, name, [], failure=NOT_SUPPORTED) for name in names]
    write_run(tmp_path, [result(tmp_path, "runtime_memory", even(3)), *infos])
    english = texts_of("en")
    html = pages(tmp_path, tmp_path / "out")[0]
    assert html.count(str(escape(NOT_SUPPORTED["message"]))) == 1
    both = "; ".join(map(english.scenario, names))
    assert english("answer_not_supported", scenarios=both) in html
    assert f"<strong>{both}</strong>: not supported: " in html
    assert 'href="#g0-failures"' in html
    assert 'id="g0-failures"' in html


def test_copies_have_their_table(virtual: list[str]) -> None:
    """The question of copies has its table; where nothing computes, latency is no part of it."""
    english = texts_of("en")
    assert virtual[0].count(f"<h4>{english('section_copies')}</h4>") == 1
    assert english("axis_latency_saved") not in virtual[0]
    assert english("column_avoided") in virtual[0]
