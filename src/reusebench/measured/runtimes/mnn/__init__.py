"""MNN, from the wheel MNN, through its Module API."""
