"""Streams of video: frames kept, memory over time, and what decoding takes."""
