"""Rockchip's RKNN runtime through its C API.

abi.py is the header as ctypes, and binding.py the checked calls. application_memory.py has the
memory that an application allocates, tensors.py the ways that tensors move, adapter.py the
contexts. library_file.py finds and describes the library's file without loading it. Importing this
package loads nothing of Rockchip's.
"""
