"""The adapter of Teflon: Mesa's delegate, by which LiteRT uses an NPU with a mainline driver."""
