"""Whose NPU memory is what: the ledger of buffers, their owners and kinds, and what contexts really
read.

Pure functions over plain data: a Plan, the barriers of one process, and the ledger that the preload
library of targets/ wrote while it ran.
"""
