"""What a report is made from: everything that its page and its tables tell of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.results.published import PublishedRow
from reports.results.rows import Group
from reports.sections.programs import RecordedProgram
from storage.run_file import BadFile, StoredRun


@dataclass(frozen=True)
class Material:
    """What was found in a storage, and what others have published."""

    #: Newest first.
    groups: Sequence[Group]
    published: Sequence[PublishedRow] = ()
    bad_files: Sequence[BadFile] = ()
    #: Every run that could be read, also where a newer one stands in the groups.
    files: Sequence[StoredRun] = ()
    #: Recordings of programs that the page shows, newest first.
    programs: Sequence[RecordedProgram] = ()
