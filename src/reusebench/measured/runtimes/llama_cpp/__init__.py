"""llama.cpp, through the library that its Python package brings.

`library` loads it, `options` are the words of a user, `model` is a file's weights, `native` is a
llama_context with its sequences, `account` reads what it allocated, and `adapter` makes
conversations of them.
"""
