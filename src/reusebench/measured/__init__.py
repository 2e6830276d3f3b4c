"""All that runs in the measured process, and nothing else: its imports add to the memory that is
measured.

Standard library, numpy if the runtime needs it, and the runtime; Python 3.8. start.py starts it.
"""
