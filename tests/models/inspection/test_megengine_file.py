"""The contents of .mge files."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench import models
from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect
from reusebench.models.inspection.contents import Operator, OtherFacts, Tensor
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.models.recipe import Recipe

needs_megengine = pytest.mark.skipif(
    not MEGENGINE.installed(), reason="run `reusebench models install megengine` to test it"
)


@pytest.mark.process
@needs_megengine
def test_what_the_file_shows() -> None:
    """Inputs and outputs, weights by type, operators without constants and inputs."""
    recipe = Recipe("tiny", 64, 1)
    (path,) = models.ensure_all(".mge", [recipe])
    inspection = inspect(path)
    network = recipe.network()
    assert inspection.inputs == (Tensor("images", "float32", network.input_shape),)
    assert inspection.outputs == (Tensor("fc", "float32", (1, 100)),)
    assert [weights.type for weights in inspection.weights or ()] == ["float32"]
    # This includes a few constants of the operators themselves.
    assert inspection.weight_bytes == pytest.approx(network.weight_bytes(), abs=64)
    assert Operator("", "Convolution", 5) in (inspection.operators or ())
    assert "ImmutableTensor" not in [operator.name for operator in inspection.operators or ()]
    assert inspection.facts == OtherFacts(
        {"format": f"MegEngine, read by version {MEGENGINE.version}"}
    )


@pytest.mark.process
@needs_megengine
def test_no_model(tmp_path: Path) -> None:
    """A file that MegEngine cannot load is refused with a message."""
    path = tmp_path / "no.mge"
    path.write_bytes(b"no model")
    with pytest.raises(
        ModelError, match=r"no\.mge is not a MegEngine model \(\.mge\), or is cut short"
    ):
        inspect(path)


def test_without_megengine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MegEngine the message names the command that installs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "net.mge"
    path.write_bytes(b"model")
    with pytest.raises(ModelError, match="run `reusebench models install megengine` once"):
        inspect(path)
