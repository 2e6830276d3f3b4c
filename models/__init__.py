"""Model files made from code: one description of each network, emitted for the runtimes that read it.

networks/ lists the networks, layers.py what they are made of, onnx_emitter.py writes them as ONNX;
rknn_emitter.py has rknn-toolkit2 convert these for Rockchip's NPUs.
Importing this package imports neither numpy nor onnx: the harness must not map the libraries of the
measured process, since shared pages would count for half there. ensure() and ensure_rknn() build in
another process.
"""

from __future__ import annotations

from models.cache import cache_root, ensure
from models.errors import ModelError
from models.network import Network
from models.networks import NETWORKS, NetworkEntry, find_network
from models.recipe import Recipe, RknnRecipe
from models.rknn_emitter import ensure_rknn, ensure_rknn_all
from models.rknn_platforms import RKNN_PLATFORMS
from models.rknn_toolkit import toolkit_installed

__all__ = [
    "NETWORKS",
    "RKNN_PLATFORMS",
    "ModelError",
    "Network",
    "NetworkEntry",
    "Recipe",
    "RknnRecipe",
    "cache_root",
    "ensure",
    "ensure_rknn",
    "ensure_rknn_all",
    "find_network",
    "toolkit_installed",
]
