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
from models.recipe import Recipe, RknnRecipe
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit

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


_RK3588 = RknnRecipe(Recipe("tiny", 64, 0), "rk3588")


def test_build_for_rknn_goes_into_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """The chip may be written as Rockchip does; --remove-weight makes another file than without."""
    install_scripted_toolkit()
    for arguments, recipe in (
        (["--platform", "RK3588"], _RK3588),
        (["--platform", "rk3588", "--remove-weight"], RknnRecipe(_RK3588.source, "rk3588", weightless=True)),
    ):
        assert main(["build", "tiny", "--for", "rknn", *arguments]) == 0
        assert capsys.readouterr().out == f"{cached_path(recipe)}\n"
        assert is_intact(cached_path(recipe))


def test_build_for_rknn_with_output_writes_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--output gets the `.rknn` file; of the two only the ONNX file, which is its source, is in the cache."""
    install_scripted_toolkit()
    output = tmp_path / "model.rknn"
    assert main(["build", "tiny", "--for", "rknn", "--platform", "rk3588", "--output", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}\n"
    assert output.stat().st_size
    assert is_intact(cached_path(_RK3588.source))
    assert not cached_path(_RK3588).exists()


def test_a_failed_conversion_leaves_the_old_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the toolkit fails, --output's file is as it was before."""
    install_scripted_toolkit()
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "refuse")
    output = tmp_path / "model.rknn"
    output.write_bytes(b"old")
    assert main(["build", "tiny", "--for", "rknn", "--platform", "rk3588", "--output", str(output)]) == 2
    assert "build failed: build: rv9999 cannot do that!" in capsys.readouterr().err
    assert output.read_bytes() == b"old"


def test_list_shows_every_network(capsys: pytest.CaptureFixture[str]) -> None:
    """Each network has a line with its parameters, fp32 MiB and default size."""
    assert main(["list"]) == 0
    lines = [line.split()[:4] for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        ["resnet50", "25,530,472", "97.4", "224"],
        ["mobilenet_v2", "3,487,816", "13.3", "224"],
        ["yolov5s", "7,225,885", "27.6", "640"],
        ["tiny", "68,036", "0.3", "64"],
        ["frame", "12", "0.0", "1080"],
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["build", "vgg"], "error: unknown network 'vgg'; valid: resnet50, mobilenet_v2, yolov5s, tiny, frame"),
        (["build", "yolov5s", "--size", "100"], "valid: a multiple of 32 from 32 to 16384"),
        (["build", "tiny", "--size", "-64"], "valid: a whole number from 32 to 16384"),
        (["build", "tiny", "--seed", "-1"], "valid: a whole number from 0 to 4294967295"),
        (
            ["build", "tiny", "--output", "/nowhere/at/all.onnx"],
            "error: cannot write /nowhere/at/all.onnx: No such file",
        ),
        (["build", "tiny", "--for", "rknn"], "add --platform CHIP, one of rk3588, rk3576, "),
        (
            ["build", "tiny", "--for", "rknn", "--platform", "rk1"],
            "error: unknown platform 'rk1'; valid: rk3588, rk3576",
        ),
        (
            ["build", "tiny", "--for", "rknn", "--platform", "rv1106", "--remove-weight"],
            "error: no file without weights can be made for rv1106: the toolkit ignores remove_weight there; valid: rk",
        ),
        (["build", "tiny", "--for", "rknn", "--platform", "rk3588"], "run `python -m models toolkit install` once"),
        (["build", "tiny", "--for", "onnx", "--platform", "rk3588"], "error: --platform is for .rknn files only; add"),
        (["build", "tiny", "--remove-weight"], "error: --remove-weight is for .rknn files only; add --for rknn"),
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


@pytest.mark.parametrize("arguments", [[], ["bake"], ["build"], ["build", "tiny", "--size", "large"], ["toolkit"]])
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
