"""The runtime OpenVINO GenAI."""
