"""Model files made from code: one description of each network, emitted for the runtimes that read it.

networks/ lists the networks, layers.py what they are made of, onnx_emitter.py writes them as ONNX;
rknn_emitter.py has rknn-toolkit2 convert these for Rockchip's NPUs, megengine_emitter.py has MegEngine build them.
Importing this package imports neither numpy nor onnx: the harness must not map the libraries of the
measured process, since shared pages would count for half there. What is called ensure builds in another process.
"""

from __future__ import annotations

from models.cache import cache_root, ensure
from models.errors import ModelError
from models.megengine.emitter import ensure_mge, ensure_mge_all
from models.megengine.environment import megengine_folder, megengine_installed, megengine_python
from models.networks import NETWORKS, NetworkEntry, find_network
from models.networks.network import Network
from models.platforms import RKNN_PLATFORMS
from models.recipe import MEGENGINE_VERSION, MegEngineRecipe, Recipe, RknnRecipe
from models.rknn.emitter import ensure_rknn, ensure_rknn_all
from models.rknn.toolkit import toolkit_installed

__all__ = [
    "MEGENGINE_VERSION",
    "NETWORKS",
    "RKNN_PLATFORMS",
    "MegEngineRecipe",
    "ModelError",
    "Network",
    "NetworkEntry",
    "Recipe",
    "RknnRecipe",
    "cache_root",
    "ensure",
    "ensure_mge",
    "ensure_mge_all",
    "ensure_rknn",
    "ensure_rknn_all",
    "find_network",
    "megengine_folder",
    "megengine_installed",
    "megengine_python",
    "toolkit_installed",
]
