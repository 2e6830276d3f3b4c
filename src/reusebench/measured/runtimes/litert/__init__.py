"""The adapter of LiteRT (once TensorFlow Lite), by the C API of the library in its wheel.

The wheel's CompiledModel for Python (2.3) holds the interpreter lock while it infers, so that
contexts on several threads run one after the other; through ctypes they run at once, as they do in
an application in C++. Its other class, Interpreter, has no weight cache.
"""
