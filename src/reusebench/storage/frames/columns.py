"""The columns of the frames, their units and their types.

Columns are a promise to users: new ones come at the end of their group.
"""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.samplers.readings import NpuMemory, ProcessMemory, SystemMemory
from reusebench.storage.configuration_row import ConfigurationRow
from reusebench.storage.metrics import BYTES, METRICS
from reusebench.storage.result import PhaseReading
from reusebench.targets.barriers import BarrierReading

__all__ = [
    "CONFIGURATION_COLUMNS",
    "COUNT",
    "FIELDS",
    "HELD",
    "LEDGER_COLUMNS",
    "LEDGER_KEYS",
    "METRICS_OF",
    "NPU_LIVE",
    "OF_WHOLE",
    "RESULT_COLUMNS",
    "RESULT_KEYS",
    "SYSTEM",
    "TRACE_COLUMNS",
    "TRACE_KEYS",
    "TYPES",
    "UNITS",
    "WIDE_RESULT_COLUMNS",
    "WIDE_TRACE_COLUMNS",
    "Field",
]

#: Unit of descriptors and threads.
COUNT = "count"


@dataclass(frozen=True)
class Field:
    """A number of a reading."""

    #: Name of the column.
    name: str
    #: The part of the reading, "" for the reading itself, and the field of the part.
    part: str
    key: str

    @property
    def unit(self) -> str:
        """The unit, which follows from the name."""
        return BYTES if self.name.endswith("_bytes") else COUNT

    def of(self, reading: PhaseReading | BarrierReading) -> int | None:
        """Return the number; None if it was not read."""
        part = getattr(reading, self.part) if self.part else reading
        number: int | None = getattr(part, self.key, None)
        return number


#: NPU buffers by the ledger.
NPU_LIVE = "npu_live_bytes"
#: NPU buffers that a recorded program holds.
HELD = "npu_memory_bytes"
#: MemTotal - MemAvailable.
SYSTEM = "system_memory_bytes"
#: Fields of NpuMemory that are no numbers.
_NO_NUMBERS = ("process_dmabuf_bytes_by_exporter", "system_dmabuf_source")

#: Numbers that are read at barriers, and stored for the end of each phase.
FIELDS = (
    *(Field(key, "process", key) for key in ProcessMemory.__struct_fields__),
    *(Field(f"system_{key}", "system", key) for key in SystemMemory.__struct_fields__),
    *(Field(key, "npu", key) for key in NpuMemory.__struct_fields__ if key not in _NO_NUMBERS),
    Field(NPU_LIVE, "", NPU_LIVE),
)
_FIELD_NAMES = tuple(field.name for field in FIELDS)

#: The figures of a whole configuration, or of a phase of a program.
OF_WHOLE = tuple(metric.column for metric in METRICS)

#: Key: table; value: the metrics, in the order of the wide form. Ledgers have none.
METRICS_OF: dict[str, tuple[str, ...]] = {
    "results": (*OF_WHOLE, *_FIELD_NAMES),
    "traces": (*_FIELD_NAMES, SYSTEM, HELD),
    "ledgers": (),
}

UNITS = {
    **{field.name: field.unit for field in FIELDS},
    **{metric.column: metric.unit for metric in METRICS},
}

CONFIGURATION_COLUMNS = ConfigurationRow._fields
#: Columns that identify a row, after those of the configuration.
RESULT_KEYS = ("phase", "repeat")
TRACE_KEYS = ("repeat", "time_ns", "phase", "context", "at_barrier")
LEDGER_KEYS = (
    "repeat",
    "buffer",
    "source",
    "phase",
    "context",
    "component",
    "size_bytes",
    "asked_bytes",
    "born_ns",
    "died_ns",
)
_FIGURE = ("metric", "unit", "value")

RESULT_COLUMNS = (*CONFIGURATION_COLUMNS, *RESULT_KEYS, *_FIGURE)
WIDE_RESULT_COLUMNS = (*CONFIGURATION_COLUMNS, *RESULT_KEYS, *METRICS_OF["results"])
TRACE_COLUMNS = (*CONFIGURATION_COLUMNS, *TRACE_KEYS, *_FIGURE)
WIDE_TRACE_COLUMNS = (*CONFIGURATION_COLUMNS, *TRACE_KEYS, *METRICS_OF["traces"])
LEDGER_COLUMNS = (*CONFIGURATION_COLUMNS, *LEDGER_KEYS)

#: Types of the columns that are no text; Int64 may lack a value.
TYPES = {
    "run_number": "Int64",
    "dirty": "bool",
    "streams": "Int64",
    "contexts": "Int64",
    "sessions": "Int64",
    "tokens": "Int64",
    "prompt_tokens": "Int64",
    "generated_tokens": "Int64",
    "common_tokens": "Int64",
    "npu_memory_limit_bytes": "Int64",
    "busy_percent": "float64",
    "memory_short": "bool",
    "repeat": "Int64",
    "time_ns": "int64",
    "context": "Int64",
    "at_barrier": "bool",
    "value": "float64",
    "buffer": "Int64",
    "size_bytes": "Int64",
    "asked_bytes": "Int64",
    "born_ns": "Int64",
    "died_ns": "Int64",
}
