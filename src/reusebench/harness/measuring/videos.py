"""The video that the streams of a session play: the user's, or the default clip."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.harness.errors import NoModels, UserError
from reusebench.measured.plan import Video
from reusebench.system.user_files import Pins, UserFileError, check_file
from reusebench.targets.machine import LOCAL
from reusebench.targets.target import Target
from reusebench.video import VideoError
from reusebench.video.clip import Clip, clip_path, ensure_clip
from reusebench.video.probe import probe_with

__all__ = ["Videos"]


@dataclass
class Videos:
    """The video of each runtime, read once per interpreter: they may differ in what they decode."""

    targets: Mapping[str, Target]
    #: File of --video; None: the clip.
    file: Path | None = None
    #: The session's files as they were when they were first read.
    pins: Pins = field(default_factory=Pins)
    #: The default clip.
    clip: Clip = field(default_factory=Clip)
    #: Key: interpreter. The video, or why there is none.
    _videos: dict[str, Video | VideoError] = field(default_factory=dict)

    @property
    def are_ready(self) -> bool:
        """Whether no clip has to be made first."""
        decodes = any(target.decodes for target in self.targets.values())
        return self.file is not None or not decodes or clip_path(self.clip).exists()

    def of(self, runtime: str) -> Video | None:
        """Return the video for a runtime; None if nothing is decoded.

        Raises UserError if the user's video cannot be read, NoModels if the clip cannot be made.
        """
        target = self.targets[runtime]
        if not target.decodes:
            return None
        # Videos for a remote board are described here, where the file is.
        interpreter = target.command[0] if target.machine is LOCAL else sys.executable
        if interpreter not in self._videos:
            self._videos[interpreter] = self._describe(interpreter)
        video = self._videos[interpreter]
        if isinstance(video, VideoError):
            raise UserError(f"--video {video}") if self.file else NoModels(str(video))
        return video

    def _describe(self, interpreter: str) -> Video | VideoError:
        try:
            path = check_file(self.file or ensure_clip(self.clip))
            digest = self.pins.digest(path)
            description = probe_with(interpreter, path)
        except UserFileError as error:
            return VideoError(f"{error}. Give a file that FFmpeg reads")
        except VideoError as error:
            return error
        return Video(name=path.name, path=str(path), digest=digest, **description)
