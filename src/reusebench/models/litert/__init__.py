"""onnx2tf in an environment of its own, and the `.tflite` files that it makes of ONNX files."""
