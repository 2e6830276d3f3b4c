"""Check the report of a quick bench: `python .ci/check_report.py out/report`; exit code 1 if it is wrong."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

#: The scenarios of the quick bench, and the outcome that each has on ONNX Runtime.
OUTCOMES = {
    "no_reuse": "ok",
    "partial_dup": "ok",
    "no_reuse_one_model": "ok",
    "full_dup": "ok",
    "shared_context": "ok",
    "full_dup_internal_reuse": "not_supported",
}


def problems(report: Path) -> list[str]:
    """Return what is wrong with the report; nothing when it is right."""
    with (report / "tables" / "comparison.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["outcome"] != "published"]
    found = [f"{page} is missing" for page in ("index.html", "index.zh-CN.html") if not (report / page).exists()]
    outcomes = {row["scenario"]: row["outcome"] for row in rows}
    if list(outcomes.items()) != list(OUTCOMES.items()):
        found.append(f"outcomes are {outcomes}")
    # Sharing weights saves something on any machine; how much is not for a check.
    saving = [row for row in rows if row["baseline"] and row["outcome"] == "ok"]
    found += [f"{row['scenario']} saved {row['saved_bytes'] or 'nothing'}" for row in saving if not _positive(row)]
    return found


def _positive(row: dict[str, str]) -> bool:
    return bool(row["saved_bytes"]) and int(row["saved_bytes"]) > 0


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong) or "the report of the quick bench is as it should be")
    sys.exit(bool(wrong))
