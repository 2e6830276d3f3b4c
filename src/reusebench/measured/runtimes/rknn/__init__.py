"""Rockchip's RKNN runtime through its C API.

abi.py is the header as ctypes, binding.py the checked calls, memory.py and tensors.py what an
application allocates and how tensors move, adapter.py the contexts. library.py finds and describes
the library's file without loading it. Importing this package loads nothing of Rockchip's.
"""
