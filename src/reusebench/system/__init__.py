"""What is taken from the operating system, and given back: files, the user's cache, processes and
signals.

Standard library only: the harness asks for cached files, and a harness that imported numpy, onnx or
PyAV would map libraries that the measured process maps too, which lowers the PSS of that process.
"""
