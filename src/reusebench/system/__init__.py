"""The operating system's services: files, the user's cache, processes, signals.

Standard library only. A harness that imported numpy, onnx or PyAV for cached files would map
libraries that the measured process also maps, which lowers that process's PSS.
"""
