"""pnnx in an environment of its own; it converts ONNX files into ncnn's `.param` and `.bin`."""
