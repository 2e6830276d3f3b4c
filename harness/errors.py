"""Every mistake of a user that stops `pytest bench/` before it measures: what is wrong, what is valid, what to do."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "ChipUnknown",
    "ModelFileEmpty",
    "ModelFileMissing",
    "ModelNotBuilt",
    "NoRuntime",
    "PssUnreadable",
    "ResolutionsMissing",
    "RuntimeNotInstalled",
    "RuntimeNotOnTarget",
    "StorageNotLocal",
    "StorageNotWritable",
    "TargetInvalid",
    "UserError",
]


class UserError(Exception):
    """The user can put it right; conftest.py shows it as pytest's usage error, without a traceback."""


class ChipUnknown(UserError):
    """Built-in models are wanted for the NPU of a machine that is no known Rockchip board."""

    def __init__(self) -> None:
        super().__init__(
            "the built-in models are made for one chip, and this machine's is not known. Give your own with --model "
            "FILE, or choose a chip with --target vboard:CHIP"
        )


class ModelFileMissing(UserError):
    """--model or --resolution names no file."""

    def __init__(self, option: str, path: Path) -> None:
        what = "is a folder" if path.is_dir() else "does not exist"
        super().__init__(f"{option} {path}: {what}. Give a model file, or leave {option} out for the built-in set")


class ModelFileEmpty(UserError):
    """--model or --resolution names a file without content."""

    def __init__(self, option: str, path: Path) -> None:
        super().__init__(f"{option} {path}: the file is empty. Export or copy it again")


class ModelNotBuilt(UserError):
    """A built-in model could not be made."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"a built-in model could not be built: {reason}. Give your own with --model FILE")


class ResolutionsMissing(UserError):
    """--model is given, and shared weights are asked for."""

    def __init__(self) -> None:
        super().__init__(
            "--model is given without --resolution: weights are shared between resolutions of one network. Give each "
            "with --resolution FILE[,WEIGHTLESS], the one with the weights first"
        )


class RuntimeNotOnTarget(UserError):
    """--runtime and --target do not go together."""

    def __init__(self, runtime: str, target: str) -> None:
        super().__init__(
            f"--runtime {runtime}: {target} has Rockchip's runtime alone. Leave --runtime out, or --target"
        )


class TargetInvalid(UserError):
    """--target or --rknn-library cannot be used; targets.errors has the sentences, which name the option."""


class PssUnreadable(UserError):
    """The kernel does not say which pages a process has."""

    def __init__(self) -> None:
        super().__init__(
            "this kernel gives no PSS: neither /proc/PID/smaps_rollup nor /proc/PID/smaps can be read. It needs "
            "CONFIG_PROC_PAGE_MONITOR=y; `python -m runtimes` shows every memory source"
        )


class RuntimeNotInstalled(UserError):
    """--runtime names a runtime that this machine, or this Python, does not have."""

    def __init__(self, name: str, install: str) -> None:
        super().__init__(f"--runtime {name} is not here: {install}")


class NoRuntime(UserError):
    """No runtime at all is installed."""

    def __init__(self) -> None:
        super().__init__("no runtime is installed for this Python. `python -m runtimes` says what to install")


class StorageNotLocal(UserError):
    """--benchmark-storage is not a folder."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"--benchmark-storage {uri}: results and traces need a folder; valid: file://PATH or a path")


class StorageNotWritable(UserError):
    """Results could not be stored."""

    def __init__(self, path: Path, reason: OSError) -> None:
        super().__init__(
            f"the storage {path} cannot be written ({reason.strerror}). Choose another: --benchmark-storage=file://PATH"
        )
