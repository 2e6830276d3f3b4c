"""The machines that runs were measured on."""

from __future__ import annotations

from reusebench.reports.base.formatting import sized, whole_mib
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.storage.run_file import MachineInfo, StoredRun


class EnvironmentSection(Section):
    """Each board, and the sources of memory figures that it has."""

    name = "environment"
    needs_groups = False

    def summary(self, page: Page) -> str:
        """Return the boards."""
        return page.texts.joined(file.board for file in _newest_by_board(page))

    def values(self, page: Page) -> Values:
        """Return facts and memory sources of each board on the page."""
        boards = [
            {
                "name": file.board,
                "facts": environment_table(file.machine, page.texts),
                "sources": memory_sources_table(file.machine, page.texts),
            }
            for file in _newest_by_board(page)
        ]
        return {"boards": boards}


def _newest_by_board(page: Page) -> list[StoredRun]:
    """Return the newest run of each board, the newest first."""
    newest = {program.file.board: program.file for program in reversed(page.material.programs)}
    newest |= {group.board: group.newest for group in reversed(page.groups)}
    return list(reversed(newest.values()))


def environment_table(machine: MachineInfo, texts: Texts) -> Table:
    """Return the facts about a machine that people compare; its stored runs have all."""
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
        "transparent_hugepages": own.transparent_hugepages,
        "swaps": own.swaps,
        "kernel": f"{machine.system} {machine.release} {machine.machine}",
        "npu_driver": own.npu_driver_version,
        "python": machine.python_version,
    }
    if own.memory_limit_bytes:
        facts["memory_limit"] = whole_mib(own.memory_limit_bytes)
    if own.reader_bytes:
        facts["reader"] = sized(own.reader_bytes)
    if own.exposure:
        facts["exposure"] = own.exposure
    facts["variables"] = " ".join(f"{name}={value}" for name, value in own.variables.items())
    lines = []
    for name, fact in facts.items():
        if fact not in (None, ""):
            lines.append(("ok", [texts(f"environment_{name}"), str(fact)]))
    return Table((), lines, words=(0, 1))


def memory_sources_table(machine: MachineInfo, texts: Texts) -> Table | None:
    """Return the sources of memory figures that cannot be read; None if there are none."""
    lines = []
    for source in machine.reusebench.memory_sources:
        if source.readable:
            continue
        lines.append(("ok", [source.name, texts.message(source.remark)]))
    if not lines:
        return None
    heads = heads_of(("column_source", "column_remark"), texts)
    return Table(heads, lines, words=(0, 1))
