"""Runs commands of the product in this process: thousands of them, with one import."""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from benchmarks.faults.sandbox import CHECKOUT
from benchmarks.faults.trial import ENDS, End, Kind, Wrong
from reusebench.commands import main

__all__ = ["peak_rss_bytes", "place_of", "reset_peak", "run_call", "run_command"]


class _TooLong(BaseException):
    """The time of a command is over; no handler of the product catches a BaseException."""


def run_command(arguments: tuple[str, ...], time_limit_s: float) -> End:
    """Run `reusebench ARGUMENTS` and return how it ended."""
    with _memory_file() as output, _memory_file() as errors:
        code, wrong = _end(arguments, time_limit_s, output, errors)
        texts = [_text(descriptor) for descriptor in (output, errors)]
    if wrong is None and code not in ENDS:
        wrong = Wrong(Kind.FALSE, f"exit code {code}", f"reusebench {' '.join(arguments)}")
    return End(code, texts[0], texts[1], wrong)


def run_call(call: Callable[[], object], time_limit_s: float) -> Iterator[Wrong]:
    """Call a part of the product, and yield a fault if it raises an error or takes too long."""
    earlier = signal.signal(signal.SIGALRM, _raise_too_long)
    signal.setitimer(signal.ITIMER_REAL, time_limit_s)
    try:
        call()
    except _TooLong as error:
        yield Wrong(Kind.HANG, place_of(error), _words(error))
    except Exception as error:
        yield Wrong(Kind.TRACEBACK, place_of(error), _words(error))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _end(
    arguments: tuple[str, ...], time_limit_s: float, output: int, errors: int
) -> tuple[int, Wrong | None]:
    streams = [
        os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors=handler)
        for descriptor, handler in ((output, "strict"), (errors, "backslashreplace"))
    ]
    earlier = signal.signal(signal.SIGALRM, _raise_too_long)
    signal.setitimer(signal.ITIMER_REAL, time_limit_s)
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            main(list(arguments), prog_name="reusebench")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1, None
    except _TooLong as error:
        return -1, Wrong(Kind.HANG, place_of(error), _words(error))
    except BaseException as error:
        return -1, Wrong(Kind.TRACEBACK, place_of(error), _words(error))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
        for stream in streams:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
    raise AssertionError("a command of click always exits")


def _raise_too_long(_number: int, _frame: FrameType | None) -> None:
    raise _TooLong


def place_of(error: BaseException) -> str:
    """Return the type of an error and the last line of the project in its traceback."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_of_product(Path(frame.filename))
    ]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {_relative(Path(last.filename))}:{last.lineno} {last.name}"


def _is_of_product(path: Path) -> bool:
    inside = path.is_relative_to(CHECKOUT) and ".venv" not in path.parts
    return inside and not path.is_relative_to(CHECKOUT / "benchmarks")


def _relative(path: Path) -> Path:
    return path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else Path(path.name)


def _words(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-4000:]


@contextlib.contextmanager
def _memory_file() -> Iterator[int]:
    descriptor = os.memfd_create("output")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _text(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read().decode("utf-8", "surrogateescape")


def reset_peak() -> None:
    """Let the kernel reset VmHWM."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_rss_bytes() -> int:
    """Return the highest RSS of this process since the last reset."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
