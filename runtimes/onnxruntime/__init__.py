"""ONNX Runtime, the embedded default."""

from __future__ import annotations

from runtimes.base import Runtime

__all__ = ["open_runtime"]


def open_runtime() -> Runtime:
    """Import ONNX Runtime and return its adapter."""
    from runtimes.onnxruntime.adapter import OnnxRuntime

    return OnnxRuntime()
