"""Stored runs of one network with both NPU runtimes of a chip, made from chosen figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import ContextMemory
from reusebench.measured.plan import SHARED_CONTEXT, Model, Plan
from reusebench.measured.runtimes.base import Placement
from reusebench.storage.result import Result
from tests.reports.stored import MIB, changed, even, npu_account, result, write_run

RKNN_MODEL = Model("net-224-seed1-rk3588-v1", "/models/net.rknn", "a" * 64, origin="net-224-seed1")
TEFLON_MODEL = Model("net-224-seed1-v1", "/models/net.tflite", "b" * 64, origin="net-224-seed1")
#: NPU memory of a context of Teflon in these runs: 14 MiB in all.
SIZES = {"weights": 8 * MIB, "biases": MIB, "internal": 2 * MIB, "register_commands": MIB}
SIZES["io"] = 2 * MIB
#: Components that a ledger of rocket has none of.
_NOTHING = ("task_list_bytes", "task_list_copy_bytes", "padding_bytes", "other_bytes")
#: One operator on the CPU parts the others.
PLACEMENT = Placement({"CONV_2D": 10, "ADD": 2}, {"SOFTMAX": 1}, 2, MIB // 2)
LAYOUTS = ("no_reuse_one_model", "full_dup", "shared_context", "full_dup_internal_reuse")


def teflon_account(plan: Plan) -> Account:
    """Return the account of contexts that share nothing; a shared context is there once."""
    contexts = []
    for context in plan.contexts:
        is_own = context.mechanism != SHARED_CONTEXT
        sizes = {f"{name}_bytes": size * is_own for name, size in SIZES.items()}
        nothing = dict.fromkeys(_NOTHING, 0)
        contexts.append(ContextMemory(**sizes, **nothing))
    total = sum(context.total_bytes for context in contexts)
    return Account(
        source="ledger",
        contexts=tuple(contexts),
        unattributed_bytes=0,
        total_bytes=total,
        peak_bytes=total,
        left_bytes=0,
        shared=(),
        findings=(),
    )


def rknn_results(
    storage: Path,
    model: Model = RKNN_MODEL,
    layouts: Sequence[str] = LAYOUTS[:2],
    contexts: int = 3,
) -> list[Result]:
    """Return layouts of 4 x `contexts` contexts on the virtual board of Rockchip's library."""
    return [
        result(
            *(storage, name, even(2)),
            models=[model],
            run="rknn",
            npu=npu_account,
            computes=False,
            contexts=contexts,
        )
        for name in layouts
    ]


def teflon_results(
    storage: Path,
    model: Model = TEFLON_MODEL,
    layouts: Sequence[str] = LAYOUTS[:3],
    placement: Placement | None = PLACEMENT,
) -> list[Result]:
    """Return layouts of 12 contexts on the virtual board of the mainline driver."""
    infos = []
    for name in layouts:
        info = result(
            *(storage, name, even(3)),
            models=[model],
            run="teflon",
            npu=teflon_account,
            computes=False,
        )
        placed = {model.digest: placement} if placement else {}
        infos.append(
            changed(
                info,
                runtime="teflon",
                runtime_version="2.3.0 with Mesa 26.1.6",
                driver_version="rocket 1.0.0",
                target="vboard:rocket",
                placements=placed,
                plan=replace(info.plan, runtime="teflon"),
            )
        )
    return infos


def both_stacks(storage: Path) -> None:
    """Write a run of each runtime."""
    write_run(storage, rknn_results(storage), 1)
    write_run(storage, teflon_results(storage), 2, at="2026-01-02T00:00:00")
