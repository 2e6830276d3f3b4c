"""The adapter of ONNX Runtime.

The wheel of ONNX Runtime 1.31 for Linux reports to its maker: some 8 s after the first session its
threads look a name up, which loads a library of the C library's and takes 19 mappings. A
measurement neither reports nor weighs that. The call disable_telemetry_events() was seen to change
nothing; this variable does, if it is there before the import.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
