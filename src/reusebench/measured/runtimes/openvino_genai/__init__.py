"""The runtime OpenVINO GenAI, whose import of OpenVINO is that of the runtime OpenVINO."""

from reusebench.measured.runtimes import openvino as openvino  # keeps the converter out
