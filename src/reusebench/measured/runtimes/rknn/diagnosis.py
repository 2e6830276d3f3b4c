"""The meaning of errors of Rockchip's library, and remedies, by the library's words.

Its return codes do not tell: -1 is everything, and -6 (model invalid) may be a lack of memory. The
words are those that librknnrt 1.4.0 to 2.3.2 and librknnmrt 1.3.0 to 2.3.2 were seen to write, and
that users quote.
"""

from __future__ import annotations

import errno
import re
from typing import Callable, Dict, List, Match, Optional, Pattern, Tuple, Union

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.device_nodes import node_of
from reusebench.measured.runtimes.rknn.device import device_nodes, heap_not_opened, not_opened

__all__ = [
    "THIS_MACHINE",
    "MachineFacts",
    "cause_of",
    "cause_of_crash",
    "memory_mib_of",
    "names_rk356x",
]

#: Exception of librknnrt's parser of the description at the end of a model file, which it does not
#: catch.
_JSON_PARSER = "jsonxx::json_parse_error"
_ERRNO = re.compile(r"errno: (\d+)")
_SIZE = re.compile(r"\bsize: (\d+)")
_MEMINFO_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_COMPATIBLE = "/proc/device-tree/compatible"


class MachineFacts:
    """Facts of this machine that causes depend on, read when they are needed."""

    def memory_mib(self) -> Dict[str, int]:
        """Return the figures of /proc/meminfo, in MiB."""
        with open("/proc/meminfo", encoding="ascii") as file:
            return memory_mib_of(file.read())

    def is_rk356x(self) -> bool:
        """Whether the chip is an RK3566 or RK3568."""
        try:
            with open(_COMPATIBLE, "rb") as file:
                return names_rk356x(file.read())
        except OSError:
            return False

    def device_not_opened(self) -> Message:
        """Return the reason that the library cannot open the NPU."""
        return not_opened(device_nodes())

    def heap_not_opened(self, path: str) -> Message:
        """Return the reason that the library cannot open a heap that it allocates from."""
        return heap_not_opened(node_of(path))


THIS_MACHINE = MachineFacts()


def cause_of(words: str, machine: MachineFacts = THIS_MACHINE) -> Optional[Message]:
    """Return the cause of the library's words, and a remedy; None if it is unknown.

    If the cause depends on the machine (rights, free memory), that is read now.
    """
    for pattern, cause in _SIGNS:
        match = pattern.search(words)
        if match is None:
            continue
        if isinstance(cause, str):
            return Message(cause, match.groupdict())
        return cause(match, machine)
    return None


def cause_of_crash(last_words: str) -> Optional[Message]:
    """Return the cause of a crash; the last words of a process are not all the library's."""
    lines = []
    for line in last_words.splitlines():
        if "RKNN" in line or _JSON_PARSER in line:
            lines.append(line)
    return cause_of("\n".join(lines))


def _device_not_opened(_match: Match[str], machine: MachineFacts) -> Message:
    return machine.device_not_opened()


def _heap_not_opened(match: Match[str], machine: MachineFacts) -> Message:
    return machine.heap_not_opened(match["path"])


def _no_buffer(match: Match[str], machine: MachineFacts) -> Message:
    """Return the reason that there is no other buffer, by the driver's error if it is known.

    Errors are those of rknpu_gem_alloc_buf and rknpu_gem_get_pages in drivers/rknpu/rknpu_gem.c:
    EFAULT if pages could not be mapped for the NPU, EINVAL if there was no contiguous memory.
    """
    number = _ERRNO.search(match.string)
    code = int(number[1]) if number else 0
    if code == errno.EMFILE:
        return Message("rknn_descriptors_used_up")
    requested = _SIZE.search(match.string)
    size = requested[1] if requested else Message("rknn_unknown_size")
    if code == errno.EFAULT:
        return Message("rknn_iommu_domain_full", {"size": size})
    memory = machine.memory_mib()
    cma = memory.get("CmaFree", 0)
    if code == errno.EINVAL:
        return Message("rknn_no_contiguous_memory", {"size": size, "cma": cma})
    available = memory.get("MemAvailable", 0)
    return Message("rknn_out_of_memory", {"size": size, "cma": cma, "available": available})


def _job_failed(_match: Match[str], machine: MachineFacts) -> Message:
    """Return the reason of a failed job; RK356x kernels may put IOMMU tables beyond 4 GiB."""
    is_beyond = machine.memory_mib().get("MemTotal", 0) > 4096 and machine.is_rk356x()
    return Message("rknn_beyond_4_gib" if is_beyond else "rknn_job_failed")


def names_rk356x(compatible: bytes) -> bool:
    """Whether this text of a device tree names an RK3566 or RK3568."""
    return re.search(rb"rockchip,rk356[68]\b", compatible) is not None


def memory_mib_of(meminfo: str) -> Dict[str, int]:
    """Return the figures of a /proc/meminfo, in MiB, by their names."""
    return {name: int(kib) >> 10 for name, kib in _MEMINFO_LINE.findall(meminfo)}


#: Words, and their cause: a code of `messages`, whose fields the pattern's groups fill, or a
#: function that returns the message. The first match counts: words that name a cause are before
#: words that only follow from it.
_Sign = Tuple[Pattern[str], Union[str, Callable[[Match[str], MachineFacts], Message]]]
_SIGNS: List[_Sign] = [
    (re.compile(pattern), cause)
    for pattern, cause in (
        (
            (
                r"requires driver version >= (?P<needed>[\d.]+), but you have driver version:"
                r" (?P<driver>[\d.]+)"
            ),
            "rknn_driver_too_old",
        ),
        (r"failed to open \S+ (?:module|node), need to insmod", _device_not_opened),
        (r"Failed to open DMA heap: (?P<path>/\S+)", _heap_not_opened),
        (
            (
                r"(?:not supported on the current platform|platforms only), hw_version ="
                r" (?P<hardware>\w+)"
            ),
            "rknn_unknown_chip",
        ),
        (
            r"model is for (?P<model>\S+), but current platform is (?P<chip>\S+)",
            "rknn_wrong_platform",
        ),
        (r"rknn model does not match the RKNPU hardware version", "rknn_model_of_other_chip"),
        # librknnrt up to 1.5.0; later in two pieces. librknnmrt also says so of the other
        # libraries' form.
        (r"Invalid RKNN model version (?P<version>\d+)", "rknn_model_version"),
        (r"RKNN model version is (?P<version>[\d.]+)\s*, but current", "rknn_model_version"),
        (r"incompatible model version: (?P<version>\w+)", "rknn_mini_model_version"),
        (r"failed to (?:decode config data|allocate config data memory)", "rknn_mini_model"),
        (r"Unsupport [CG]PU op: (?P<operator>[^\s,]+)", "rknn_operator_missing"),
        (r"unsupport cpu (?P<operator>\S+) op", "rknn_operator_missing"),
        (
            r"exportDataSize large then model size|model is too small|invalid rknn model"
            r" size|invalid RKNN_MAGIC"
            r"|invalid rknn model magic|Verify ModelBuffer failed|Invalid RKNN format|"
            + _JSON_PARSER,
            "rknn_model_damaged",
        ),
        (r"failed to convert fd\(-?\d+\) to handle", "rknn_foreign_memory_refused"),
        (r"failed to map memory", "rknn_mappings_used_up"),
        (
            r"failed to allocate (?:handle|fd|model memory)|failed to convert handle\(\d+\) to fd"
            r"|DMA Heap allocation failed|failed to malloc npu memory",
            _no_buffer,
        ),
        (r"failed to submit", _job_failed),
    )
]
