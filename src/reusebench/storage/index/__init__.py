"""The index of storages: what their runs hold, as columns, so that commands read few JSON files.

The JSON files are the truth. The index is made of them, and is never needed.
"""
