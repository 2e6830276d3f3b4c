"""Frames of video: decoding, scaling, and handing them to the contexts."""
