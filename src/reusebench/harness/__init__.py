"""One session of measuring: its options, subjects, repeats, progress and gate, and the pytest
plug-in.
"""
