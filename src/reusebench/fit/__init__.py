"""Which contexts should share what, within a limit of memory: layouts, their costs by small plans,
and the search.
"""
