"""The virtual board: Rockchip's own library on any Linux machine, under qemu, with an NPU driver of
ours.
"""
