"""The section of limits: sentences, table and figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import msgspec
import pytest

from reusebench.accounting.domains import DOMAIN_BYTES, DomainUse
from reusebench.measured.messages import Message, Value
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import read_material
from reusebench.reports.page.index import page_values
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.limit import (
    LIMIT_COLUMNS,
    limit_figure,
    limit_in_words,
    limit_last_words,
    limit_records,
    limit_sentences,
    limit_table,
)
from reusebench.scenarios.catalogue import LIMIT, QUESTIONS
from reusebench.storage.result import ContextLimit, MemoryFigures, Result
from reusebench.targets.outcome import Failure
from tests.reports.stored import MIB, changed, group_of, npu_account, result

ENGLISH = texts_of("en")
_LIBRARY = "E RKNN: failed to malloc npu memory, size: 4061120, flags: 0x2"


def _refused(
    call: str, code: int, name: str, phase: str = "context", words: str = _LIBRARY
) -> Failure:
    """Return the failure of a call of Rockchip's library."""
    values: dict[str, Value] = {"call": call, "code": code, "name": name, "lines": words}
    return Failure("failed", phase, 11, Message("rknn_call_failed_with_lines", values), words)


_INIT = _refused("rknn_init", -6, "RKNN_ERR_MODEL_INVALID")
_DUP = _refused("rknn_dup_context", -4, "RKNN_ERR_MALLOC_FAIL")
_CAUSE = Message("rknn_out_of_memory", {"size": "4061120", "cma": 0, "available": 23596})
_END = Message("process_ended_by_signal", {"signal": "SIGSEGV"})
_CRASH = Failure(
    "crashed",
    "first_inference",
    11,
    Message("process_end_explained", {"cause": _CAUSE, "end": _END}),
    _LIBRARY,
)


def limited(
    folder: Path,
    scenario: str,
    contexts: int,
    failure: Optional[Failure] = _INIT,
    total: Optional[int] = 64 * MIB,
    **changes: Any,
) -> Result:
    """Return a result of `contexts` contexts with 4 MiB of NPU memory and 5 descriptors each."""
    info = result(folder, scenario, [[0] * 12], npu=npu_account, computes=False)
    figures: dict[str, Any] = {
        "contexts": contexts,
        "bound": 32,
        "failure": failure,
        "survived": failure is not _CRASH,
        "afterwards": None,
        "npu_memory_bytes": 4 * MIB * contexts,
        "further_npu_bytes": 4.0 * MIB,
        "npu_after_failure_bytes": 4 * MIB * contexts,
        "npu_left_bytes": 0,
        "domains": (),
        "application_memory_bytes": 90 * MIB,
        "system_available_bytes": 900 * MIB,
        "fd_count": 10 + 5 * contexts,
        "further_fds": 5.0,
        "fd_limit": 1024,
        **changes,
    }
    repeats = tuple(msgspec.structs.replace(repeat, npu=None) for repeat in info.repeats)
    return changed(
        info,
        limit=ContextLimit(**figures),
        plan=info.plan.limited_to(contexts),
        npu_memory_limit_bytes=total,
        # The harness stores no figures here.
        memory=MemoryFigures(**dict.fromkeys(MemoryFigures.__struct_fields__, (None,))),
        repeats=repeats,
    )


def _rows(*infos: Result, folder: Path) -> Sequence[Row]:
    return group_of(folder, *infos).questions[LIMIT]


def _said(*infos: Result, folder: Path) -> list[str]:
    return limit_sentences(_rows(*infos, folder=folder), ENGLISH)


def test_which_mechanism_moves_the_limit(tmp_path: Path) -> None:
    """Sentences tell the contexts without reuse, and the mechanisms that fit more or the same."""
    sentences = _said(
        limited(tmp_path, "limit_no_reuse", 11),
        limited(tmp_path, "limit_zero_copy_io", 11),
        limited(tmp_path, "limit_full_dup", 22, _DUP),
        limited(tmp_path, "limit_lean", 32, None),
        folder=tmp_path,
    )
    assert sentences[0] == "With 64 MiB of NPU memory 11 contexts of model-a fit without reuse."
    assert (
        sentences[1]
        == "What moves the limit: Lean to at least 32 (2.9 times as many); Full dup to 22 (2 times"
        " as many)."
    )
    assert sentences[2] == "What does not move it: Zero-copy input and output."


def test_a_mechanism_alone(tmp_path: Path) -> None:
    """Without its baseline the sentence has the contexts that fit with the mechanism."""
    sentences = _said(limited(tmp_path, "limit_lean", 32, _CRASH), folder=tmp_path)
    assert sentences[0] == "Lean: 32 contexts of model-a fit."


def test_how_the_next_one_fails(tmp_path: Path) -> None:
    """Equal failures stand once; a code that hides a lack of memory is called misleading."""
    sentences = _said(
        limited(tmp_path, "limit_no_reuse", 11),
        limited(tmp_path, "limit_zero_copy_io", 11),
        limited(tmp_path, "limit_full_dup", 22, _DUP),
        limited(tmp_path, "limit_lean", 30, _CRASH),
        folder=tmp_path,
    )
    assert sentences[3:] == [
        (
            "No reuse; Zero-copy input and output: the next one fails: rknn_init returns -6"
            " (RKNN_ERR_MODEL_INVALID) when it is made."
        ),
        (
            "Full dup: the next one fails: rknn_dup_context returns -4 (RKNN_ERR_MALLOC_FAIL) when"
            " it is made."
        ),
        "Lean: the next one fails: the process was ended by SIGSEGV (at its first inference).",
        (
            "No reuse; Zero-copy input and output; Full dup: the contexts that fitted go on; they"
            " ran once more, and were destroyed."
        ),
        "Lean: the process is lost, and all contexts with it.",
        (
            "With No reuse; Zero-copy input and output the return code does not say that memory ran"
            " out. The library's own lines do."
        ),
    ]


def test_the_others_fail_too(tmp_path: Path) -> None:
    """Both failures are told."""
    after = replace_phase(_CRASH, "destroy")
    sentences = _said(
        limited(tmp_path, "limit_no_reuse", 11, _DUP, afterwards=after), folder=tmp_path
    )
    words = "No reuse: then the contexts that fitted fail too: the process was ended by SIGSEGV"
    assert sentences[-1].startswith(words)


def replace_phase(failure: Failure, phase: str) -> Failure:
    """Return the failure in another phase."""
    return Failure(failure.kind, phase, failure.context, failure.message, failure.last_words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contexts": 11, "fd_count": 1020}, "file descriptors: the process may have 1,024 open"),
        ({"contexts": 11, "npu_left_bytes": 3 * MIB}, "3.00 MiB of NPU memory were left"),
        (
            {
                "contexts": 11,
                "domains": (DomainUse(0, MIB, ()), DomainUse(2, DOMAIN_BYTES - 3 * MIB, (1,))),
            },
            (
                "In domain 2 of the NPU's IOMMU, which has 4,096 MiB of addresses, 4,093.00 MiB"
                " were taken and 3.00 MiB left"
            ),
        ),
        ({"contexts": 32, "failure": None}, "no more than 32 were made"),
        ({"contexts": 9, "failure": None}, "less than a tenth of the system's memory"),
    ],
)
def test_remarks(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Remarks tell what ran out other than memory, and why no context failed."""
    said = _said(limited(tmp_path, "limit_no_reuse", **changes), folder=tmp_path)
    assert sum(words in sentence for sentence in said) == 1
    said = _said(limited(tmp_path, "limit_no_reuse", 11), folder=tmp_path)
    assert not any(words in sentence for sentence in said)


def test_not_one_fits(tmp_path: Path) -> None:
    """A failure of the first context is a failure of the scenario."""
    info = limited(tmp_path, "limit_no_reuse", 11)
    failure = Failure("failed", "context", 0, _INIT.message, _LIBRARY)
    failed = changed(info, limit=None, outcome="failed", failure=failure)
    (sentence,) = _said(failed, folder=tmp_path)
    assert sentence.startswith(
        "Until one fails: no reuse: not even one context fits: rknn_init returns -6"
    )
    rows = _rows(failed, folder=tmp_path)
    assert (limit_table(rows, ENGLISH), limit_figure(rows, ENGLISH)) == (None, None)


def test_the_table(tmp_path: Path) -> None:
    """A row has contexts, memory, the memory left below a known limit, and the failure."""
    infos = (
        limited(tmp_path, "limit_no_reuse", 11),
        limited(tmp_path, "limit_lean", 32, None, fd_limit=None),
    )
    rows = _rows(*infos, folder=tmp_path)
    table = limit_table(rows, ENGLISH)
    assert table is not None
    (_, first), (_, last) = table.rows
    failure = "rknn_init returns -6 (RKNN_ERR_MODEL_INVALID) when it is made"
    assert list(first) == [
        "No reuse",
        "11",
        "44.00",
        "20.00",
        "4.00",
        "65 / 1,024",
        failure,
        "go on",
    ]
    assert [last[1], last[5], *last[6:]] == ["≥ 32", "170", "none failed", "-"]
    without = limit_table(
        _rows(limited(tmp_path, "limit_no_reuse", 11, total=None), folder=tmp_path), ENGLISH
    )
    assert without is not None
    assert len(without.heads) == len(table.heads) - 1
    assert limit_last_words(rows, ENGLISH) == [("No reuse", _LIBRARY)]


def test_what_scripts_read(tmp_path: Path) -> None:
    """Each column has its figure; a scenario without a limit has no row."""
    crashed = limited(tmp_path, "limit_no_reuse", 11, _CRASH)
    bounded = limited(tmp_path, "limit_lean", 32, None)
    (first,), (last,) = map(limit_records, _rows(crashed, bounded, folder=tmp_path))
    assert tuple(sorted(first)) == tuple(sorted(LIMIT_COLUMNS))
    words = str(_CRASH.message)
    assert [first[name] for name in LIMIT_COLUMNS[:6]] == [
        11,
        32,
        "crashed",
        "first_inference",
        words,
        False,
    ]
    assert [first[name] for name in LIMIT_COLUMNS[6:]] == [64 * MIB, 44 * MIB, 4 * MIB, 0, 65, 1024]
    assert [last[name] for name in LIMIT_COLUMNS[:6]] == [32, 32, None, None, None, True]
    (row,) = _rows(changed(bounded, limit=None), folder=tmp_path)
    assert limit_records(row) == []


def test_the_summary(tmp_path: Path) -> None:
    """One sentence has the contexts without reuse and with the best mechanism."""
    before = limited(tmp_path, "limit_no_reuse", 11)
    more = limited(tmp_path, "limit_full_dup", 22)
    group = group_of(tmp_path, before, more)
    assert limit_in_words(group.rows, ENGLISH) == "11 contexts without reuse, 22 with Full dup"
    assert (
        limit_in_words(_rows(before, folder=tmp_path), ENGLISH)
        == "11 contexts, whichever mechanism is used"
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_a_section(tmp_path: Path, language: str) -> None:
    """The section stands in every language; no other compares memory of contexts that fit."""
    _rows(
        limited(tmp_path, "limit_no_reuse", 11),
        limited(tmp_path, "limit_full_dup", 22, _DUP),
        folder=tmp_path,
    )
    values = page_values(read_material([tmp_path], None), texts_of(language))
    sections = {section["name"]: section for section in values["sections"]}
    assert set(QUESTIONS) & set(sections) == {LIMIT}
    (part,) = sections[LIMIT]["parts"]
    assert len(part["sentences"]) >= 5
    assert not {"contexts", "timeline", "failures"} & set(sections)
