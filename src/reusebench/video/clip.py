"""The default clip, made from code once and kept in the user's cache.

Standard library only: the harness imports this, and another process makes the clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reusebench.system.cache import CacheError, cache_root, locked, run_in_another_process
from reusebench.system.files import UNFINISHED
from reusebench.video import VideoError

__all__ = ["Clip", "clip_path", "ensure_clip"]

#: Part of the name. Raise it when the content changes, so that everybody gets the new clip. 1: the
#: first.
_REVISION = 1
#: Smallest and largest side in pixels that 4:2:0 and H.264's levels allow.
_SMALLEST = 16
_LARGEST = 4096
_MOST_FPS = 240
_MOST_SECONDS = 600


@dataclass(frozen=True)
class Clip:
    """A clip to make; the defaults are those of a camera."""

    width: int = 1920
    height: int = 1080
    fps: int = 30
    seconds: float = 10.0

    def __post_init__(self) -> None:
        """Raise VideoError if the clip cannot be encoded."""
        for side in (self.width, self.height):
            if side % 2 or not _SMALLEST <= side <= _LARGEST:
                raise VideoError(
                    f"a clip cannot have the size {self.width}x{self.height}; "
                    f"valid: even numbers of pixels from {_SMALLEST} to {_LARGEST}"
                )
        if not 1 <= self.fps <= _MOST_FPS:
            raise VideoError(
                f"a clip cannot have {self.fps} frames per second; valid: 1 to {_MOST_FPS}"
            )
        if not (self.seconds <= _MOST_SECONDS and self.frames >= 1):
            raise VideoError(
                f"a clip cannot have a length of {self.seconds:g} s; valid: from one frame to"
                f" {_MOST_SECONDS} s"
            )

    @property
    def frames(self) -> int:
        """Number of frames."""
        return round(self.seconds * self.fps)

    @property
    def file_name(self) -> str:
        """Name of the file in the cache."""
        return f"clip-{self.width}x{self.height}-{self.fps}fps-{self.seconds:g}s-v{_REVISION}.mp4"


def clip_path(clip: Clip = Clip()) -> Path:
    """Return the path of the clip in the cache; it may not exist yet."""
    return cache_root() / "videos" / clip.file_name


def ensure_clip(clip: Clip = Clip()) -> Path:
    """Return the clip's file from the cache, made first if it is missing, which takes seconds.

    Two simultaneous callers get the same file, made once. Raises VideoError if it cannot be made.
    """
    path = clip_path(clip)
    if path.exists():
        return path
    try:
        with locked(path):
            # Another process may have made it while it held the lock.
            if not path.exists():
                for leftover in path.parent.glob(f".*{UNFINISHED}"):
                    leftover.unlink()
                options = ["--size", f"{clip.width}x{clip.height}", "--fps", str(clip.fps)]
                options += ["--duration", str(clip.seconds), "--output", str(path)]
                run_in_another_process("reusebench", "models", "clip", *options)
    except CacheError as error:
        raise VideoError(
            f"the default video could not be made: {error}. Or give a video of your own with"
            " --video FILE"
        ) from None
    return path
