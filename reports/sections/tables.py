"""The tables of the page: what each shows, in which columns, in the words of a language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.messages import Message
from reusebench.reports.base.formatting import (
    EMPTY,
    component_mib,
    doubted,
    mib,
    milliseconds,
    per_second,
    percent,
    ranges,
    sized,
    to_the_minute,
    whole_mib,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.breakdown import (
    PAGE_KINDS,
    SharedMemory,
    component_memory,
    domain_memories,
    page_memory,
    shared_memories,
)
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import NPU, OVER_BASELINE
from reusebench.reports.sections.contexts import further_costs
from reusebench.storage.run_file import MachineInfo, StoredResult, StoredRun

#: Every figure of a configuration that a table shows.
FIGURE_COLUMNS: dict[str, Callable[[Row], str]] = {
    "column_npu": lambda row: mib(row.memory(NPU), npu=True),
    "column_npu_saved": lambda row: mib(row.saved(NPU), npu=True),
    "column_npu_saved_percent": lambda row: percent(row.saved_percent(NPU)),
    "column_application": lambda row: mib(row.memory("application_memory_bytes")),
    "column_trimmed": lambda row: mib(row.memory("application_memory_trimmed_bytes")),
    "column_baseline_memory": lambda row: mib(row.memory("baseline_memory_bytes")),
    "column_saved": lambda row: mib(row.saved()),
    "column_saved_percent": lambda row: percent(row.saved_percent()),
    "column_application_saved": lambda row: mib(row.saved()),
    "column_application_saved_percent": lambda row: percent(row.saved_percent()),
    "column_saved_over_bytes": lambda row: mib(row.saved(OVER_BASELINE)),
    "column_saved_over": lambda row: percent(row.saved_percent(OVER_BASELINE)),
    "column_system": lambda row: mib(_system_memory_with_noise(row)),
    "column_latency": lambda row: milliseconds(row.latency),
    "column_throughput": lambda row: per_second(row.throughput),
    "column_rss": lambda row: mib(row.memory("application_rss_bytes")),
    "column_peak": lambda row: mib(row.memory("application_peak_rss_bytes")),
    "column_residue": lambda row: mib(row.memory("residue_memory_bytes")),
    "column_load": lambda row: milliseconds(_load(row)),
    "column_repeats": lambda row: str(len(row.info.repeats)),
}

_SPEED = ("column_latency", "column_throughput")
#: A shortage of memory does not show in them.
_NEVER_SHORT = ("column_npu", "column_npu_saved", "column_npu_saved_percent", "column_repeats")
_COMPARISON = (
    "column_application",
    "column_trimmed",
    "column_saved",
    "column_saved_percent",
    "column_saved_over",
    "column_system",
)
_NPU_COMPARISON = (
    "column_npu",
    "column_npu_saved",
    "column_npu_saved_percent",
    "column_application",
)
#: Of an NPU whose arithmetic is missing: most of application memory is the emulator's, or it lacks
#: what the NPU writes.
_VIRTUAL_COMPARISON = ("column_baseline_memory", "column_saved_over_bytes", "column_saved_over")
_DETAILS = (
    "column_repeats",
    "column_baseline_memory",
    "column_trimmed",
    "column_saved_over",
    "column_system",
    "column_rss",
    "column_peak",
    "column_residue",
    "column_load",
)
#: Characters of a commit's id that are shown.
_COMMIT = 10


def comparison_table(
    group: Group, rows: Sequence[Row], published: Sequence[PublishedRow], texts: Texts
) -> Table:
    """Return the comparison of these rows of the group, and the published ones below it."""
    columns = _comparison_columns(group)
    lines = []
    for row in rows:
        count = str(len(row.info.models))
        if row.models_in_turn:
            count = texts("models_in_turn", files=row.info.model_files, streams=row.info.streams)
        cells = [
            texts.scenario(row.scenario),
            count,
            *_figures(row, columns),
            against(row, texts),
            _outcome(row, texts),
        ]
        lines.append((row.outcome, cells))
    for one in published:
        compared = texts.scenario(one.baseline) if one.baseline else EMPTY
        figures = [one.cell(column) for column in columns]
        name = f"{texts.scenario(one.scenario)} ({one.target})"
        lines.append((PUBLISHED, [name, EMPTY, *figures, compared, texts("outcome_published")]))
    heads = ("column_scenario", "column_models", *columns, "column_against", "column_outcome")
    return Table(heads_of(heads, texts), lines, words=(0, 1, -2, -1))


def details_table(group: Group, texts: Texts) -> Table:
    """Return the figures that are not in the comparison."""
    left_out = {*_comparison_columns(group), *(() if group.computes else ("column_load",))}
    columns = [column for column in _DETAILS if column not in left_out]
    lines = []
    for row in group.rows:
        if row.measured and row.info.plan.cycles is None and not row.info.limit:
            lines.append((row.outcome, [texts.scenario(row.scenario), *_figures(row, columns)]))
    return Table(heads_of(("column_scenario", *columns), texts), lines)


def slopes_table(group: Group, texts: Texts) -> Table:
    """Return what one more context costs, by mechanism."""
    lines = []
    for row in group.rows:
        for cost in further_costs(row):
            mechanism = texts.words.get(f"mechanism_{cost.mechanism}", cost.mechanism)
            npu = [mib(cost.npu_slope, npu=True)] if group.has_npu_memory else []
            cells = [
                texts.scenario(row.scenario),
                mechanism,
                *npu,
                mib(cost.slope),
                str(cost.count),
            ]
            lines.append((row.outcome, cells))
    npu_head = ["column_npu_slope"] if group.has_npu_memory else []
    heads = ("column_scenario", "column_mechanism", *npu_head, "column_slope", "column_count")
    return Table(heads_of(heads, texts), lines, words=(0, 1))


def components_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the NPU memory of these rows by component; None if no row has an account."""
    lines = []
    for row in rows:
        memory = component_memory(row)
        if memory:
            figures = (
                *(memory.sizes[name] for name in COMPONENTS),
                memory.total,
                memory.peak,
                memory.left,
            )
            lines.append(
                (row.outcome, [texts.scenario(row.scenario), *map(component_mib, figures)])
            )
    names = [texts(f"component_{name}") for name in (*COMPONENTS, "total", "peak", "left")]
    heads = [texts("column_scenario"), *(texts("column_in_mib", name=name) for name in names)]
    return Table(heads, lines) if lines else None


def page_kinds_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the application memory of these rows by kind of page; None if the kernel does not
    tell them apart.
    """
    lines = []
    for row in rows:
        memory = page_memory(row)
        if memory and memory.over:
            figures = (memory.baseline, *memory.over.values(), memory.total)
            lines.append((row.outcome, [texts.scenario(row.scenario), *map(mib, figures)]))
    kinds = [texts("column_in_mib", name=texts(f"part_{name}")) for name in PAGE_KINDS]
    heads = [
        texts("column_scenario"),
        texts("column_baseline_memory"),
        *kinds,
        texts("column_application"),
    ]
    return Table(heads, lines) if lines else None


def sharing_table(group: Group, texts: Texts) -> Table | None:
    """Return each memory that contexts share; None if no plan shares any, or none has an
    account.
    """
    lines = []
    for row in group.rows:
        for shared in shared_memories(row):
            size = component_mib(shared.size)
            component = texts(f"component_{shared.component}")
            cells = [
                texts.scenario(row.scenario),
                component,
                size,
                str(shared.owner),
                ranges(shared.readers),
            ]
            lines.append((row.outcome, [*cells, _verified(shared, texts)]))
    heads = heads_of(
        (f"column_{name}" for name in ("scenario", "shared", "owner", "readers", "verified")), texts
    )
    heads.insert(2, texts("column_in_mib", name=texts("column_size")))
    return Table(heads, lines, words=(0, 1, 3, 4, 5)) if lines else None


def domains_table(group: Group, texts: Texts) -> Table | None:
    """Return how full each domain of the NPU's IOMMU was; None if no ledger tells."""
    lines = []
    for row in group.rows:
        for memory in domain_memories(row):
            sizes = [component_mib(memory.peak), component_mib(memory.left)]
            lines.append(
                (
                    row.outcome,
                    [
                        texts.scenario(row.scenario),
                        str(memory.domain),
                        *sizes,
                        ranges(memory.contexts),
                    ],
                )
            )
    heads = heads_of(
        (f"column_{name}" for name in ("scenario", "domain", "taken", "left", "domain_contexts")),
        texts,
    )
    for column in (2, 3):
        heads[column] = texts("column_in_mib", name=heads[column])
    return Table(heads, lines, words=(0, 1, 4)) if lines else None


def environment_table(machine: MachineInfo, texts: Texts) -> Table:
    """Return what of the machine bears on memory and speed."""
    own = machine.reusebench
    facts = {
        "board": own.board,
        "board_model": own.board_model,
        "cpu": machine.cpu.brand_raw,
        "usable_cpus": own.usable_cpus,
        "cpu_governor": own.cpu_governor,
        "cpu_max_khz": own.cpu_max_khz,
        "memory_total": whole_mib(own.memory_total_bytes),
        "cma_total": whole_mib(own.cma_total_bytes) if own.cma_total_bytes else None,
        "page_size_bytes": own.page_size_bytes,
        "transparent_hugepages": own.transparent_hugepages,
        "overcommit_memory": own.overcommit_memory,
        "address_randomisation": own.address_randomisation,
        "swaps": own.swaps,
        "kernel": f"{machine.system} {machine.release} {machine.machine}",
        "npu_driver": own.npu_driver_version,
        "python": machine.python_version,
        **({"reader": sized(own.reader_bytes)} if own.reader_bytes else {}),
        **({"exposure": own.exposure} if own.exposure else {}),
        "variables": " ".join(f"{name}={value}" for name, value in own.variables.items()),
    }
    lines = []
    for name, fact in facts.items():
        shown = texts("environment_unknown") if fact in (None, "") else str(fact)
        lines.append(("ok", [texts(f"environment_{name}"), shown]))
    return Table((), lines, words=(0, 1))


def memory_sources_table(machine: MachineInfo, texts: Texts) -> Table | None:
    """Return what could be read on the machine; None in runs that were stored before this was
    noted.
    """
    lines = []
    for source in machine.reusebench.memory_sources:
        readable = texts("yes" if source.readable else "no")
        lines.append(("ok", [source.name, readable, texts.message(source.remark)]))
    heads = heads_of((f"column_{name}" for name in ("source", "readable", "remark")), texts)
    return Table(heads, lines, words=(0, 1, 2)) if lines else None


def runs_table(files: Sequence[StoredRun], texts: Texts) -> Table | None:
    """Return a row for each runtime and each recorded program of a run, newest first; None without
    runs.
    """
    lines = []
    for file in sorted(files, key=lambda file: file.order, reverse=True):
        measured: list[tuple[str, str, list[str]]] = []
        of_runtimes: dict[tuple[str, str, str], list[StoredResult]] = {}
        for result in file.results:
            version = (result.info.runtime_version or EMPTY).partition(" ")[0]
            of_runtimes.setdefault((result.info.runtime, version, result.info.target), []).append(
                result
            )
        for (runtime, version, target), results in of_runtimes.items():
            outcomes = [result.info.outcome for result in results]
            measured.append((f"{texts.runtime(runtime)} {version}", target, outcomes))
        for program in file.programs:
            measured.append((texts("program_run", name=program.name), EMPTY, [program.outcome]))
        name = file.file_name if file.is_finished else texts("run_unfinished", file=file.file_name)
        for subject, target, outcomes in measured:
            ok = outcomes.count("ok")
            lacking = outcomes.count("not_supported")
            counts = [str(count) for count in (ok, lacking, len(outcomes) - ok - lacking)]
            cells = [to_the_minute(file.recorded_at), name, file.board, subject, target, *counts]
            lines.append(("ok", [*cells, (file.commit.id or EMPTY)[:_COMMIT]]))
    names = (
        "date",
        "file",
        "board",
        "runtime",
        "target",
        "measured",
        "lacking",
        "failed",
        "commit",
    )
    heads = heads_of((f"column_run_{name}" for name in names), texts)
    return Table(heads, lines, words=(0, 1, 2, 3, 4, 8)) if lines else None


def against(row: Row, texts: Texts) -> str:
    """Return the name of the row's baseline."""
    baseline = row.baseline.scenario if row.baseline else row.info.baseline
    return texts.scenario(baseline) if baseline and row.measured else EMPTY


def _figures(row: Row, columns: Sequence[str]) -> list[str]:
    """Return the cells of these columns; where memory was short, figures that it falsifies are
    marked.
    """
    cells = []
    for column in columns:
        is_short = row.is_compared_with_short if "saved" in column else row.is_short
        cells.append(doubted(FIGURE_COLUMNS[column](row), is_short and column not in _NEVER_SHORT))
    return cells


def _outcome(row: Row, texts: Texts) -> str:
    outcome = texts(f"outcome_{row.outcome}")
    return outcome_in_words(outcome, row.info.shortage_signs, texts)


def outcome_in_words(outcome: str, signs: Sequence[Message], texts: Texts) -> str:
    """Return the outcome, and what shows that memory was short."""
    return (
        texts("outcome_short", outcome=outcome, signs=_in_words(signs, texts)) if signs else outcome
    )


def short_row(name: str, signs: Sequence[Message], texts: Texts) -> str:
    """Return what was measured while memory was short, and what shows that."""
    return texts("short_row", scenario=name, signs=_in_words(signs, texts))


def _in_words(signs: Sequence[Message], texts: Texts) -> str:
    return texts("list_separator").join(map(texts.message, signs))


def _comparison_columns(group: Group) -> Sequence[str]:
    if not group.has_npu_memory:
        return (*_COMPARISON, *_SPEED) if group.computes else _COMPARISON
    if not group.computes:
        return (*_NPU_COMPARISON, *_VIRTUAL_COMPARISON)
    return (
        *_NPU_COMPARISON,
        "column_application_saved",
        "column_application_saved_percent",
        *_SPEED,
    )


def _system_memory_with_noise(row: Row) -> Figure | None:
    """Return the system memory with the idle noise as its spread, which is mostly the larger."""
    system = row.memory("system_memory_bytes")
    noise = row.system_noise_bytes
    return Figure(system.median, noise) if system and noise is not None else None


def _load(row: Row) -> Figure | None:
    medians = [Figure.of(repeat) for repeat in row.info.speed.context_load_ns]
    return Figure.of(figure.median for figure in medians if figure)


def _verified(shared: SharedMemory, texts: Texts) -> str:
    if shared.seen is None:
        return texts("verified_unknown")
    readers = len(shared.readers)
    kind = {0: "verified_none", readers: "verified_all"}.get(shared.seen, "verified_some")
    return texts(kind, seen=shared.seen, readers=readers)
