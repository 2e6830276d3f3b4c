"""The runtime ONNX Runtime GenAI, which is kept from reporting to its maker.

Unless this is set before the import, a thread sends events, and an identifier is written into the
user's home folder. A measurement neither reports nor includes that.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
