"""The build of the preload library, which keeps the ledger and plays the NPU's driver."""
