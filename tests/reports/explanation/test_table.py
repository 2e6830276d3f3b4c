from __future__ import annotations

from pathlib import Path

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.explanation.sentences import explanation_sentences
from reusebench.reports.explanation.table import explanation_table
from reusebench.reports.results.rows import Row
from tests.reports.explanation.test_explanation import with_more
from tests.reports.stored import (
    MIB,
    even,
    groups_of,
    npu_account,
    result,
    write_run,
)

ENGLISH = texts_of("en")


def npu_rows(storage: Path) -> tuple[Row, ...]:
    """Return no reuse, full dup with 1/16 MiB less of register commands, and a wrong zero copy."""
    less = with_more("register_commands", -MIB // 16, range(1, 12))
    accounts = {
        "no_reuse_one_model": npu_account,
        "full_dup": less,
        "copied_io": npu_account,
        "zero_copy_io": with_more("io", MIB, range(12)),
    }
    write_run(
        storage, [result(storage, name, even(3), npu=account) for name, account in accounts.items()]
    )
    return groups_of(storage)[0].rows


def test_a_row_has_claim_prediction_and_measurement(tmp_path: Path) -> None:
    """NPU memory has two decimals, wrong components are named, and zero copy has no claim."""
    table = explanation_table(npu_rows(tmp_path), ENGLISH)
    assert table is not None
    basis = "the plan and the baseline's account"
    assert [list(cells) for _, cells in table.rows] == [
        [
            "Full dup",
            "91.7",
            "66.00",
            "55.0",
            "66.69 ±0.00",
            "55.6",
            "-0.69 ±0.00",
            "-0.6",
            "register commands -0.69",
            basis,
        ],
        [
            "Zero-copy input and output",
            "-",
            "0.00",
            "0.0",
            "-12.00 ±0.00",
            "-10.0",
            "12.00 ±0.00",
            "10.0",
            "input and output +12.00",
            basis,
        ],
    ]
    assert len(table.heads) == len(table.rows[0][1])


def test_baselines_need_no_explanation(tmp_path: Path) -> None:
    """Without a comparison there is no table, no sentence and no summary."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))])
    groups = groups_of(tmp_path)
    assert explanation_table(groups[0].rows, ENGLISH) is None
    assert explanation_sentences(groups[0].rows, ENGLISH) == []


def test_languages_explain_the_same(tmp_path: Path) -> None:
    """Every language has the same number of rows and sentences, with the same figures."""
    rows = npu_rows(tmp_path)
    tables = [explanation_table(rows, texts_of(language)) for language in LANGUAGES]
    numbers = [[list(cells[1:8]) for _, cells in table.rows] for table in tables if table]
    assert len(numbers) == len(LANGUAGES)
    assert all(of_language == numbers[0] for of_language in numbers)
    counts = {len(explanation_sentences(rows, texts_of(language))) for language in LANGUAGES}
    assert len(counts) == 1
