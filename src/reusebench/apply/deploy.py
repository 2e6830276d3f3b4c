"""`reusebench apply --deploy`: a folder with all that production needs, without reusebench."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench import __version__
from reusebench.apply.elf import needed_versions
from reusebench.apply.errors import ApplyError
from reusebench.apply.library import PLATFORM, compiled_library, lay_out
from reusebench.apply.settings import HOOKS, PREFIX, ApplySettings
from reusebench.system.files import read_regular, replacing
from reusebench.system.interrupts import uninterrupted
from reusebench.targets.programs import APPLY, UCLIBC

__all__ = ["Deployed", "deploy"]

#: The folder in an image.
_IN_IMAGE = "/opt/reusebench-apply"
_TEMPLATES = Path(__file__).with_name("deployed")
_MANIFEST = "manifest.json"
_MADE_BY = "reusebench apply --deploy"
_HOOKS, _LIBRARY, _PLAN, _SETTINGS = "hooks", "lib", "plan", "apply.env"
#: Made by Python when it imports the hooks.
_BYTECODE = "__pycache__"
#: Neither LD_PRELOAD nor the files for systemd and Docker can name others.
_PLAIN = re.compile(r"[\w./+@~,=-]+")
#: No file of the folder is larger.
_LARGEST_BYTES = 1 << 24
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")


@dataclass(frozen=True)
class Deployed:
    """A folder that was written."""

    folder: Path
    forms: tuple[str, ...]
    #: Form to the oldest version of the GNU C library that its library runs with.
    glibc: dict[str, str]
    #: Paths relative to the folder.
    files: tuple[str, ...]


def deploy(
    folder: Path,
    forms: Sequence[str],
    settings: ApplySettings,
    show_step: Callable[[str], None],
    plan: str | None = None,
) -> Deployed:
    """Write the folder, which must be empty or written by an earlier call; raise ApplyError.

    `plan` is the text for REUSEBENCH_APPLY_PLAN.
    """
    folder = folder.resolve()
    forms = tuple(dict.fromkeys(forms))
    if not _PLAIN.fullmatch(str(folder)):
        raise ApplyError(
            f"{folder} has characters that LD_PRELOAD, systemd or Docker do not take. Choose a path"
            " of letters, digits and . _ - + @ ~ , ="
        )
    if UCLIBC in forms and len(forms) > 1:
        raise ApplyError(f"{UCLIBC} has a folder of its own: its loader knows no other library")
    try:
        former = _former_files(folder)
        libraries = {form: compiled_library(form, show_step) for form in forms}
        glibc = {form: _oldest_glibc(path) for form, path in libraries.items() if form != UCLIBC}
        with tempfile.TemporaryDirectory() as space:
            new = Path(space)
            _write(new, folder, libraries, settings, glibc, plan)
            digests = {name: _digest(path) for name, path in sorted(_files(new))}
            _write_manifest(new, forms, glibc, digests)
            with uninterrupted():
                _replace(folder, new, former - digests.keys())
    except OSError as error:
        raise ApplyError(
            f"{folder} cannot be written ({error.strerror or error}). Choose a folder that is"
            " writable and has room"
        ) from None
    return Deployed(folder, forms, glibc, tuple(digests))


def _former_files(folder: Path) -> set[str]:
    """Return the files of an earlier call; raise ApplyError if one is another's, or changed."""
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise ApplyError(f"{folder} is a file. Name a folder that is empty, or not there yet")
    written = _written(folder / _MANIFEST)
    there = set()
    for name, path in _files(folder):
        is_ours = name in written and not path.is_symlink() and _digest(path) == written[name]
        if not is_ours and name != _MANIFEST:
            raise ApplyError(
                f"{path} was not written by {_MADE_BY}, or was changed since. Name another folder,"
                " or move the file away"
            )
        there.add(name)
    return there - {_MANIFEST}


def _written(manifest: Path) -> dict[str, str]:
    """Return the digests of a manifest by path; empty if it is not there, or another's."""
    try:
        values = json.loads(manifest.read_text(encoding="utf-8"))
        files: dict[str, str] = values["files"] if values["made_by"] == _MADE_BY else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield relative names and paths; the bytecode of Python does not count."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if (path.is_symlink() or not path.is_dir()) and _BYTECODE not in name.parts:
            yield str(name), path


def _digest(path: Path) -> str:
    return hashlib.sha256(read_regular(path, _LARGEST_BYTES)).hexdigest()


def _oldest_glibc(library: Path) -> str:
    found = [_GLIBC.fullmatch(name) for name in needed_versions(library)]
    versions = [(int(match[1]), int(match[2])) for match in found if match]
    return ".".join(map(str, max(versions)))


def _write(
    new: Path,
    folder: Path,
    libraries: Mapping[str, Path],
    settings: ApplySettings,
    glibc: Mapping[str, str],
    plan: str | None,
) -> None:
    has_hooks = UCLIBC not in libraries  # systems with uClibc have no Python
    if has_hooks:
        shutil.copytree(HOOKS, new / _HOOKS, ignore=shutil.ignore_patterns(_BYTECODE))
    library = _write_libraries(new / _LIBRARY, libraries)
    if plan:
        (new / _PLAN).write_text(plan, encoding="utf-8")
    own = settings.variables()
    lines = [f"{name}={value}" for name, value in own.items()]
    _text(new / _SETTINGS, "# Settings of library and hooks; more are in README.md.", *lines)

    def variables(base: str) -> dict[str, str]:
        preload = {"LD_PRELOAD": f"{base}/{library}"} if library else {}
        hooks = {"PYTHONPATH": f"{base}/{_HOOKS}"} if has_hooks else {}
        planned = {f"{PREFIX}PLAN": f"{base}/{_PLAN}"} if plan else {}
        return {**preload, **hooks, **planned, **own}

    _text(new / "systemd.conf", *_systemd(variables(str(folder))))
    needed = [f"# The image needs glibc {version} for {form}." for form, version in glibc.items()]
    _text(new / "Dockerfile.part", *needed, *_docker(folder.name, variables(_IN_IMAGE)))
    _text(new / "compose.yaml", *needed, *_compose(folder.name, variables(_IN_IMAGE)))
    words = {
        "@LIBRARY@": library or "",
        "@FOLDER@": str(folder),
        "@IN_IMAGE@": _IN_IMAGE,
        "@VERSION@": __version__,
        "@GLIBC@": "".join(f"; glibc {version} for {form}" for form, version in glibc.items()),
    }
    for template in sorted(_TEMPLATES.glob("*.in")):
        text = template.read_text(encoding="utf-8")
        for mark, word in words.items():
            text = text.replace(mark, word)
        (new / template.stem).write_text(text, encoding="utf-8")
    (new / "run-applied").chmod(0o755)


def _write_libraries(folder: Path, libraries: Mapping[str, Path]) -> str | None:
    """Write the libraries; return the path for LD_PRELOAD, relative to the whole folder."""
    if not libraries:
        return None
    if UCLIBC in libraries:
        folder.mkdir()
        shutil.copyfile(libraries[UCLIBC], folder / APPLY.main)
        return f"{_LIBRARY}/{APPLY.main}"
    lay_out(folder, libraries)
    return f"{_LIBRARY}/{PLATFORM}/{APPLY.main}"


def _systemd(variables: Mapping[str, str]) -> list[str]:
    lines = ["# For /etc/systemd/system/NAME.service.d/; its paths are absolute, as systemd asks."]
    lines += ["# It replaces what the service sets for LD_PRELOAD and PYTHONPATH.", "[Service]"]
    lines += [f'Environment="{name}={value}"' for name, value in variables.items()]
    cache = "reusebench-apply/%N"  # each service has its own user
    return [*lines, f'Environment="{PREFIX}CACHE=%C/{cache}"', f"CacheDirectory={cache}"]


def _docker(name: str, variables: Mapping[str, str]) -> list[str]:
    lines = [f"# Lines for a Dockerfile; the build's context has the folder {name}."]
    lines += [f"COPY {name} {_IN_IMAGE}"]
    preload = variables.get("LD_PRELOAD")
    if preload:
        lines += ["# It fails if the image's C library is too old."]
        lines += [f"RUN LD_PRELOAD='{preload}' /bin/true"]
    before = {"LD_PRELOAD": "${LD_PRELOAD:+$LD_PRELOAD:}"}
    behind = {"PYTHONPATH": "${PYTHONPATH:+:$PYTHONPATH}"}
    for variable, value in variables.items():
        own = value.replace("$", "\\$")
        lines += [f"ENV {variable}={before.get(variable, '')}{own}{behind.get(variable, '')}"]
    return lines


def _compose(name: str, variables: Mapping[str, str]) -> list[str]:
    lines = ["# Beside the file of your services: docker compose -f FILE -f compose.yaml up"]
    lines += ["services:", "  NAME:", "    volumes:", f"      - ./{name}:{_IN_IMAGE}:ro"]
    lines += ["    environment:"]
    return [
        *lines,
        *(f'      {key}: "{value.replace("$", "$$")}"' for key, value in variables.items()),
    ]


def _text(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_manifest(
    new: Path, forms: Sequence[str], glibc: Mapping[str, str], digests: Mapping[str, str]
) -> None:
    manifest = {
        "made_by": _MADE_BY,
        "version": __version__,
        "forms": forms,
        "oldest_glibc": glibc,
        "oldest_python": "3.8",
        "files": digests,
    }
    _text(new / _MANIFEST, json.dumps(manifest, indent=1))


def _replace(folder: Path, new: Path, gone: set[str]) -> None:
    """Put the new files in place of the former ones; a running program keeps those that it has."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(new.rglob("*")):
        place = folder / path.relative_to(new)
        if path.is_dir():
            place.mkdir(exist_ok=True)
            place.chmod(0o755)
            continue
        with replacing(place) as temporary:
            shutil.copyfile(path, temporary)
            temporary.chmod(path.stat().st_mode | 0o444)
    for name in gone:
        (folder / name).unlink()
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder, before it
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
