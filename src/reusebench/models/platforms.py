"""The chips that rknn-toolkit2 makes `.rknn` files for, and its features for each."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.models.errors import ModelError

__all__ = ["RKNN_PLATFORMS", "TOOLKIT_VERSION", "RknnPlatform", "find_platform"]

#: The only version that is used, so that figures of two machines can be compared; part of each
#: file's name. Tried: librknnrt 1.5.2 and 1.6.0 and librknnmrt 2.3.2 read its files, librknnrt
#: 1.4.0 does not.
TOOLKIT_VERSION = "2.5.0"


@dataclass(frozen=True)
class RknnPlatform:
    """One chip as the toolkit names it."""

    name: str
    #: Whether the toolkit honours remove_weight. Otherwise it silently keeps the weights.
    removes_weights: bool
    #: Whether the NPU has floating point. Otherwise the toolkit makes only INT8 files.
    has_floats: bool

    def check_floats(self) -> None:
        """Raise ModelError if no file without quantisation can be made for the chip."""
        if not self.has_floats:
            valid = ", ".join(platform.name for platform in RKNN_PLATFORMS if platform.has_floats)
            raise ModelError(
                f"no file with floating point can be made for {self.name}: its NPU computes with"
                f" integers; leave --float out, or choose another chip; valid: {valid}"
            )

    def check_weightless(self) -> None:
        """Raise ModelError if no file without weights can be made for the chip."""
        if not self.removes_weights:
            valid = ", ".join(
                platform.name for platform in RKNN_PLATFORMS if platform.removes_weights
            )
            raise ModelError(
                f"no file without weights can be made for {self.name}: the toolkit ignores"
                f" remove_weight there; valid: {valid}"
            )


#: All tried with TOOLKIT_VERSION. The toolkit also knows rk2118, and aborts there on an INT8 image.
RKNN_PLATFORMS: tuple[RknnPlatform, ...] = (
    RknnPlatform("rk3588", removes_weights=True, has_floats=True),
    RknnPlatform("rk3576", removes_weights=True, has_floats=True),
    RknnPlatform("rk3568", removes_weights=True, has_floats=True),
    RknnPlatform("rk3566", removes_weights=True, has_floats=True),
    RknnPlatform("rk3562", removes_weights=True, has_floats=True),
    RknnPlatform("rv1126b", removes_weights=True, has_floats=True),
    RknnPlatform("rv1106", removes_weights=False, has_floats=False),
    RknnPlatform("rv1106b", removes_weights=False, has_floats=False),
    RknnPlatform("rv1103", removes_weights=False, has_floats=False),
    RknnPlatform("rv1103b", removes_weights=False, has_floats=False),
)


def find_platform(name: str) -> RknnPlatform:
    """Return the chip of that name; raise ModelError, which lists the valid ones."""
    for platform in RKNN_PLATFORMS:
        if platform.name == name:
            return platform
    valid = ", ".join(platform.name for platform in RKNN_PLATFORMS)
    raise ModelError(f"unknown platform {name!r}; valid: {valid}")
