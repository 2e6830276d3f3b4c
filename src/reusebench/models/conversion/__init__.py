"""Libraries whose pins clash with the project's: an environment for each, and a process in it that
converts models.
"""
