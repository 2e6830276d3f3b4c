"""All that runs in the measured process, and nothing else: its imports add to that memory."""
