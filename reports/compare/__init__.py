"""Two sides of runs: noise, differences, the gate, and exports for other tools."""
