"""The preload library that keeps the ledger and plays the NPU's driver: its C sources, and how they are compiled."""
