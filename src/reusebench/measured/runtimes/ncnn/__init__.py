"""ncnn, through its Python wheel: nets in fp32, one thread per inference, on the CPU.

Extractors over one net share its weights. A running inference takes internal memory from the net's
pools, or from an arena of the application (arena.py).
"""
