"""`reusebench models`: model files and clips made from code, and the installation of converters."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from reusebench.models.built_files import cached_path, is_intact
from reusebench.models.megengine.environment import MEGENGINE, MegEngineConverter
from reusebench.models.recipe import AnyRecipe, Recipe, RknnRecipe
from reusebench.models.rknn.toolkit import TOOLKIT
from tests.helpers.support import CHECKOUT, Ended, Reusebench
from tests.models.megengine.scripted_megengine import install_scripted_megengine
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit
from tests.models.scripted_python import ScriptedPython

_TINY = Recipe("tiny", 64, 0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_every_network_is_listed(reusebench: Reusebench) -> None:
    """Each network has a line with its parameters, fp32 MiB and default size; each language model
    one with its parameters, f16 MiB, context and bytes of a token in the cache.
    """
    networks, languages = reusebench("models", "list").out.split("\n\n")
    assert [line.split()[:4] for line in networks.splitlines()[1:]] == [
        ["resnet50", "25,530,472", "97.4", "224"],
        ["mobilenet_v2", "3,487,816", "13.3", "224"],
        ["yolov5s", "7,225,885", "27.6", "640"],
        ["tiny", "68,036", "0.3", "64"],
        ["frame", "12", "0.0", "1080"],
    ]
    assert [line.split()[:5] for line in languages.splitlines()[1:]] == [
        ["decoder", "16,627,200", "31.7", "8,192", "12,288"],
        ["tiny_decoder", "402,688", "0.8", "2,048", "768"],
    ]


@pytest.mark.process
def test_files_of_all_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """Models of the default size and seed 0 go into the cache or to --output; a failed
    conversion keeps the old file.
    """
    install_scripted_toolkit()
    install_scripted_megengine()
    to_rknn = ["--runtime", "rknn", "--chip", "rk3588"]
    mge = tmp_path / "model.mge"
    rknn = tmp_path / "model.rknn"
    for output, arguments in ((mge, ["--runtime", "megengine_lite"]), (rknn, to_rknn)):
        done = reusebench("models", "build", "tiny", *arguments, "--output", output)
        assert done == Ended(0, f"{output}\n", "")
        assert output.stat().st_size
    assert is_intact(cached_path(_TINY))
    kinds: list[tuple[list[str], AnyRecipe]] = [
        (["--runtime", "megengine_lite"], MegEngineConverter.recipe(_TINY)),
        (to_rknn, RknnRecipe(_TINY, "rk3588")),
        ([*to_rknn, "--remove-weight"], RknnRecipe(_TINY, "rk3588", weightless=True)),
    ]
    for arguments, recipe in kinds:
        assert not cached_path(recipe).exists()
        # The chip may be written as Rockchip does.
        arguments = [argument.replace("rk3588", "RK3588") for argument in arguments]
        assert reusebench("models", "build", "tiny", *arguments) == Ended(
            0, f"{cached_path(recipe)}\n", ""
        )
        assert is_intact(cached_path(recipe))
    content = rknn.read_bytes()
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "refuse")
    done = reusebench("models", "build", "tiny", *to_rknn, "--output", rknn)
    assert (done.exit_code, done.out) == (2, "")
    assert "build failed: build: rv9999 cannot do that!" in done.err
    assert rknn.read_bytes() == content


def test_output_is_written_and_nothing_else(tmp_path: Path, reusebench: Reusebench) -> None:
    """--output gets the file of that size and seed, and the cache stays empty; without it the cache
    gets the file.
    """
    output = tmp_path / "model.onnx"
    done = reusebench("models", "build", "tiny", "--height", 48, "--seed", 9, "--output", output)
    assert done == Ended(0, f"{output}\n", "")
    (image,) = onnx.load(output).graph.input
    assert [dimension.dim_value for dimension in image.type.tensor_type.shape.dim] == [1, 3, 48, 48]
    assert list(tmp_path.iterdir()) == [output]
    assert reusebench("models", "build", "tiny") == Ended(0, f"{cached_path(_TINY)}\n", "")
    assert is_intact(cached_path(_TINY))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["build", "yolov5s", "--height", "100"], "valid: a multiple of 32 from 32 to 16384"),
        (["build", "tiny", "--height", "-64"], "valid: a whole number from 32 to 16384"),
        (["build", "tiny", "--seed", "-1"], "valid: a whole number from 0 to 4294967295"),
        (
            ["build", "tiny", "--output", "/nowhere/at/all.onnx"],
            "cannot write /nowhere/at/all.onnx: No such file",
        ),
        (["build", "tiny", "--output", "."], "cannot write .: it exists and is not a regular file"),
        (["build", "tiny", "--output", "long" * 99], "File name too long"),
        (["build", "tiny", "--runtime", "rknn"], "add --chip CHIP, one of rk3588, rk3576, "),
        (
            ["build", "tiny", "--runtime", "rknn", "--chip", "rv1106", "--remove-weight"],
            (
                "no file without weights can be made for rv1106: the toolkit ignores remove_weight"
                " there; valid: rk"
            ),
        ),
        (
            ["build", "tiny", "--runtime", "rknn", "--chip", "rk3588"],
            ".rknn files are made by rknn-toolkit2 2.5.0",
        ),
        (
            ["build", "tiny_decoder", "--runtime", "ncnn"],
            "tiny_decoder is a language model, and ncnn runs none; valid: --runtime llama_cpp",
        ),
        (
            ["build", "tiny", "--runtime", "llama_cpp"],
            "llama_cpp runs language models; valid: decoder, tiny_decoder",
        ),
        (["build", "tiny", "--merged", "1"], "tiny is no language model: leave --merged out"),
        (
            ["build", "decoder", "--chip", "rk3588"],
            "decoder is a language model: leave --chip out",
        ),
        (["build", "decoder", "--adapter", "9"], "adapter 9 does not exist; valid: a whole number"),
        (
            ["build", "decoder", "--adapter", "1", "--merged", "1"],
            "--adapter and --merged are two files",
        ),
        (
            ["build", "tiny", "--runtime", "onnxruntime", "--chip", "rk3588"],
            "--chip is for .rknn files only; add --runtime",
        ),
        (
            ["build", "tiny", "--remove-weight"],
            "--remove-weight is for .rknn files only; add --runtime rknn",
        ),
        (["clip", "--size", "15x16"], "a clip cannot have the size 15x16; valid: even numbers"),
        (["clip", "--output", "/nowhere/x.mp4"], "cannot write /nowhere/x.mp4: No such file"),
    ],
)
def test_mistakes(arguments: list[str], sentence: str, reusebench: Reusebench) -> None:
    """They end with exit code 2 and one line with what is valid, and nothing on standard output."""
    done = reusebench("models", *arguments)
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert sentence in done.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["build", "vgg"],
            "'vgg' is not one of 'resnet50', 'mobilenet_v2', 'yolov5s', 'tiny', 'frame',"
            " 'decoder', 'tiny_decoder'",
        ),
        (
            ["build", "tiny", "--runtime", "rknn", "--chip", "rk1"],
            "'rk1' is not one of 'rk3588', 'rk3576'",
        ),
        (["build", "tiny", "--height", "large"], "'large' is not a valid integer"),
        (["clip", "--size", "large"], "'large' is no size; valid: WIDTHxHEIGHT in pixels"),
        (["build"], "Missing argument 'NAME'"),
        (["bake"], "there is no command 'bake'; valid: "),
        (["install"], "Usage: reusebench models install"),
    ],
)
def test_what_is_no_command_line(
    arguments: list[str], sentence: str, reusebench: Reusebench
) -> None:
    """It gets the usage, and what is valid."""
    done = reusebench("models", *arguments)
    assert "Usage: reusebench models" in done.out + done.err
    assert sentence in done.out + done.err


@pytest.mark.process
def test_a_full_disk(tmp_path: Path) -> None:
    """When the file system takes no more bytes, the command reports it, exits with 2 and leaves
    nothing behind.
    """
    output = tmp_path / "model.onnx"
    code = (
        "import resource; from reusebench.commands import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536));"
        f"main(['models', 'build', 'tiny', '--output', {str(output)!r}])"
    )
    build = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert build.returncode == 2
    assert build.stderr.startswith(f"Error: cannot write {output}: File too large; choose a folder")
    assert build.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_clips(tmp_path: Path, reusebench: Reusebench) -> None:
    """The clip goes to --output if it is given, otherwise into the cache."""
    form = ("--size", "64x48", "--fps", 5, "--duration", 0.6)
    output = tmp_path / "clip.mp4"
    assert reusebench("models", "clip", "--output", output, *form) == Ended(0, f"{output}\n", "")
    cached = Path(reusebench("models", "clip", *form).out.rstrip())
    assert tmp_path / "cache" in cached.parents
    assert cached.read_bytes() == output.read_bytes()


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedPython:
    """Put a scripted interpreter into the path, and nothing else, on a machine that both libraries
    are made for.
    """
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return ScriptedPython(tmp_path, "python3.10")


@pytest.mark.process
def test_libraries_are_installed(python: ScriptedPython, reusebench: Reusebench) -> None:
    """The folder goes to standard output, the steps to standard error; --python and --torch are
    heeded.
    """
    done = reusebench(
        "models", "install", "rknn-toolkit", "--python", python.path, "--torch", "mine"
    )
    assert (done.exit_code, done.out) == (0, f"{TOOLKIT.folder()}\n")
    assert done.err.splitlines()[-2:] == ["mine ...", "trying it ..."]
    done = reusebench("models", "install", "megengine", "--python", python.path)
    assert (done.exit_code, done.out) == (0, f"{MEGENGINE.folder()}\n")
    assert done.err.splitlines()[-2:] == ["MegEngine==1.13.0 ...", "trying it ..."]


@pytest.mark.process
def test_ctrl_c_ends_an_installation(python: ScriptedPython, reusebench: Reusebench) -> None:
    """The command ends with 130, as shells expect, and without a traceback."""
    python.behave(interrupts="torch")
    done = reusebench("models", "install", "rknn-toolkit")
    assert done.exit_code == 130
    assert "Traceback" not in done.err
