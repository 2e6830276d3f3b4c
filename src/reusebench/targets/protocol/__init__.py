"""The protocols between the harness and each driver: commands in, messages out."""
