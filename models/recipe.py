"""What makes one model file: network, input size and seed."""

from __future__ import annotations

from dataclasses import dataclass

from models.errors import InvalidSeed
from models.network import Network
from models.networks import find_network

__all__ = ["EMISSION_VERSION", "Recipe"]

#: Stands in every cached file's name: raise it whenever a recipe would give other bytes than before, be it
#: by a description, the weights or the emitter, so that no stale file is measured.
#: v1: the first.
EMISSION_VERSION = 1

#: Seeds are 32 bits wide: more than anybody has models, and file names stay short.
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Recipe:
    """A valid choice of network, size and seed; making an invalid one raises a ModelError that says what is valid."""

    name: str
    #: Height and width of the input in pixels.
    size: int
    #: Another seed gives other weights in every layer.
    seed: int

    def __post_init__(self) -> None:
        """Raise UnknownNetwork, InvalidSize or InvalidSeed."""
        find_network(self.name).check_size(self.size)
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise InvalidSeed(self.seed, largest=_LARGEST_SEED)

    def network(self) -> Network:
        """Return the description."""
        return find_network(self.name).make(self.size)

    @property
    def file_name(self) -> str:
        """Name of the ONNX file in the cache."""
        return f"{self.name}-{self.size}-seed{self.seed}-v{EMISSION_VERSION}.onnx"
