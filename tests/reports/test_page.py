from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape

from reports.page import page_name, write_pages
from reports.published import published_rows
from reports.questions import QUESTIONS
from reports.texts import LANGUAGES, texts_of
from storage.files import BadFile
from tests.reports.stored import MACHINE, even, full_run, npu_account, npu_run, result, runtime_account, write_run
from tests.reports.test_comparison import groups_of


def pages(storage: Path, output: Path) -> list[str]:
    write_pages(groups_of(storage), published_rows(), [BadFile(Path("x/0009_bad.json"), "is cut short")], output)
    return [(output / page_name(language)).read_text(encoding="utf-8") for language in LANGUAGES]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage")
    full_run(folder)
    return folder


@pytest.fixture(scope="module")
def written(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pages(storage, tmp_path_factory.mktemp("report"))


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


def test_virtual_board_says_nothing_of_speed(tmp_path: Path) -> None:
    """Its figures are of NPU memory; the page says why speed and outputs are missing, and shows the baseline."""
    npu_run(tmp_path)
    for html, language in zip(pages(tmp_path, tmp_path / "out"), LANGUAGES):
        texts = texts_of(language)
        assert escape(texts("note_virtual")) in html
        heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', html)
        assert {texts("column_npu"), texts("column_npu_saved"), texts("column_baseline_memory")} <= set(heads)
        assert not {texts("column_latency"), texts("column_throughput"), texts("column_load")} & set(heads)
        assert texts("bars_note") not in html
        assert html.index("<svg") > html.index(texts("section_components"))


def test_every_question_has_its_part(tmp_path: Path) -> None:
    """The scenarios stand below the question that they answer, with NPU memory by component in each."""
    npu_run(tmp_path)
    html = pages(tmp_path, tmp_path / "out")[0]
    titles = re.findall(r"<h3[^>]*>([^<]*)</h3>", html)
    english = texts_of("en")
    assert titles[:5] == [english(f"question_{name}") for name in QUESTIONS]
    assert html.count(f"<h4>{english('section_components')}</h4>") == len(QUESTIONS)
    assert english("section_sharing") in titles


def test_contents_lead_to_every_question(tmp_path: Path) -> None:
    """The list at the top leads to each question of each group; a page of a single question needs none."""
    npu_run(tmp_path)
    html = pages(tmp_path, tmp_path / "out")[0]
    links = re.findall(r'href="#([^"]+)"', html[: html.index("<main>")])
    assert links == ["g0", *(f"g0-{name}" for name in QUESTIONS)]
    assert all(f'id="{link}"' in html for link in links)
    full_run(tmp_path / "cpu")
    assert 'class="contents"' not in pages(tmp_path / "cpu", tmp_path / "out")[0]


def test_a_board_shows_memory_and_speed(tmp_path: Path) -> None:
    """Where the NPU computes, application memory is drawn, and latency stands beside NPU memory."""
    npu_run(tmp_path, computes=True)
    html = pages(tmp_path, tmp_path / "out")[0]
    english = texts_of("en")
    assert english("column_latency") in html
    assert english("axis_application_memory") in html
    assert "Chip rk3588. NPU driver 0.9.8. Runtime library 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)." in html
    assert "<h2>rknn 1.6.0: 4 streams" in html


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


def test_only_scenarios_of_the_page_are_explained(tmp_path: Path) -> None:
    """A page of one question does not explain the scenarios of the others."""
    full_run(tmp_path)
    html = pages(tmp_path, tmp_path / "out")[0]
    english = texts_of("en")
    assert english("about_full_dup") in html
    assert english("about_in_turn") not in html


def test_models_alone_are_not_streams(tmp_path: Path) -> None:
    """A group of models that run in turn is not called streams and contexts."""
    write_run(tmp_path, [result(tmp_path, "in_turn", even(3), npu=npu_account)])
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "<h2>rknn 1.6.0: one context of each model</h2>" in html
