"""rknn-toolkit2 in an environment of its own; it converts ONNX files into `.rknn` files."""
