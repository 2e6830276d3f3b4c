"""The choice of what contexts share within a limit of memory.

It has layouts, their costs by small plans, and the search.
"""
