"""Readings of memory and of the machine: the process, the system, the NPU, and the machine beside a
run.

Nothing here imports numpy or a runtime: the harness reads another process, and must not share its
libraries.
"""
