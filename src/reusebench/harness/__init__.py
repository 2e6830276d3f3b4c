"""One session of measuring: options, configurations with their repeats, progress, the gate; and the
pytest plug-in.
"""
