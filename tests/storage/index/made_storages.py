"""Storages with runs of all kinds, made by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from reusebench.measured.messages import Message
from reusebench.storage.result import Result
from reusebench.storage.run_file import Commit
from tests.reports.stored import (
    FAILED,
    MACHINE,
    MODELS,
    as_measured,
    changed,
    even,
    npu_account,
    result,
    with_memory,
    with_short_memory,
    with_speed,
    write_run,
)
from tests.reports.stored_programs import Repeat, program

_SIGNS = (Message("shortage_evicted", {"mib": "30.0"}),)


def results_of_all_kinds(storage: Path) -> list[Result]:
    """Return results of all kinds, with traces in the storage."""
    plain = result(storage, "no_reuse", even(10, spread=0.3), run="0123456789ab")
    own = result(storage, "no_reuse_one_model", even(10), run="0123456789ac")
    two = result(storage, "no_reuse", even(10, repeats=2), models=MODELS[:2])
    lacking = [None, *plain.memory.residue_memory_bytes[1:]]
    return [
        plain,
        own,
        as_measured(own, "plain"),
        with_speed(two, latency_median_ns=[None] * 2, model_latency_ns=[(1, 100), (3, 104)]),
        result(storage, "full_dup", [], failure=FAILED),
        with_short_memory(result(storage, "full_dup", even(7))),
        changed(with_memory(plain, application_pss_bytes=[]), counted_by="pss"),
        with_memory(plain, residue_memory_bytes=lacking),
        changed(plain, npu_memory_limit_bytes=2**40, python_version="3.9 'old'; \\ \u4e2d\u6587"),
        result(storage, "no_reuse", even(9), npu=npu_account, computes=False, run="npu"),
    ]


def make_storage(storage: Path, kinds: Sequence[Result], chance: random.Random, runs: int) -> None:
    """Write runs with some of the results: with wrong clocks, without end, and damaged ones."""
    phases = [{"load": 3.5, "steady": chance.random() * 50}, {"load": 4.0}]
    programs = [
        program("decoder", [Repeat(phase) for phase in phases]),
        program(
            "player", [Repeat({"play": 9}, signs=_SIGNS)], outcome=chance.choice(["ok", "hung"])
        ),
    ]
    for number in range(1, runs + 1):
        infos = chance.sample(kinds, chance.randint(0, len(kinds)))
        year = chance.choice([1970, 2026, 2026, 2027])
        path = write_run(
            storage,
            [info for info in infos if info.measured_as is None or kinds[1] in infos],
            number,
            at=f"{year}-01-{chance.randint(1, 28):02}T03:04:05",
            commit=chance.choice(
                [Commit(), Commit(id="unversioned"), Commit(id="abc", dirty=True)]
            ),
            machine=MACHINE,
            is_finished=chance.random() > 0.2,
            programs=chance.sample(programs, chance.randint(0, 2)),
        )
        fate = chance.random()
        if fate < 0.1:
            path.write_bytes(path.read_bytes()[:-40])
        elif fate < 0.2:
            path.write_text('{"machine_info": {}}')
        elif fate < 0.3:
            path.rename(path.with_name(chance.choice(["copy.json", f"{number}_\udcff.json"])))
