"""Makes `.rknn` files from the ONNX files of the same networks, with rknn-toolkit2 in a process of its own.

They are INT8, as such models are deployed, and as the smaller chips demand; calibrated with one image of noise.
Standard library only: the harness calls ensure_rknn().
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from models.cache import cached_path, ensure, fill, is_intact
from models.errors import ConversionFailed, ToolkitMissing, end_of
from models.recipe import Recipe, RknnRecipe
from models.rknn_platforms import TOOLKIT_VERSION
from models.rknn_toolkit import toolkit_folder, toolkit_installed, toolkit_python

__all__ = ["Converter", "ensure_rknn", "ensure_rknn_all"]

_PROGRAM = Path(__file__).resolve().with_name("rknn_converter.py")

#: The converter's answer when all went well.
_SUCCESS = "null"

#: What the toolkit colours its lines with.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def ensure_rknn(name: str, size: int, seed: int, platform: str, weightless: bool = False) -> Path:
    """Return the `.rknn` file from the cache, made first where it is missing or damaged.

    weightless makes the slave of weight sharing: the same file without its weights. Raises ModelError for an
    invalid recipe, if the toolkit is not installed (only where something is to be made), and if it fails.
    """
    (path,) = ensure_rknn_all([RknnRecipe(Recipe(name, size, seed), platform, weightless)])
    return path


def ensure_rknn_all(recipes: Sequence[RknnRecipe]) -> list[Path]:
    """Return the files of all recipes, in order, as ensure_rknn() does.

    Those that are missing are made in one process: to start the toolkit takes as long as half a conversion.
    """
    with Converter() as converter:
        return [_ensure(recipe, converter) for recipe in recipes]


def _ensure(recipe: RknnRecipe, converter: Converter) -> Path:
    path = cached_path(recipe)
    if not is_intact(path):
        # Before the cache is locked: the ONNX file goes there too.
        onnx = converter.source_of(recipe)
        fill(recipe, lambda temporary: converter.convert(recipe, onnx, temporary))
    return path


class Converter:
    """The toolkit's process, started with the first conversion and killed at the end of the `with` block."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._resources = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._log = Path()

    def __enter__(self) -> Converter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

    def source_of(self, recipe: RknnRecipe) -> Path:
        """Return the ONNX file that the recipe's is made from; raise ToolkitMissing if there is no use for it."""
        if not toolkit_installed():
            raise ToolkitMissing(TOOLKIT_VERSION, toolkit_folder())
        return ensure(recipe.source.name, recipe.source.size, recipe.source.seed)

    def convert(self, recipe: RknnRecipe, onnx: Path, path: Path) -> None:
        """Write the `.rknn` file of that ONNX file to path; raise ConversionFailed with the toolkit's last words."""
        process = self._process or self._start()
        said_before = self._log.stat().st_size
        answer = _ask(process, _job(recipe, onnx, path))
        if answer == _SUCCESS:
            return
        said = self._log.read_bytes()[said_before:].decode(errors="replace")
        if answer:
            failure = json.loads(answer)
            raise ConversionFailed(recipe.file_name, failure["step"], failure["words"] or _last_error(said))
        raise ConversionFailed(recipe.file_name, f"its process ({end_of(process.wait())})", _last_error(said))

    def _start(self) -> subprocess.Popen[str]:
        """Start the process in a folder of its own: the toolkit leaves files where it runs."""
        folder = self._resources.enter_context(tempfile.TemporaryDirectory(prefix="reusebench-"))
        self._log = Path(folder) / "log"
        log = self._resources.enter_context(self._log.open("wb"))
        self._process = subprocess.Popen(
            [toolkit_python(), "-I", _PROGRAM],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self._resources.callback(_kill, self._process)
        return self._process


def _job(recipe: RknnRecipe, onnx: Path, path: Path) -> str:
    job = {
        "onnx": str(onnx.absolute()),
        "size": recipe.source.size,
        "platform": recipe.platform,
        "remove_weight": recipe.weightless,
        "output": str(path.absolute()),
    }
    return json.dumps(job)


def _ask(process: subprocess.Popen[str], job: str) -> str:
    """Return the answer, or nothing if the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        print(job, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    # Closing the pipe fails if the process ended before it read all.
    with suppress(BrokenPipeError), process:
        pass


def _last_error(said: str) -> str:
    """Return the toolkit's last line that it marks as an error, or its last line, without colours."""
    lines = [line.strip() for line in _COLOURS.sub("", said).splitlines() if line.strip()]
    errors = [line[2:] for line in lines if line.startswith("E ")]
    return (errors or lines or ["it said nothing"])[-1]
