"""The account of NPU memory: the ledger of buffers, their owners and kinds, and actual reads.

Pure functions over plain data: a Plan, the barriers of one process, and the ledger that the preload
library of targets/ wrote while the process ran.
"""
