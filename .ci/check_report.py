"""Check the report of a quick bench: `python .ci/check_report.py out/report`; 1 if it is wrong."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from reusebench.measured.runtimes import find_runtime
from reusebench.scenarios.catalogue import SCENARIOS, suits

#: Scenarios of the quick bench that ONNX Runtime has no mechanism for, without a GPU.
NOT_SUPPORTED = {
    "external_internal",
    "external_memory",
    "external_dma_heap",
    "external_physical",
    "external_mmz",
    "weight_memory",
    "model_in_place",
    "native_io",
    "native_io_1080p",
    "native_io_4k",
    "device_io",
    "device_io_1080p",
    "device_io_4k",
    "cuda_copied_io",
    "cuda_device_io",
}
#: Scenarios that need more resolutions than a quick bench has; it measures all others.
TOO_FEW_RESOLUTIONS = {"resolutions_3", "shared_weights_3"}
#: Scenarios that fill the NPU's memory; a CPU has none.
FILLING = {scenario.name for scenario in SCENARIOS if scenario.fills}
#: Scenarios that save memory on any machine, without a check of the amount. The internal tensors of
#: two small models that run in turn are less than the noise of some machines.
SAVING = {
    *("partial_dup", "full_dup", "shared_context", "full_dup_internal_reuse"),
    *("shared_weights_2", "shared_weights", "lean_weights", "lean_internal", "lean"),
    *("streams_partial_dup", "streams_full_dup", "streams_full_dup_per_core"),
}


def problems(report: Path) -> list[str]:
    """Return a sentence for each fault of the report."""
    rows = [row for row in _rows(report, "comparison") if row["outcome"] != "published"]
    pages = ("index.html", "index.zh-CN.html")
    wrong = [f"{page} is missing" for page in pages if not (report / page).exists()]
    expected = {}
    for scenario in SCENARIOS:
        if suits(scenario.name, has_conversations=False):
            expected[scenario.name] = "ok"
    for left_out in TOO_FEW_RESOLUTIONS | FILLING:
        expected.pop(left_out)
    expected.update(dict.fromkeys(find_runtime("onnxruntime").options, "ok"))
    expected.update(dict.fromkeys(NOT_SUPPORTED, "not_supported"))
    outcomes = {name: row["outcome"] for row in rows for name in _names(row)}
    for name in sorted(expected.keys() | outcomes.keys()):
        outcome = outcomes.get(name, "missing")
        wanted = expected.get(name, "not to be there")
        if outcome != wanted:
            wrong.append(f"{name} is {outcome} and should be {wanted}")
    saving = [row for row in rows if not SAVING.isdisjoint(_names(row))]
    for row in saving:
        if not _positive(row):
            wrong.append(f"{row['scenario']} saved {row['saved_bytes'] or 'nothing'}")
    explained = {row["scenario"] for row in _rows(report, "explanations")}
    unexplained = {row["scenario"] for row in saving} - explained
    wrong += [f"{scenario} is not explained" for scenario in sorted(unexplained)]
    frames = [row for row in _rows(report, "streams") if row["stream"] == "all"]
    wrong += [f"{row['scenario']} did no frame" for row in frames if not int(row["done"])]
    if not frames:
        wrong.append("no frame of a stream is in the report")
    if not _rows(report, "claims"):
        wrong.append("no claim was judged")
    return wrong


def _rows(report: Path, table: str) -> list[dict[str, str]]:
    with (report / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _names(row: dict[str, str]) -> list[str]:
    """Return the names of the scenario and of its equal scenarios."""
    return [row["scenario"], *row["equal_scenarios"].split()]


def _positive(row: dict[str, str]) -> bool:
    return bool(row["saved_bytes"]) and int(row["saved_bytes"]) > 0


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong) or "the report of the quick bench is as it should be")
    sys.exit(bool(wrong))
