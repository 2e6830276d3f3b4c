"""The virtual board: Rockchip's library on any Linux machine, with a simulated NPU driver."""
