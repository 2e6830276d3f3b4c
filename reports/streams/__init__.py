"""Streams of video: frames kept, memory over time, and the memory of decoding."""
