"""The machine beside a run: CPU use, temperatures, frequencies, throttling."""
