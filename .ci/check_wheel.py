"""Build sdist and wheel, use the wheel alone in an empty folder, and compare with the checkout.

    python .ci/check_wheel.py [--python PYTHON] [--lowest]

Needs git, a PYTHON with venv and a package registry, and no installation of the project. All files
are in a temporary folder, with a cache of its own. Exit code 1, and a sentence, if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_CHECKOUT = Path(__file__).resolve().parents[1]
_COMMAND_LIMIT_S = 600

#: Folders of tracked files, and their places in the package.
_PACKAGE = {
    "src/reusebench/": "reusebench/",
    **{f"{name}/": f"reusebench/{name}/" for name in ("bench", "native", "reports", "scenarios")},
}
#: The package has files of each kind.
_KINDS = {".py", ".typed", ".c", ".h", ".css", ".js", ".j2", ".json", ".in", ".txt"}
#: Files of the sdist outside the package.
_BESIDE = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}

_MODEL = "tiny.onnx"
_OWN_TEST = "test_own.py"
_PROGRAM = "program.py"
_TABLE = "memory.csv"
#: Files that the commands may leave in their working folder.
_LEFT = (
    *(".benchmarks", ".pytest_cache", "__pycache__", "out"),
    *(_MODEL, "tiny.prepared-*", _OWN_TEST, _PROGRAM, _TABLE),
)

#: Options of the measurement on both sides.
_DUP = (
    *("bench/test_dup.py", "-k", "(no_reuse_one_model or full_dup) and not internal", "-q"),
    *("--streams=2", "--contexts=2", "--quick", "--repeats=2", "--rounds=3"),
)
#: Files in the user's cache folder: the virtual board's system, Rockchip's library, a model for it.
_NPU_FILES = (
    "vboard/system-aarch64",
    "rknn/librknnrt-2.3.2-aarch64.so",
    "models/tiny-64-*-rk3588-*.rknn",
)

#: Memory of equal processes differs by 1 to 5 %, sometimes by 15 %
#: (docs/explanation/repeats.md).
_NOISE = 0.15
_NOISE_BYTES = 1 << 20
_NOISY = ("application_memory_bytes", "application_memory_over_baseline_bytes")
#: Figures of the ledger of NPU buffers, exact to the byte.
_EXACT = ("npu_memory_bytes", "npu_peak_bytes", "npu_left_bytes")
#: Key of the results whose processes do not compute.
_WITHOUT_SPEED = "reusebench_without_speed"
#: Fields of a result that are equal on both sides, as the plan is.
_EQUAL = ("models", "outcome", "output_digests", "runtime_version", "python_version")

_TEXT_OF_OWN_TEST = f"""
import reusebench


def test_dup(measure):
    dup = measure("full_dup", runtime="onnxruntime", model="{_MODEL}", streams=2, contexts=2)
    assert dup.outcome == "ok"
    assert dup["application_memory_bytes"].median > 0


def test_plan(measure):
    contexts = {{"first": reusebench.Context("net"), "second": reusebench.Context(dup="first")}}
    plan = reusebench.Plan("gate", models={{"net": "{_MODEL}"}}, contexts=contexts)
    assert measure(plan, runtime="onnxruntime")["application_memory_bytes"].median > 0
"""


class CheckError(Exception):
    """Something is not as it should be; the message says what."""


@dataclass(frozen=True)
class Place:
    """The virtual environment, working folder and variables of commands."""

    environment: Path
    folder: Path
    variables: Mapping[str, str]

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.environment / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """The folder of installed packages."""
        return next((self.environment / "lib").glob("python*/site-packages"))

    def run(self, *command: object, says: str = "") -> str:
        """Return the standard output of a command.

        Raises CheckError if it fails, or prints no text `says`.
        """
        words = [str(word) for word in command]
        started = time.monotonic()
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=dict(self.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_LIMIT_S,
            check=False,
        )
        printed = done.stdout + done.stderr
        shown = " ".join([Path(words[0]).name, *words[1:]])
        print(f"{time.monotonic() - started:6.1f} s  {shown[:110]}", flush=True)
        if done.returncode != 0:
            raise CheckError(f"{shown}\nended with exit code {done.returncode}:\n{printed}")
        if says not in re.sub(" +", " ", printed):  # columns are as wide as their names need
            raise CheckError(f"{shown}\ndoes not say {says!r}:\n{printed}")
        return done.stdout

    def pip(self, *arguments: object) -> None:
        """Run pip."""
        self.run(self.python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check")

    def reusebench(self, *arguments: object, says: str = "") -> str:
        """Return the output of the installed command."""
        return self.run(self.environment / "bin" / "reusebench", *arguments, says=says)


def check(top: Path, python: str, lowest: bool) -> None:
    """Build, install, use and compare, all below the folder `top`; raise CheckError."""
    source = top / "source"
    package = copy_checkout(source)
    place = make_place(top, python)
    tools = make_tools(place, top / "tools")
    sdist, wheel = build(place, tools, source, top)
    check_sdist(sdist, package)
    check_wheel(wheel, package)
    check_editable(tools, source, top / "editable")

    install(place, wheel, lowest, top / "constraints.txt")
    installed = files_in(place.site_packages)
    use(place)
    measured = sessions(place)
    of_wheel = bench(place, (place.environment / "bin" / "reusebench", "bench"), measured)
    of_checkout = bench_in_checkout(place, source, measured)
    compare(of_wheel, of_checkout)
    use_results(place, of_checkout[0])
    use_own_project(place)
    check_left(place, installed)
    print("\nthe wheel does what the checkout does")


def copy_checkout(source: Path) -> set[str]:
    """Copy the files that git tracks or would track; return the names of the package's files.

    Links stay links.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=_CHECKOUT, check=True, capture_output=True, text=True)
    listed = done.stdout.rstrip("\0").split("\0")
    names = [name for name in listed if os.path.lexists(_CHECKOUT / name)]
    package = set()
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_CHECKOUT / name, source / name, follow_symlinks=False)
        folder = next((folder for folder in _PACKAGE if name.startswith(folder)), None)
        if folder and not (source / name).is_symlink():
            package.add(_PACKAGE[folder] + name[len(folder) :])
    return package


def make_place(top: Path, python: str) -> Place:
    """Make a virtual environment, an empty folder and home, without variables of Python."""
    subprocess.run([python, "-m", "venv", top / "environment"], check=True)
    folders = {"HOME": top / "home", "TMPDIR": top / "temporary"}
    for folder in (top / "working", *folders.values()):
        folder.mkdir()
    ours = ("PYTHON", "PYTEST_", "VIRTUAL_ENV", "XDG_", "MAKE", "MFLAGS")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    variables.update({name: str(folder) for name, folder in folders.items()})
    return Place(top / "environment", top / "working", variables)


def make_tools(place: Place, folder: Path) -> Place:
    """Install the build tools in a folder outside the environment; return a place with them."""
    place.pip("install", "--target", folder, "build", "setuptools")
    return replace(place, variables={**place.variables, "PYTHONPATH": str(folder)})


def build(place: Place, tools: Place, source: Path, top: Path) -> tuple[Path, Path]:
    """Build the sdist, its wheel and the checkout's wheel; return the sdist and its wheel.

    Raises CheckError if the wheels differ.
    """
    tools.run(place.python, "-m", "build", "--no-isolation", "--outdir", top / "dist", source)
    # Isolated, so that pyproject.toml must name all build requirements.
    place.pip("wheel", "--no-deps", "--wheel-dir", top / "of_checkout", source)
    sdist = next((top / "dist").glob("*.tar.gz"))
    wheel = next((top / "dist").glob("*.whl"))
    of_checkout = next((top / "of_checkout").glob("*.whl"))
    if contents(wheel) != contents(of_checkout):
        different = sorted(set(contents(wheel).items()) ^ set(contents(of_checkout).items()))
        raise CheckError(f"the wheels of the sdist and of the checkout differ: {different}")
    for file in (sdist, wheel):
        print(f"          {file.name}: {file.stat().st_size / 1e6:.2f} MB")
    return sdist, wheel


def contents(wheel: Path) -> dict[str, int]:
    """Return the checksums of a wheel's files by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {member.filename: member.CRC for member in archive.infolist()}


def check_sdist(sdist: Path, package: set[str]) -> None:
    """Raise CheckError if the sdist has other files than the package and its build, or a link."""
    with tarfile.open(sdist) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
    check_equal(
        "links in the sdist", {member.name for member in members if not member.isfile()}, set()
    )
    names = {member.name.partition("/")[2] for member in members}
    described = {name for name in names if name.startswith("src/reusebench.egg-info/")}
    check_equal(
        "files of the sdist", names - described, _BESIDE | {f"src/{name}" for name in package}
    )


def check_wheel(wheel: Path, package: set[str]) -> None:
    """Raise CheckError if the wheel has other files or entry points than expected, or a link."""
    with zipfile.ZipFile(wheel) as archive:
        links = {
            member.filename
            for member in archive.infolist()
            if (member.external_attr >> 16) & 0o170000 == 0o120000
        }
        names = set(archive.namelist())
        described = {name for name in names if name.split("/")[0].endswith(".dist-info")}
        entry_points = archive.read(
            next(name for name in described if name.endswith("/entry_points.txt"))
        ).decode()
    check_equal("links in the wheel", links, set())
    check_equal("files of the wheel", names - described, package)
    check_equal("kinds of files", {Path(name).suffix for name in package}, _KINDS)
    # An entry point of pytest would add options to a pytest that did not ask for them.
    check_equal(
        "entry points",
        set(re.findall(r"^\[(.+)\]$", entry_points, re.MULTILINE)),
        {"console_scripts"},
    )


def check_equal(subject: str, found: set[str], expected: set[str]) -> None:
    """Raise CheckError if the sets differ."""
    if found != expected:
        more = sorted(found - expected)
        less = sorted(expected - found)
        raise CheckError(f"{subject}: there should not be {more}; missing {less}")


def check_editable(place: Place, source: Path, prefix: Path) -> None:
    """Raise CheckError if an editable installation is more than a plain line in a .pth file."""
    place.pip(
        "install", "--no-deps", "--no-build-isolation", "--prefix", prefix, "--editable", source
    )
    site_packages = next(prefix.glob("lib/python*/site-packages"))
    files = [path for path in site_packages.iterdir() if not path.name.endswith(".dist-info")]
    lines = [line for path in files for line in path.read_text().splitlines()]
    if [path.suffix for path in files] != [".pth"] or lines != [str(source / "src")]:
        raise CheckError(
            f"the editable installation is {[path.name for path in files]} with the lines {lines}"
        )


def install(place: Place, wheel: Path, lowest: bool, constraints: Path) -> None:
    """Install the wheel; if `lowest`, with the lowest versions of its requirements."""
    bounds = []
    if lowest:
        with zipfile.ZipFile(wheel) as archive:
            metadata = archive.read(
                next(name for name in archive.namelist() if name.endswith("/METADATA"))
            ).decode()
        bounds = re.findall(
            r"^Requires-Dist: ([\w.-]+)>=([\w.]+)(?!.*extra ==)", metadata, re.MULTILINE
        )
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in bounds))
    place.pip("install", "--constraint", constraints, wheel)
    record = next(place.site_packages.glob("reusebench-*.dist-info/RECORD"))
    tops = {line.split("/")[0] for line in record.read_text().splitlines()}
    check_equal("installed names", tops, {"..", "reusebench", record.parent.name})
    place.run(place.python, "-m", "pip", "check")


def files_in(folder: Path) -> set[str]:
    """Return the names of the files in a folder, without those that Python compiles."""
    names = {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}
    return {str(name) for name in names if "__pycache__" not in name.parts}


def use(place: Place) -> None:
    """Run the commands that do not measure, and leave a model in the folder."""
    place.reusebench("--version", says="reusebench ")
    place.reusebench("doctor", says="onnxruntime yes")
    place.reusebench("models", "list", says="mobilenet_v2")
    place.reusebench("models", "build", "tiny", "--height", 64, "--output", _MODEL)
    place.reusebench("models", "inspect", _MODEL, says="full_dup")
    place.reusebench("plan", "full_dup", says='dup = "context-1"')
    program = place.reusebench("plan", "full_dup", "--code", "--streams", 1, "--contexts", 2)
    (place.folder / _PROGRAM).write_text(program)
    place.run(place.python, _PROGRAM, _MODEL, says="context 1: CRC-32 of its outputs")
    if shutil.which("cc"):
        place.reusebench("board", "install-ledger", says="--target board is ready")
    else:
        print("          there is no compiler: C is not compiled")


def sessions(place: Place) -> list[tuple[str, ...]]:
    """Return the options of the sessions: built-in models, a user's, and the virtual board's."""
    measured = [("--runtime=onnxruntime",), ("--runtime=onnxruntime", f"--model={_MODEL}")]
    caches = [
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"),
        Path(place.variables["HOME"], ".cache"),
    ]
    of_user, own = (cache / "reusebench" for cache in caches)
    files = [path for pattern in _NPU_FILES for path in sorted(of_user.glob(pattern))[:1]]
    if len(files) < len(_NPU_FILES):
        print(
            "          no virtual board, library or model is in the cache: NPU memory is not"
            " compared"
        )
        return measured
    system, library, model = files
    shutil.copytree(system, own / system.relative_to(of_user), symlinks=True)
    place.reusebench("board", "install", "--rknn-library", library)
    on_board = (
        "--runtime=rknn",
        "--target=vboard:rk3588",
        f"--rknn-library={library}",
        f"--model={model}",
    )
    # The ledger has no noise.
    return [*measured, (*on_board, "--repeats=1")]


def bench(place: Place, command: Sequence[object], measured: Sequence[Sequence[str]]) -> list[Path]:
    """Measure the sessions in the place's folder; return the files of the runs, in order."""
    for options in measured:
        place.run(*command, *_DUP, *options)
    runs = sorted(place.folder.glob(".benchmarks/*/*/*.json"), key=lambda path: path.name)
    if len(runs) != len(measured):
        raise CheckError(f"{len(measured)} sessions have stored {list(map(str, runs))}")
    return runs


def bench_in_checkout(place: Place, source: Path, measured: Sequence[Sequence[str]]) -> list[Path]:
    """Measure the sessions by `pytest bench/` in the copied checkout, with the same environment."""
    shutil.copy(place.folder / _MODEL, source)
    checkout = replace(
        place, folder=source, variables={**place.variables, "PYTHONPATH": str(source / "src")}
    )
    # pip compiles a wheel's files, and compiling takes memory in a process.
    checkout.run(place.python, "-m", "compileall", "-q", "src/reusebench/measured")
    model = source.with_name("tiny_of_checkout.onnx")
    checkout.run(
        *(place.python, "-m", "reusebench", "models", "build", "tiny"),
        *("--height", 64, "--output", model),
    )
    if model.read_bytes() != (place.folder / _MODEL).read_bytes():
        raise CheckError("the checkout builds another model than the wheel")
    return bench(checkout, (place.python, "-m", "pytest"), measured)


def compare(of_wheel: Sequence[Path], of_checkout: Sequence[Path]) -> None:
    """Raise CheckError if results, plans or outputs differ, or memory by more than noise."""
    for runs in zip(of_wheel, of_checkout):
        ours, theirs = map(results, runs)
        check_equal("results of the wheel", set(ours), set(theirs))
        if not ours:
            raise CheckError("a session has no result")
        for name in ours:
            for key in _EQUAL:
                check_same(f"{name}: {key}", ours[name][key], theirs[name][key])
            check_same(f"{name}: plan", plan_of(ours[name]), plan_of(theirs[name]))
            for key in _EXACT:
                check_same(f"{name}: {key}", ours[name]["memory"][key], theirs[name]["memory"][key])
            if ours[name]["emulated"]:
                print(
                    f"          {name.partition('::')[2]}: NPU memory"
                    f" {ours[name]['memory']['npu_memory_bytes']} bytes"
                )
            else:
                check_noisy(name, ours[name]["memory"], theirs[name]["memory"])


def results(run: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a run by the full names of their tests."""
    stored = json.loads(run.read_text())
    entries = [*stored["benchmarks"], *stored.get(_WITHOUT_SPEED, ())]
    return {entry["fullname"]: entry["extra_info"] for entry in entries}


def plan_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a result without the paths of its models."""
    models = [{**model, "path": None, "prepared": None} for model in result["plan"]["models"]]
    return {**result["plan"], "models": models}


def check_same(subject: str, ours: object, theirs: object) -> None:
    """Raise CheckError if two values differ."""
    if ours != theirs:
        raise CheckError(f"{subject}: {ours} by the wheel, {theirs} by the checkout")


def check_noisy(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise CheckError if the memory of a process differs by more than its noise."""
    for key in _NOISY:
        wheel, checkout = (statistics.median(memory[key]) for memory in (ours, theirs))
        words = (
            f"{key} {wheel / 2**20:.1f} MiB by the wheel, {checkout / 2**20:.1f} MiB by the"
            " checkout"
        )
        print(f"          {name.partition('::')[2]}: {words}")
        if abs(wheel - checkout) > _NOISE * checkout + _NOISE_BYTES:
            raise CheckError(f"{name}: {words}")


def use_results(place: Place, of_checkout: Path) -> None:
    """Run the commands that read stored runs, the checkout's among them, and measure again."""
    place.reusebench("runs", "list", says="onnxruntime")
    limit = f"application_memory:{_NOISE:.0%}+1MiB"
    place.reusebench("compare", of_checkout, 1, "--fail", limit, says=f"passed {limit}")
    place.reusebench("history", says="History: out/report/history.html")
    place.reusebench("report", says="Report: out/report/index.html")
    place.reusebench("export", "--format", "csv", "--output", _TABLE)
    place.reusebench("record", "--", place.python, "-c", "print(len('x' * 2**24))", says="16777216")
    few = "--streams", 1, "--contexts", 2, "--model", _MODEL, "--runtime", "onnxruntime"
    place.reusebench("fit", "--limit", "512MiB", *few, says="Recommended")


def use_own_project(place: Place) -> None:
    """Run another project's test with the plug-in; pytest without the plug-in lacks its options."""
    (place.folder / _OWN_TEST).write_text(_TEXT_OF_OWN_TEST)
    pytest = place.python, "-m", "pytest"
    place.run(*pytest, "-p", "reusebench", _OWN_TEST, "--quick", "--repeats=1", says="2 passed")
    if "--most-contexts" in place.run(*pytest, "--help"):
        raise CheckError("pytest has options of reusebench without being asked")
    place.run(*pytest, "-p", "reusebench", "--help", says="--most-contexts")


def check_left(place: Place, installed: set[str]) -> None:
    """Raise CheckError if a file was left in a wrong folder."""
    left = [path.name for path in place.folder.iterdir()]
    strange = {name for name in left if not any(fnmatch(name, pattern) for pattern in _LEFT)}
    check_equal("files in the working folder", strange, set())
    check_equal("temporary files", files_in(Path(place.variables["TMPDIR"])), set())
    check_equal("files in site-packages", files_in(place.site_packages), installed)


def main() -> None:
    """Check, and end with the sentence of the first fault."""
    parser = argparse.ArgumentParser(
        description="Build sdist and wheel, use the wheel alone, compare with the checkout."
    )
    parser.add_argument(
        "--python", default=sys.executable, help="Python to install for. Default: this one."
    )
    parser.add_argument(
        "--lowest", action="store_true", help="With the lowest versions of what is required."
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reusebench-wheel-") as folder:
        try:
            check(Path(folder), arguments.python, arguments.lowest)
        except (CheckError, subprocess.SubprocessError) as error:
            sys.exit(f"\n{error}")


if __name__ == "__main__":
    main()
