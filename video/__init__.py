"""The frames of streams: a decoder, what scales its frames into a context's input, and a clip made from code.

decoder.py and letterbox.py run in the measured process, and import the standard library and `av` (PyAV) alone;
asked.py and clip.py serve the harness, which imports no `av`: what it asks and makes runs in other processes.
"""
