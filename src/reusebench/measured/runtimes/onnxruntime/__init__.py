"""The adapter of ONNX Runtime.

ONNX Runtime 1.31's wheel for Linux reports to its maker. Some 8 s after the first session its
threads look a name up, which loads a library of the C library's and adds 19 mappings. A measurement
neither reports nor includes that. disable_telemetry_events() was seen to change nothing; this
variable works if it is set before the import.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
