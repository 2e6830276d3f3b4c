"""What can be wrong with a video, as sentences for the user (standard library only, Python 3.8)."""

from __future__ import annotations

import sys

from runtimes.base import AdapterError

__all__ = [
    "ClipNotMade",
    "InvalidClip",
    "NoDecoder",
    "NoEncoder",
    "NoFrames",
    "NoPyAv",
    "NoVideoStream",
    "VideoError",
    "VideoUnreadable",
]


class VideoError(AdapterError):
    """A video cannot be had or decoded; the message says why and what to do next."""


class VideoUnreadable(VideoError):
    """The file is not there, or is no video."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read as a video: {reason}. Give the path of a whole file that FFmpeg reads")


class NoVideoStream(VideoError):
    """The file has other streams alone."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} has no video stream, only sound or the like. Give a file with pictures")


class NoDecoder(VideoError):
    """PyAV was built without a decoder of this codec."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"PyAV has no decoder for the codec of {path}. Convert it, for instance: "
            "ffmpeg -i FILE -an -c:v libx264 -pix_fmt yuv420p OUTPUT.mp4"
        )


class NoFrames(VideoError):
    """The file has a video stream, and nothing of it can be decoded."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no frame of {path} can be decoded: it is damaged or cut short. Copy or record it again")


class NoPyAv(VideoError):
    """This Python cannot decode at all."""

    def __init__(self, reason: ImportError) -> None:
        super().__init__(
            f"{sys.executable} cannot import PyAV, which decodes the frames ({reason}): pip install av; "
            "for the environment of MegEngine: python -m models megengine install"
        )


class InvalidClip(VideoError):
    """A clip of such a form cannot be made."""

    def __init__(self, what: str, given: object, valid: str) -> None:
        super().__init__(f"a clip cannot have {what} {given}; valid: {valid}")


class NoEncoder(VideoError):
    """PyAV was built without any encoder for H.264 that works here."""

    def __init__(self, reasons: str) -> None:
        super().__init__(
            f"PyAV makes no H.264 here ({reasons}): give a video of your own with --video FILE, or install PyAV's "
            "wheel, which has libx264: pip install --only-binary :all: av"
        )


class ClipNotMade(VideoError):
    """The process that was to make the clip ended without it."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"the default video is not made: {reason}. Or give a video of your own with --video FILE")
