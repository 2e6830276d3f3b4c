"""Where the measured process runs, and the barrier protocol with it, seen from the harness."""
