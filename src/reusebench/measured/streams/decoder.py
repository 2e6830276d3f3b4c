"""Decodes a video over and over.

Runs in the measured process: standard library and PyAV, Python 3.8.
"""

from __future__ import annotations

import gc
from typing import Any, Dict, Iterator, Optional, Tuple

import av
from av.error import FFmpegError, InvalidDataError

from reusebench.measured.runtimes.base import AdapterError

__all__ = ["Decoder", "describe"]


class Decoder:
    """An endless stream of frames: the first frame of the clip follows its last. Not thread-safe.

    It decodes in the calling thread, as one context infers with one core. FFmpeg's own threads
    would take cores that the plan does not know, and each would hold one more frame. Damaged
    packets, which recordings of cameras have, are skipped: their frames are missing, and the next
    frame has the next index.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._seeks = True
        self._container, self._stream = _open(path)
        self._frames = self._decoded()
        self._index = -1
        #: Time of the first frame, to check a seek to the start.
        self._first_pts: Optional[int] = None

    def next_frame(self) -> Tuple[int, Any]:
        """Return the next frame's index in the clip, from 0 on, and the frame (av.VideoFrame)."""
        frame = next(self._frames, None)
        if frame is None:
            self.restart()
            frame = next(self._frames, None)
        if frame is None:
            raise AdapterError("video_without_frames", path=self._path)
        self._index += 1
        if self._index == 0:
            frame = self._checked_first(frame)
        return self._index, frame

    def restart(self) -> None:
        """Continue with the first frame of the clip."""
        if self._index >= 0:
            self._to_start()
        self._frames = self._decoded()
        self._index = -1

    def close(self) -> None:
        """Release the file and the decoder's memory; frames that were returned stay valid."""
        self._frames = iter(())
        self._container.close()

    def _decoded(self) -> Iterator[Any]:
        """Yield the frames from here to the end of the clip, or to where its file is cut off."""
        try:
            for packet in self._container.demux(self._stream):
                try:
                    frames = packet.decode()
                except InvalidDataError:
                    continue
                yield from frames
        except (InvalidDataError, EOFError):
            return
        except FFmpegError as error:
            raise AdapterError("video_unreadable", path=self._path, reason=_words(error)) from None

    def _to_start(self) -> None:
        try:
            if self._seeks:
                # Seeking also flushes the decoder.
                self._container.seek(self._stream.start_time or 0, stream=self._stream)
                return
        except FFmpegError:
            self._seeks = False
        self._reopen()

    def _reopen(self) -> None:
        """Open the file anew; a reference cycle (PyAV 12) holds the old container, with megabytes
        of frames.
        """
        self.close()
        self._container, self._stream = _open(self._path)
        gc.collect()

    def _checked_first(self, frame: Any) -> Any:
        """Return the clip's first frame; without an index, containers may seek to another one."""
        if self._first_pts is None:
            self._first_pts = frame.pts
            # Without times nobody knows where a seek went.
            self._seeks = frame.pts is not None
        elif self._seeks and frame.pts != self._first_pts:
            self._seeks = False
            self._reopen()
            self._frames = self._decoded()
            frame = next(self._frames, None)
            if frame is None:
                raise AdapterError("video_without_frames", path=self._path)
        return frame


def describe(path: str) -> Dict[str, Any]:
    """Return codec, width and height in pixels, fps, and the number of frames of a video.

    fps and frames are 0 if they are not in the file. One frame is decoded, to prove that it can be.
    """
    decoder = Decoder(path)
    try:
        _, frame = decoder.next_frame()
        stream = decoder._stream
        return {
            "codec": stream.codec_context.name,
            "width": frame.width,
            "height": frame.height,
            "fps": round(float(stream.average_rate or stream.guessed_rate or 0), 3),
            "frames": stream.frames,
        }
    finally:
        decoder.close()


def _open(path: str) -> Tuple[Any, Any]:
    """Return the open container and its first video stream, with a decoder without threads."""
    try:
        # The protocol is given, because a colon in a path would be taken for one.
        container = av.open(f"file:{path}")
    except FFmpegError as error:
        raise AdapterError("video_unreadable", path=path, reason=_words(error)) from None
    try:
        return container, _video_stream(container, path)
    except Exception:
        container.close()
        raise


def _video_stream(container: Any, path: str) -> Any:
    if not container.streams.video:
        raise AdapterError("video_without_pictures", path=path)
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise AdapterError("video_without_decoder", path=path)
    stream.codec_context.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    return stream


def _words(error: FFmpegError) -> str:
    return error.strerror or str(error)
