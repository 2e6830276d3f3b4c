"""The notebook of the documentation, run for real on small stored runs."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.support import CHECKOUT
from tests.reports.compare.stored_traces import npu_result
from tests.reports.stored import changed, dup, even, result, write_run

pytestmark = pytest.mark.process

_NOTEBOOK = CHECKOUT / "docs" / "how-to" / "results.ipynb"
#: A kernel starts, and imports pandas and matplotlib.
_TIME_LIMIT_S = 300


@pytest.fixture(scope="module")
def notebook() -> Any:
    """Return the notebook as it is in the checkout."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install -e '.[dev]'")
    return nbformat.read(_NOTEBOOK, as_version=4)


def _storage(folder: Path, on_npu: bool) -> Path:
    """Return a storage with two runs, in which something failed."""
    for number in (1, 2):
        infos = [
            result(folder, "no_reuse_one_model", even(40, spread=0.5), run=f"run{number}"),
            result(folder, "full_dup", dup(40, 10 * number), run=f"run{number}"),
        ]
        if on_npu:
            infos.append(
                changed(npu_result(folder, run=f"run{number}"), baseline="no_reuse_one_model")
            )
        write_run(folder, infos, number)
    return folder


def _run(notebook: Any, storage: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run the notebook on the storage; return, per cell, the types and texts of its outputs."""
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install -e '.[dev]'")
    pytest.importorskip("ipykernel", reason="needs ipykernel: pip install -e '.[dev]'")
    monkeypatch.setenv("REUSEBENCH_STORAGE", str(storage))
    monkeypatch.setenv("PYTHONPATH", f"{CHECKOUT / 'src'}")
    monkeypatch.setenv("PYTHONWARNINGS", "error::FutureWarning,error::UserWarning:__main__")
    ran = copy.deepcopy(notebook)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Jupyter's own libraries
        nbclient.NotebookClient(ran, timeout=_TIME_LIMIT_S, kernel_name="python3").execute(
            cwd=str(storage)
        )
    outputs = {}
    for cell in ran.cells:
        texts = []
        for output in cell.get("outputs", []):
            texts += [
                str(output.get("name", "")),
                *output.get("data", {}),
                output.get("data", {}).get("text/plain", ""),
            ]
        outputs[cell.id] = "\n".join(texts)
    return outputs


def test_it_has_no_outputs(notebook: Any) -> None:
    """The notebook in the checkout has no output of a machine."""
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize(
    "on_npu", [pytest.param(False, id="cpu", marks=pytest.mark.slow), pytest.param(True, id="npu")]
)
def test_it_runs_on_what_is_stored(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_npu: bool
) -> None:
    """Every cell works, the figures are drawn, and nothing is written to standard error."""
    outputs = _run(notebook, _storage(tmp_path, on_npu), monkeypatch)
    assert {name for name, text in outputs.items() if "image/png" in text} == {
        "contexts",
        "history",
        "timeline",
    }
    assert [name for name, text in outputs.items() if "stderr" in text] == []
    assert "full_dup" in outputs["savings"]
    assert "True" in outputs["savings"]
    assert ("weights" in outputs["ledger"]) == on_npu
