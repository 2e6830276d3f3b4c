"""MNN, of the wheel MNN, by its Module API."""
