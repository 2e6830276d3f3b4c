"""Scenarios: which contexts to make, and who reuses what from whom; each is a function from
Parameters to a Plan.
"""
