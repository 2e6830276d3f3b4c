"""MegEngine Lite, from the wheel MegEngine for Python 3.8 to 3.10."""
