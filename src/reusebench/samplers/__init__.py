"""Readings of memory and of the machine.

Nothing here imports numpy or a runtime: the harness reads another process, and must not share its
libraries.
"""
