"""`python -m models` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import models
from models.__main__ import main
from models.cache import cached_path, is_intact
from models.recipe import Recipe

_ROOT = Path(models.__file__).parent.parent


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_build_without_output_goes_into_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """The default size and seed 0 are built into the cache, and the path is printed."""
    assert main(["build", "tiny"]) == 0
    path = cached_path(Recipe("tiny", 64, 0))
    assert capsys.readouterr().out == f"{path}\n"
    assert is_intact(path)


def test_build_with_output_writes_there_and_nowhere_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--output gets the file of that size and seed; the cache stays empty."""
    output = tmp_path / "model.onnx"
    assert main(["build", "tiny", "--size", "48", "--seed", "9", "--output", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}\n"
    (image,) = onnx.load(output).graph.input
    assert [each.dim_value for each in image.type.tensor_type.shape.dim] == [1, 3, 48, 48]
    assert list(tmp_path.iterdir()) == [output]


def test_list_shows_every_network(capsys: pytest.CaptureFixture[str]) -> None:
    """Each network has a line with its parameters, fp32 MiB and default size."""
    assert main(["list"]) == 0
    lines = [line.split()[:4] for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        ["resnet50", "25,530,472", "97.4", "224"],
        ["mobilenet_v2", "3,487,816", "13.3", "224"],
        ["yolov5s", "7,225,885", "27.6", "640"],
        ["tiny", "68,036", "0.3", "64"],
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["build", "vgg"], "error: unknown network 'vgg'; valid: resnet50, mobilenet_v2, yolov5s, tiny"),
        (["build", "yolov5s", "--size", "100"], "valid: a multiple of 32 from 32 to 16384"),
        (["build", "tiny", "--size", "-64"], "valid: a whole number from 32 to 16384"),
        (["build", "tiny", "--seed", "-1"], "valid: a whole number from 0 to 4294967295"),
        (
            ["build", "tiny", "--output", "/nowhere/at/all.onnx"],
            "error: cannot write /nowhere/at/all.onnx: No such file",
        ),
        (["build", "tiny", "--output", "."], "error: cannot write .: it exists and is not a regular file"),
        (["build", "tiny", "--output", "long" * 99], "File name too long"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line on standard error that says what is valid, nothing on standard output."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert sentence in captured.err


@pytest.mark.parametrize("arguments", [[], ["bake"], ["build"], ["build", "tiny", "--size", "large"]])
def test_bad_usage_exits_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is no command line at all gets the usage and exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: python -m models" in capsys.readouterr().err


def test_a_full_disk_is_answered_with_a_sentence(tmp_path: Path) -> None:
    """When the file system takes no more bytes, the command says so, exits with 2 and leaves nothing behind."""
    output = tmp_path / "model.onnx"
    code = (
        "import resource, sys; from models.__main__ import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536));"
        f"sys.exit(main(['build', 'tiny', '--output', {str(output)!r}]))"
    )
    build = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert build.returncode == 2
    assert build.stderr.startswith(f"error: cannot write {output}: File too large; choose a folder")
    assert build.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
