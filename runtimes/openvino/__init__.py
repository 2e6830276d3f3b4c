"""The adapter of OpenVINO, on the CPU.

`import openvino` imports its converter, if it is there, and that reports to its maker that it was imported: a thread
that opens a connection, and two files in the user's home folder. A measurement neither reports nor weighs that. OpenVINO
does without the converter, and the import takes 15 MiB less.
"""

import sys

sys.modules["openvino.tools.ovc"] = None  # type: ignore[assignment]
