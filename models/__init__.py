"""Model files made from code: one description of each network, emitted for the runtimes that read it.

networks/ lists the networks, layers.py what they are made of, onnx_emitter.py writes them as ONNX.
Importing this package imports neither numpy nor onnx: the harness must not map the libraries of the
measured process, since shared pages would count for half there. ensure() builds in another process.
"""

from __future__ import annotations

from models.cache import cache_root, ensure
from models.errors import ModelError
from models.network import Network
from models.networks import NETWORKS, NetworkEntry, find_network

__all__ = ["NETWORKS", "ModelError", "Network", "NetworkEntry", "cache_root", "ensure", "find_network"]
