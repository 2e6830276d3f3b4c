"""INT8 `.tflite` files for Mesa's Teflon delegate, made of ONNX files in onnx2tf's environment."""
