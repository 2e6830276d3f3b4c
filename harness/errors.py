"""Every mistake of a user that stops `pytest bench/` before it measures: what is wrong, what is valid, what to do."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "BaselineMissing",
    "BaselineMoves",
    "BaselineNotNamed",
    "ChipUnknown",
    "FramesAreBuiltIn",
    "GateNeedsRun",
    "ModelFileEmpty",
    "ModelFileMissing",
    "ModelNotBuilt",
    "ModelOfAnotherRuntime",
    "NoModels",
    "NoRuntime",
    "NoVideo",
    "NothingDecoded",
    "PssUnreadable",
    "ResolutionsMissing",
    "ResolutionsTooFew",
    "RunMisplaced",
    "StorageNotLocal",
    "StorageNotWritable",
    "TargetInvalid",
    "UserError",
    "VideoInvalid",
]


class UserError(Exception):
    """The user can put it right; conftest.py shows it as pytest's usage error, without a traceback."""


class BaselineNotNamed(UserError):
    """A limit is given, and nothing that it could be held against."""

    def __init__(self) -> None:
        super().__init__(
            "--memory-fail and --memory-across need --memory-baseline RUNS: the name, number or file of the runs to "
            "compare with. Make some with `pytest bench/ --benchmark-save=NAME`"
        )


class BaselineMoves(UserError):
    """The baseline is named by words that mean another run each time."""

    def __init__(self, words: str) -> None:
        super().__init__(
            f"--memory-baseline {words}: a run that got worse would be the next baseline. Name one that stays: a name "
            "given with --benchmark-save, a number, a file or a git revision"
        )


class BaselineMissing(UserError):
    """--memory-baseline means no stored run; storage.references has the sentences."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"--memory-baseline: {error}")


class GateNeedsRun(UserError):
    """Nothing is stored that could be compared."""

    def __init__(self) -> None:
        super().__init__("--memory-baseline needs a run that is stored: leave --benchmark-disable and -skip out")


class NoModels(UserError):
    """A scenario has no models: it is skipped with this reason, and the others go on."""


class ChipUnknown(NoModels):
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


class ModelNotBuilt(NoModels):
    """A built-in model could not be made."""

    def __init__(self, reason: object, in_place: str | None) -> None:
        instead = f". Give your own with {in_place}" if in_place else ""
        super().__init__(f"a built-in model could not be built: {reason}{instead}")


class ModelOfAnotherRuntime(NoModels):
    """--model or --resolution names a file of a kind that another runtime reads."""

    def __init__(self, option: str, path: Path, runtime: str, suffix: str) -> None:
        super().__init__(f"{option} {path}: {runtime} reads {suffix} files. Give it one, or another --runtime")


class ResolutionsMissing(NoModels):
    """--model is given, and shared weights are asked for."""

    def __init__(self) -> None:
        super().__init__(
            "--model is given without --resolution: weights are shared between resolutions of one network. Give each "
            "with --resolution FILE[,WEIGHTLESS], the one with the weights first"
        )


class ResolutionsTooFew(NoModels):
    """The scenario is about more resolutions than there are."""

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason))


class FramesAreBuiltIn(NoModels):
    """--model is given, and copies of camera frames are asked for."""

    def __init__(self) -> None:
        super().__init__(
            "--model is given: this is about the built-in network that takes a camera frame and gives one. "
            "Leave --model out to measure it"
        )


class NoVideo(NoModels):
    """The default clip cannot be made or decoded: scenarios of streams are skipped; video.errors has the sentences."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))


class NothingDecoded(NoModels):
    """Decoding alone is asked for where nothing is decoded."""

    def __init__(self) -> None:
        super().__init__("nothing is decoded on a virtual board: there is no memory of decoding to tell apart")


class VideoInvalid(UserError):
    """--video cannot be used."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(f"--video {path}: {error}")


class TargetInvalid(UserError):
    """--target or --rknn-library cannot be used; targets.errors has the sentences, which name the option."""


class PssUnreadable(UserError):
    """The kernel does not say which pages a process has."""

    def __init__(self) -> None:
        super().__init__(
            "this kernel gives no PSS: neither /proc/PID/smaps_rollup nor /proc/PID/smaps can be read. It needs "
            "CONFIG_PROC_PAGE_MONITOR=y; `python -m runtimes` shows every memory source"
        )


class NoRuntime(UserError):
    """The Python that was chosen has no runtime at all."""

    def __init__(self, target: str) -> None:
        _, _, path = target.partition(":")
        python = f"the Python of --target {target}" if path else "this Python"
        super().__init__(f"no runtime is installed for {python}. `python -m runtimes` says what to install")


class RunMisplaced(UserError):
    """The storage did not take a run that has been measured; said at the end, when nothing can be stopped."""

    def __init__(self, storage: Path, reason: OSError, saved: Path) -> None:
        super().__init__(
            f"the storage {storage} cannot be written ({reason.strerror}). The run is in {saved}. When there is room, "
            f"move it to {storage / saved.parent.name}, under a number that is free"
        )


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
