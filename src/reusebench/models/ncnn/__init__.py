"""pnnx in an environment of its own, and the `.param` and `.bin` files that it makes of ONNX files
for ncnn.
"""
