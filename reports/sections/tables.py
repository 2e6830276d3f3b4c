"""The tables of the page: what each shows, in which columns, in the words of a language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accounting.sizes import COMPONENTS
from reports.base.formatting import EMPTY, component_mib, mib, milliseconds, npu_mib, numbers, per_second, percent
from reports.base.messages import in_words
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.application_parts import PARTS, application_parts
from reports.results.memory import component_memory
from reports.results.published import PublishedRow
from reports.results.rows import Group, Row
from reports.sections.contexts import further_costs
from reports.sections.sharing import SharedMemory, shared_memories
from storage.run_file import MachineInfo

#: Every figure of a configuration that a table shows.
COLUMNS: dict[str, Callable[[Row], str]] = {
    "column_npu": lambda row: npu_mib(row.memory("npu_memory_bytes")),
    "column_npu_saved": lambda row: npu_mib(row.npu_saved),
    "column_npu_saved_percent": lambda row: percent(row.npu_saved_percent),
    "column_application": lambda row: mib(row.memory("application_memory_bytes")),
    "column_trimmed": lambda row: mib(row.memory("application_memory_trimmed_bytes")),
    "column_baseline_memory": lambda row: mib(row.memory("baseline_memory_bytes")),
    "column_saved": lambda row: mib(row.saved),
    "column_saved_percent": lambda row: percent(row.saved_percent),
    "column_application_saved": lambda row: mib(row.saved),
    "column_application_saved_percent": lambda row: percent(row.saved_percent),
    "column_saved_over_bytes": lambda row: mib(row.saved_over_baseline),
    "column_saved_over": lambda row: percent(row.saved_over_baseline_percent),
    "column_system": lambda row: mib(_with_noise(row)),
    "column_latency": lambda row: milliseconds(row.latency),
    "column_throughput": lambda row: per_second(row.throughput),
    "column_rss": lambda row: mib(row.memory("application_rss_bytes")),
    "column_peak": lambda row: mib(row.memory("application_peak_rss_bytes")),
    "column_residue": lambda row: mib(row.memory("residue_memory_bytes")),
    "column_load": lambda row: milliseconds(_load(row)),
}

_SPEED = ("column_latency", "column_throughput")
_COMPARISON = (
    "column_application",
    "column_trimmed",
    "column_saved",
    "column_saved_percent",
    "column_saved_over",
    "column_system",
    *_SPEED,
)
_NPU_COMPARISON = ("column_npu", "column_npu_saved", "column_npu_saved_percent", "column_application")
#: Of an NPU whose arithmetic is there.
_BOARD_COMPARISON = (
    *_NPU_COMPARISON,
    "column_application_saved",
    "column_application_saved_percent",
    *_SPEED,
)
#: Of one whose arithmetic is missing: most of application memory is the emulator's.
_VIRTUAL_COMPARISON = (
    *_NPU_COMPARISON,
    "column_baseline_memory",
    "column_saved_over_bytes",
    "column_saved_over",
)
_DETAILS = (
    "column_baseline_memory",
    "column_trimmed",
    "column_saved_over",
    "column_system",
    "column_rss",
    "column_peak",
    "column_residue",
    "column_load",
)


def comparison(group: Group, rows: Sequence[Row], published: Sequence[PublishedRow], texts: Texts) -> Table:
    """Return the comparison of these rows of the group, and the published ones below it."""
    columns = _comparison_columns(group)
    heads = ("column_scenario", "column_models", *columns, "column_against", "column_outcome")
    measured = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                Cell(_model_count(row, texts), False),
                *(Cell(COLUMNS[column](row)) for column in columns),
                Cell(texts.scenario(row.info.baseline) if row.info.baseline and row.measured else EMPTY, False),
                Cell(texts(f"outcome_{row.outcome}"), False),
            ],
        )
        for row in rows
    ]
    return Table([texts(head) for head in heads], measured + [_published(row, columns, texts) for row in published])


def details(group: Group, texts: Texts) -> Table:
    """Return the figures that the comparison has no room for."""
    shown = _comparison_columns(group)
    left_out = {*shown, *(() if group.computes else ("column_load",))}
    columns = [column for column in _DETAILS if column not in left_out]
    rows = [
        (row.outcome, [Cell(_measured_scenario(row, texts), False), *(Cell(COLUMNS[name](row)) for name in columns)])
        for row in group.rows
        if row.measured
    ]
    return Table([texts(head) for head in ("column_scenario", *columns)], rows)


def _measured_scenario(row: Row, texts: Texts) -> str:
    """Return the scenario, with the one of the session whose processes stand for it too."""
    scenario, other = texts.scenario(row.scenario), row.info.measured_as
    return texts("measured_as", scenario=scenario, other=texts.scenario(other)) if other else scenario


def slopes(group: Group, texts: Texts) -> Table:
    """Return what one more context costs, by mechanism."""
    npu = group.has_npu_memory
    rows = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                Cell(texts.words.get(f"mechanism_{cost.mechanism}", cost.mechanism), False),
                *([Cell(npu_mib(cost.npu_slope))] if npu else []),
                Cell(mib(cost.slope)),
                Cell(str(cost.count)),
            ],
        )
        for row in group.rows
        for cost in further_costs(row)
    ]
    figures = ["column_npu_slope"] * npu + ["column_slope"]
    return Table([texts(head) for head in ("column_scenario", "column_mechanism", *figures, "column_count")], rows)


def components(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the NPU memory of these rows by component; None where no row has an account."""
    found = [(row, account) for row in rows if (account := component_memory(row))]
    if not found:
        return None
    shown = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                *(Cell(component_mib(account.sizes[component])) for component in COMPONENTS),
                *(Cell(component_mib(figure)) for figure in (account.total, account.peak, account.left)),
            ],
        )
        for row, account in found
    ]
    heads = [texts("column_in_mib", name=texts(f"component_{name}")) for name in (*COMPONENTS, "total", "peak", "left")]
    return Table([texts("column_scenario"), *heads], shown)


def parts(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the application memory of these rows by part; None where the kernel does not tell them apart."""
    found = [(row, of_row) for row in rows if (of_row := application_parts(row)) and of_row.over]
    if not found:
        return None
    shown = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                *(Cell(mib(figure)) for figure in (of_row.baseline, *of_row.over.values(), of_row.total)),
            ],
        )
        for row, of_row in found
    ]
    heads = [texts("column_in_mib", name=texts(f"part_{name}")) for name in PARTS]
    first = [texts(name) for name in ("column_scenario", "column_baseline_memory")]
    return Table([*first, *heads, texts("column_application")], shown)


def sharing(group: Group, texts: Texts) -> Table | None:
    """Return each memory that contexts share; None where no plan shares any, or none has an account."""
    rows = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                Cell(texts(f"component_{shared.component}"), False),
                Cell(component_mib(shared.size)),
                Cell(str(shared.owner), False),
                Cell(numbers(shared.readers), False),
                Cell(_verified(shared, texts), False),
            ],
        )
        for row in group.rows
        for shared in shared_memories(row)
    ]
    size = texts("column_in_mib", name=texts("column_size"))
    heads = [texts(f"column_{name}") for name in ("scenario", "shared", "owner", "readers", "verified")]
    return Table([*heads[:2], size, *heads[2:]], rows) if rows else None


def environment(machine: MachineInfo, texts: Texts) -> Table:
    """Return what of the machine bears on memory and speed."""
    unknown = texts("environment_unknown")
    rows = [
        ("ok", [Cell(texts(f"environment_{key}"), False), Cell(unknown if value in (None, "") else str(value), False)])
        for key, value in _facts(machine).items()
    ]
    return Table((), rows)


def memory_sources(machine: MachineInfo, texts: Texts) -> Table | None:
    """Return what could be read on the machine; None in runs that were stored before this was noted."""
    rows = [
        (
            "ok",
            [
                Cell(in_words(source.name, texts), False),
                Cell(texts("yes" if source.readable else "no"), False),
                Cell(in_words(source.remark, texts), False),
            ],
        )
        for source in machine.reusebench.memory_sources
    ]
    return Table([texts(f"column_{name}") for name in ("source", "readable", "remark")], rows) if rows else None


def _comparison_columns(group: Group) -> Sequence[str]:
    if not group.has_npu_memory:
        return _COMPARISON if group.computes else [each for each in _COMPARISON if each not in _SPEED]
    return _BOARD_COMPARISON if group.computes else _VIRTUAL_COMPARISON


def _published(row: PublishedRow, columns: Sequence[str], texts: Texts) -> tuple[str, list[Cell]]:
    """Return a published row in the columns of the comparison; its own units are part of its figures."""
    saved = f"{row.saved_bytes / 1e6:,.0f} MB" if row.saved_bytes else EMPTY
    shown = {
        "column_application": f"{row.application_memory_bytes / 1e6:,.0f} MB",
        "column_saved": saved,
        "column_application_saved": saved,
        "column_saved_percent": percent(row.saved_percent),
        "column_application_saved_percent": percent(row.saved_percent),
        "column_system": f"{row.system_memory_bytes / 1e9:,.2f} GB",
    }
    cells = [
        Cell(f"{texts.scenario(row.scenario)} ({row.target})", False),
        Cell(EMPTY, False),
        *(Cell(shown.get(column, EMPTY)) for column in columns),
        Cell(texts.scenario(row.baseline) if row.baseline else EMPTY, False),
        Cell(texts("outcome_published"), False),
    ]
    return "published", cells


def _model_count(row: Row, texts: Texts) -> str:
    if row.models_in_turn:
        return texts("models_in_turn", files=row.info.model_files, streams=row.info.streams)
    return str(len(row.info.models))


def _with_noise(row: Row) -> Figure | None:
    """Return the system memory with the idle noise as its spread, which is mostly the larger."""
    system, noise = row.memory("system_memory_bytes"), row.memory("system_memory_noise_bytes")
    return Figure(system.median, noise.median) if system and noise else None


def _load(row: Row) -> Figure | None:
    medians = [Figure.of(repeat) for repeat in row.info.speed.context_load_ns]
    return Figure.of(figure.median for figure in medians if figure)


def _verified(shared: SharedMemory, texts: Texts) -> str:
    if shared.seen is None:
        return texts("verified_unknown")
    readers = len(shared.readers)
    kind = {0: "verified_none", readers: "verified_all"}.get(shared.seen, "verified_some")
    return texts(kind, seen=shared.seen, readers=readers)


def _facts(machine: MachineInfo) -> dict[str, str | int | None]:
    own = machine.reusebench
    return {
        "board": own.board,
        "board_model": own.board_model,
        "cpu": machine.cpu.get("brand_raw"),
        "usable_cpus": own.usable_cpus,
        "cpu_governor": own.cpu_governor,
        "cpu_max_khz": own.cpu_max_khz,
        "memory_total": f"{own.memory_total_bytes / 2**20:,.0f}",
        "cma_total": f"{own.cma_total_bytes / 2**20:,.0f}" if own.cma_total_bytes else None,
        "page_size_bytes": own.page_size_bytes,
        "transparent_hugepages": own.transparent_hugepages,
        "overcommit_memory": own.overcommit_memory,
        "address_randomisation": own.address_randomisation,
        "swaps": own.swaps,
        "kernel": f"{machine.system} {machine.release} {machine.machine}",
        "npu_driver": own.npu_driver_version,
        "python": machine.python_version,
        "variables": " ".join(f"{key}={value}" for key, value in own.variables.items()),
    }
