"""Videos for streams: descriptions of users' videos, and a default clip made from code.

The harness does not import `av` (PyAV): other processes make descriptions and clips. The decoder of
the measured process is in measured/streams/.
"""

__all__ = ["VideoError"]


class VideoError(Exception):
    """A video cannot be made or described; the message has the reason and what to do next."""
