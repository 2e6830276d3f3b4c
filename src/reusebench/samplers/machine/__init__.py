"""The state of the machine during a run: CPU use, temperatures, frequencies, throttling."""
