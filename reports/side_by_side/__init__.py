"""The same network on one chip with two NPU runtimes."""
