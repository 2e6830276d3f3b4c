"""Runs of several versions of a library, made from chosen figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from reusebench.accounting.account import Account
from reusebench.measured.plan import DUP, Plan
from reusebench.reports.versions.versions import VersionSet, versions_of
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure
from tests.reports.stored import (
    KILLED,
    MakeAccount,
    account_with,
    changed,
    dup,
    even,
    groups_of,
    npu_account,
    result,
    write_run,
)

#: Additional memory of a dup in the newest version.
MORE_BYTES = 69_632
OLDEST, OLD, NEW = (
    f"{number} (abcdef@2023-12-13T17:32:13)" for number in ("1.5.2", "1.6.0", "2.3.2")
)


def heavier_dups(plan: Plan) -> Account:
    """Return an account in which each dup has more register commands."""
    account = npu_account(plan)
    contexts = []
    for context, memory in zip(plan.contexts, account.contexts):
        size = (memory.register_commands_bytes or 0) + MORE_BYTES * (context.mechanism == DUP)
        contexts.append(msgspec.structs.replace(memory, register_commands_bytes=size))
    return account_with(contexts, account)


def of_version(
    storage: Path,
    version: str,
    architecture: str | None = "aarch64",
    account: MakeAccount = npu_account,
    mib: float = 10,
    failure: Failure | None = None,
) -> list[Result]:
    """Return no reuse and full dup in a version.

    Each context adds `mib`; full dup may fail.
    """
    costs = [] if failure else dup(mib, mib)
    infos = [
        result(
            storage,
            "no_reuse_one_model",
            even(mib),
            npu=npu_account,
            computes=False,
            run=version[:5],
        ),
        result(
            storage,
            "full_dup",
            costs,
            npu=account,
            computes=False,
            failure=failure,
            run=version[:5],
        ),
    ]
    return [changed(info, runtime_version=version, architecture=architecture) for info in infos]


def store_versions(storage: Path, *runs: Sequence[Result]) -> Path:
    """Write a run for each list of results, and return the storage."""
    for number, infos in enumerate(runs, start=1):
        write_run(storage, infos, number, f"2026-01-{number:02}T00:00:00")
    return storage


def three_versions(storage: Path) -> Path:
    """Write three versions, and return the storage; the newest is not the last run.

    They are 1.6.0 for armhf, 2.3.2 with larger dups, and 1.5.2, in which full dup fails.
    """
    return store_versions(
        storage,
        of_version(storage, OLD, "armhf"),
        of_version(storage, NEW, account=heavier_dups, mib=20),
        of_version(storage, OLDEST, failure=Failure("crashed", "context", 2, KILLED)),
    )


def version_set(storage: Path) -> VersionSet:
    """Return the one set of versions of the storage."""
    (versions,) = versions_of(groups_of(storage))
    return versions
