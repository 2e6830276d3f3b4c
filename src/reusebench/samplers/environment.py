"""Facts about the machine that affect memory and speed, and stay the same from run to run."""

from __future__ import annotations

import re
from typing import Any

from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.host import Host, own_pid, read_texts
from reusebench.samplers.npu import rknpu_driver_version
from reusebench.samplers.readings import Environment
from reusebench.samplers.sources import memory_sources
from reusebench.samplers.system_memory import read_system

__all__ = ["environment", "machine_facts"]

_RELEASE = "/proc/sys/kernel/osrelease"
_CPUINFO = "/proc/cpuinfo"
#: 32-bit Arm kernels have a line with the board in place of the processor's name.
_PROCESSOR = re.compile(r"^(?:model name|Hardware)\s*:\s*(.+)$", re.MULTILINE)
#: Variables that affect an allocator or a thread pool, and so the measured figures.
_PREFIXES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "OMP_", "ORT_", "RKNN_")

#: Files of one line, except swaps. Device tree strings and variables end with a zero byte each.
_FACTS = {
    "model": "/proc/device-tree/model",
    "compatible": "/proc/device-tree/compatible",
    "cpu_governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "cpu_max_khz": "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
    "hugepages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "overcommit_memory": "/proc/sys/vm/overcommit_memory",
    "address_randomisation": "/proc/sys/kernel/randomize_va_space",
    "swaps": "/proc/swaps",
    # Variables of the reading process, whose children inherit them.
    "variables": "/proc/self/environ",
}


def environment(host: Host, board: str) -> Environment:
    """Return the facts; a fact is None if this machine does not show it."""
    texts = read_texts(host, _FACTS.values())
    facts = {}
    for name, path in _FACTS.items():
        if path in texts:
            facts[name] = texts[path].strip("\0\n ")
    meminfo = read_system(host)
    group = GroupWatch(host).read()
    compatible = facts.get("compatible")
    # `always [madvise] never`
    hugepages = facts.get("hugepages", "").partition("[")[2].partition("]")[0]
    swaps = facts.get("swaps")
    return Environment(
        board=board,
        board_model=facts.get("model"),
        board_compatible=tuple(filter(None, compatible.split("\0"))) if compatible else None,
        npu_driver_version=rknpu_driver_version(host),
        memory_total_bytes=meminfo.total_bytes,
        memory_limit_bytes=group.limit_bytes if group else None,
        cma_total_bytes=meminfo.cma_total_bytes,
        page_size_bytes=host.page_bytes,
        usable_cpus=host.usable_cpus(),
        cpu_governor=facts.get("cpu_governor"),
        cpu_max_khz=facts.get("cpu_max_khz"),
        transparent_hugepages=hugepages or None,
        overcommit_memory=facts.get("overcommit_memory"),
        address_randomisation=facts.get("address_randomisation"),
        swaps=len(swaps.splitlines()) - 1 if swaps else 0,
        variables=_variables(facts.get("variables", "")),
        memory_sources=tuple(memory_sources(host, own_pid(host))),
    )


def machine_facts(host: Host, node: str, architecture: str) -> dict[str, Any]:
    """Return pytest-benchmark's facts about a machine, under its names, without Python's."""
    texts = read_texts(host, (_RELEASE, _CPUINFO))
    processor = _PROCESSOR.search(texts.get(_CPUINFO, ""))
    return {
        "node": node,
        "machine": architecture,
        "processor": "",
        "system": "Linux",
        "release": texts.get(_RELEASE, "").strip(),
        "cpu": {"brand_raw": processor[1]} if processor else {},
    }


def _variables(environment: str) -> dict[str, str]:
    """Return the variables that matter, sorted, from zero-terminated strings `KEY=value`."""
    variables = {}
    for variable in sorted(environment.split("\0")):
        key, _, value = variable.partition("=")
        if key.startswith(_PREFIXES):
            variables[key] = value
    return variables
