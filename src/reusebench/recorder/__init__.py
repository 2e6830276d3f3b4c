"""Measures any program from outside: its processes, the phases that it marks, and what each of them
takes.
"""
