"""onnx2tf in an environment of its own; it converts ONNX files into `.tflite` files."""
