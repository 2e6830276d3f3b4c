"""The program that runs on a far board beside the measured process, and reads it for the harness: sources and build."""
