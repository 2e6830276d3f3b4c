"""The adapter of LiteRT (once TensorFlow Lite), through the C API of the library in its wheel.

The wheel's CompiledModel for Python (2.3) holds the interpreter lock while it infers, so contexts
on several threads would run one after the other. Through ctypes they run at once, as in an
application in C++. The wheel's other class, Interpreter, has no weight cache.
"""
