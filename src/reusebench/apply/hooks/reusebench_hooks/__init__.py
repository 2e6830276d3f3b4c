"""What lets the models of a Python program share memory: a module for each runtime.

It runs in the user's process: Python 3.8, the standard library alone, and the runtime.
"""
