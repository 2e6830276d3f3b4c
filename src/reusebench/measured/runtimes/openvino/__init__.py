"""The adapter of OpenVINO, on the CPU.

`import openvino` imports its converter too, if it is there, and that reports to its maker: a thread
opens a connection, and two files are written into the user's home folder. A measurement neither
reports nor weighs that. OpenVINO does without its converter, and the import takes 15 MiB less.
"""

import sys

sys.modules["openvino.tools.ovc"] = None  # type: ignore[assignment]
