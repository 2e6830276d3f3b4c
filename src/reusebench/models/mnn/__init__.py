"""Conversion of ONNX files into `.mnn` files, by the converter in MNN's own package."""
