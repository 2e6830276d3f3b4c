"""The measured process in C, for Rockchip's runtime on boards without Python: its build, and how it
is spoken to.
"""
