"""The adapter of OpenVINO, on the CPU.

`import openvino` also imports its converter, if that is installed, and the converter reports to its
maker: a thread opens a connection, and two files are written into the user's home folder. A
measurement neither reports nor includes that. OpenVINO works without its converter, and the import
takes 15 MiB less.
"""

import sys

sys.modules["openvino.tools.ovc"] = None  # type: ignore[assignment]
