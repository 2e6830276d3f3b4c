"""The frames of streams: a decoder, what scales its frames into a context's input, and a clip made
from code.

The harness imports no `av` (PyAV): descriptions and clips are made in other processes. What decodes
in the measured process is in measured/streams/.
"""

__all__ = ["VideoError"]


class VideoError(Exception):
    """A video cannot be made or described; the message has the reason and what to do next."""
