"""`.mnn` files of ONNX files, by the converter of MNN's own package."""
