"""The measured process in C, for Rockchip's runtime on boards without Python."""
