"""Programs of others on this machine, which reach what they need and nothing else."""
