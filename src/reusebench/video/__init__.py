"""The frames of streams: a decoder, what scales its frames into a context's input, and a clip made from code.

decoder.py and letterbox.py run in the measured process, and import the standard library and `av` (PyAV) alone;
describe.py and clip.py serve the harness, which imports no `av`: descriptions and clips are made in other processes.
"""

__all__ = ["VideoError"]


class VideoError(Exception):
    """A video cannot be made or described; the message has the reason and what to do next."""
