"""MegEngine Lite, of the wheel MegEngine, which there is for Python 3.8 to 3.10."""
