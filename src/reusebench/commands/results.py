"""The results of the commands as JSON, and the JSON schema of the envelope around them.

schema.json is the schema as a file; `pytest tests/commands --update-snapshots` renews it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import msgspec

from reusebench.apply.comparison.document import ComparedProgram
from reusebench.apply.deploy import Deployed
from reusebench.apply.outcome import Outcome
from reusebench.apply.reasons import sentence_for
from reusebench.apply.report import ProcessReport, totals
from reusebench.commands.reply import SCHEMA
from reusebench.reports.compare.exports.document import ExportResult
from reusebench.storage.board_sizes import BoardSizes
from reusebench.storage.fit_answer import FitAnswer
from reusebench.storage.fit_sessions import SessionsAnswer

__all__ = [
    "ApplyResult",
    "BoardResult",
    "BoardRow",
    "CompactionResult",
    "ComparisonResult",
    "DeployResult",
    "HistoryResult",
    "InspectionResult",
    "LibraryOutcome",
    "LibraryRow",
    "MetricRow",
    "NetworkRow",
    "PartRow",
    "PartsResult",
    "PathResult",
    "PlanResult",
    "PruningResult",
    "Record",
    "ReportResult",
    "RunRow",
    "RunsResult",
    "VerificationResult",
    "VersionRow",
    "VersionsResult",
    "WordRow",
    "json_schema",
]

#: A row of a table, by column; columns have their units in their names.
Record = dict[str, Union[str, int, float, bool, None]]


class _Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A result, or a part of one."""


class VersionRow(_Result, frozen=True):
    """A runtime; its version is null if it is not here."""

    name: str
    version: Optional[str]


class MetricRow(_Result, frozen=True):
    """A figure that runs are compared by."""

    name: str
    #: bytes, ns, 1/s, tokens/s or percent.
    unit: str
    less_is_better: bool
    #: Commands that show it without --metric.
    shown_by: list[str]
    #: Exported tables with a column of it.
    tables: list[str]
    title: str
    meaning: str


class WordRow(_Result, frozen=True):
    """A word of the project."""

    name: str
    #: The word in the language.
    word: str
    meaning: str


class RunRow(_Result, frozen=True):
    """A stored run."""

    number: Optional[int]
    name: str
    recorded_at: str
    board: str
    commit: Optional[str]
    is_dirty: bool
    is_finished: bool
    runtimes: list[str]
    #: Numbers of configurations.
    ok: int
    failed: int
    #: With its traces.
    size_bytes: int
    path: str


class RunsResult(_Result, frozen=True):
    """The listed runs, and the number and size of all."""

    runs: list[RunRow]
    total: int
    total_bytes: int


class PruningResult(_Result, frozen=True):
    """What was removed, or would be; and old runs that stay."""

    is_dry_run: bool
    #: Paths.
    runs: list[str]
    other_files: list[str]
    freed_bytes: int
    kept: list[str]


class CompactionResult(_Result, frozen=True):
    """Files that got another form, or would get it, and what stays as it is."""

    is_dry_run: bool
    #: Paths in the new form.
    runs: list[str]
    #: The number of files, traces included, and their sizes.
    files: int
    before_bytes: int
    after_bytes: int
    kept: list[str]


class PartRow(_Result, frozen=True):
    """A part of an installation or a board."""

    subject: str
    name: str
    is_here: bool
    remark: str


class PartsResult(_Result, frozen=True):
    """What works on a target; null: this machine."""

    target: Optional[str]
    parts: list[PartRow]


class NetworkRow(_Result, frozen=True):
    """A network or language model that can be built."""

    name: str
    parameters: int
    #: In float16 for language models, in float32 for others.
    weight_bytes: int
    #: Null for a language model.
    default_size: Optional[int]
    source: str
    #: Null for a network, as what follows.
    context_tokens: Optional[int] = None
    #: In a cache of type f16.
    kv_bytes_per_token: Optional[int] = None


class PathResult(_Result, frozen=True):
    """A file or folder that was made."""

    path: str


class InspectionResult(_Result, frozen=True):
    """The contents of a model file; null: unknown."""

    file: str
    size_bytes: int
    runtime: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    weights: Optional[list[dict[str, Any]]]
    weight_bytes: Optional[int]
    operators: Optional[list[dict[str, Any]]]
    #: Facts that depend on the format.
    facts: dict[str, Any]
    varying: list[str]
    #: Inputs that would be tried first; a value of null is noise.
    assumed: list[dict[str, Any]]
    #: Reasons for which the runtime cannot run it.
    hindrances: list[str]
    mechanisms: list[dict[str, Any]]


class ApplyResult(_Result, frozen=True):
    """What an applied program shared; its own exit code is that of the command."""

    #: Null if a signal has ended it.
    exit_code: Optional[int]
    #: Such as SIGTERM.
    signal: Optional[str]
    #: By process and runtime.
    processes: list[ProcessReport]
    #: Sums over the processes; keys: kinds of what contexts share.
    shared: dict[str, int]
    saved_bytes: dict[str, int]
    #: Key: code of a reason.
    left_alone: dict[str, int]
    #: Sentences for these codes.
    reasons: dict[str, str]
    #: Sentences on what could not be reached.
    remarks: list[str]
    #: Sentences on what the program got of the plan; empty without one.
    plan: list[str]

    @classmethod
    def of(
        cls,
        outcome: Outcome,
        reports: Sequence[ProcessReport],
        remarks: list[str],
        plan: list[str],
    ) -> ApplyResult:
        """Return the result for the reports of a program that has ended."""
        total = totals(reports)
        return cls(
            exit_code=outcome.exit_code,
            signal=outcome.signal_name,
            processes=list(reports),
            shared=total.shared,
            saved_bytes=total.saved_bytes,
            left_alone=total.left_alone,
            reasons={code: sentence_for(code) for code in total.left_alone},
            remarks=remarks,
            plan=plan,
        )


class DeployResult(_Result, frozen=True):
    """A folder with what production needs."""

    path: str
    #: Forms of the library for RKNN: aarch64, armhf, armhf-uclibc.
    forms: list[str]
    #: Key: form; value: the oldest version of the GNU C library that it runs with.
    oldest_glibc: dict[str, str]
    #: Relative to the folder.
    files: list[str]

    @classmethod
    def of(cls, deployed: Deployed) -> DeployResult:
        """Return the result for a folder that was written."""
        return cls(str(deployed.folder), list(deployed.forms), deployed.glibc, list(deployed.files))


class PlanResult(_Result, frozen=True):
    """A plan, or a program with its layout."""

    #: toml, json, c or python.
    language: str
    text: str


class LibraryRow(_Result, frozen=True):
    """A library of Rockchip's."""

    kind: str
    version: str
    architecture: str
    chips: list[str]
    path: str


class LibraryOutcome(_Result, frozen=True):
    """What a session with a library came to."""

    library: LibraryRow
    outcome: str
    is_good: bool
    #: Paths.
    runs: list[str]


class BoardRow(_Result, frozen=True):
    """A board with a name."""

    name: str
    address: str
    folder: Optional[str]
    python: Optional[str]


class BoardResult(_Result, frozen=True):
    """What was done with a board."""

    targets: list[str]
    #: Sentences.
    done: list[str]
    freed_bytes: int = 0


class VerificationResult(_Result, frozen=True):
    """Sizes of NPU buffers on a board, and the expected ones; null: nothing was compared."""

    is_equal: Optional[bool]
    compared: int
    differing: int
    #: Key: scenario; value: the parts that differ.
    differences: dict[str, list[str]]
    measured: BoardSizes
    expected: Optional[BoardSizes]


class ComparisonResult(_Result, frozen=True):
    """Two sides, and what changed between them."""

    base: list[str]
    head: list[str]
    #: How the runs were chosen; empty if the user named them.
    remark: str
    changes: list[Record]
    not_compared: list[dict[str, Any]]
    on_one_side: list[dict[str, Any]]
    #: Limits and their outcomes; null without --fail.
    gate: Optional[dict[str, Any]]


class VersionsResult(_Result, frozen=True):
    """Versions of runtimes side by side, a set for each plan that several have measured."""

    sets: list[dict[str, Any]]


class HistoryResult(_Result, frozen=True):
    """The series over all runs, and where they changed."""

    change_points: list[Record]
    trends: list[Record]
    history: list[Record]
    #: Paths.
    files: list[str]


class ReportResult(_Result, frozen=True):
    """The tables of the report; docs/reference/tables.md has their columns."""

    tables: dict[str, list[Record]]
    #: Paths.
    files: list[str]


#: Key: command; value: the types that its result may have. The result is null after a mistake.
_RESULTS: dict[str, tuple[Any, ...]] = {
    "": (list[VersionRow],),
    "report": (ReportResult,),
    "compare": (ComparisonResult, VersionsResult),
    "history": (HistoryResult,),
    "export": (ExportResult,),
    "runs list": (RunsResult,),
    "runs prune": (PruningResult,),
    "runs compact": (CompactionResult,),
    "runs expand": (CompactionResult,),
    "doctor": (PartsResult,),
    "fit": (FitAnswer, SessionsAnswer),
    "apply": (ApplyResult, ComparedProgram, DeployResult),
    "plan": (PlanResult,),
    "models list": (list[NetworkRow],),
    "models build": (PathResult,),
    "models clip": (PathResult,),
    "models inspect": (InspectionResult,),
    "board add": (BoardResult,),
    "board list": (list[BoardRow],),
    "board remove": (BoardResult,),
    "board clean": (BoardResult,),
    "board install": (BoardResult,),
    "board install-ledger": (BoardResult,),
    "board verify": (VerificationResult,),
    "libraries list": (list[LibraryRow],),
    "libraries run": (list[LibraryOutcome],),
    "metrics": (list[MetricRow],),
    "glossary": (list[WordRow],),
}


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of every reply."""
    kinds = [kind for kinds in _RESULTS.values() for kind in kinds]
    schemas, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    by_kind = dict(zip(map(str, kinds), schemas))
    results = []
    for command, allowed in _RESULTS.items():
        any_of = [*(by_kind[str(kind)] for kind in allowed), {"type": "null"}]
        results.append(
            {
                "if": {"properties": {"command": {"const": command}}},
                "then": {"properties": {"result": {"anyOf": any_of}}},
            }
        )
    text = {"type": "string"}
    texts = {"type": "array", "items": text}
    properties = {
        "schema": {"const": SCHEMA},
        "command": {"description": "Empty: --version.", "type": "string"},
        "version": {"description": "Version of reusebench.", **text},
        "result": {"description": "By command; null after a mistake."},
        "warnings": texts,
        "errors": {"description": "Mistakes; the exit code is not 0.", **texts},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reply of a command of reusebench to --json",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "allOf": results,
        "$defs": definitions,
    }
