"""ONNX Runtime, the embedded default."""
