"""The section of answers of `reusebench fit`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.sections.fit import fit_sentences
from reusebench.storage.fit_answer import FitAnswer, FitPatch, read_answers
from tests.reports.stored import MIB
from tests.reports.stored_kinds import KINDS


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_patch_is_no_layout(tmp_path: Path, language: str) -> None:
    """The sentence has the memory with each number of open files; without patches it is missing."""
    KINDS["fit"](tmp_path)
    (answer,) = read_answers(tmp_path)
    assert isinstance(answer, FitAnswer)
    patches = [FitPatch("Mesa", files, size * MIB, {}) for files, size in ((3, 8), (1, 6))]
    patched = msgspec.structs.replace(answer, patches=tuple(patches))
    plain = msgspec.structs.replace(answer, patches=())
    texts = texts_of(language)
    (added,) = set(fit_sentences(patched, texts)) - set(fit_sentences(plain, texts))
    parts = [
        texts("fit_patch_of", open_files=3, size="8.00"),
        texts("fit_patch_of", open_files=1, size="6.00"),
    ]
    assert added == texts("fit_patch", driver="Mesa", parts=texts.joined(parts))
